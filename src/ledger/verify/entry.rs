//! Checks one entry's bytes on their own: header, leaf and commitment. Pure: no disk, no clock.
//!
//! This is the expensive part of a verification. It needs no other entry, so several threads can
//! check several entries. The walk checks what depends on earlier entries.

use crate::ledger::entry::{Header, HeaderError, Kind, PlainHeader, commitment};
use crate::ledger::tree::leaf;
use crate::types::Digest;
use std::sync::Arc;

/// An entry whose bytes were checked.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct CheckedEntry {
    pub(in crate::ledger) leaf: Digest,
    /// The header's facts, or why it is not valid.
    pub(super) header: Result<EntryFacts, HeaderError>,
    pub(super) payload: PayloadState,
}

/// The fields of a header that the walk needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryFacts {
    pub(in crate::ledger) log: Arc<str>,
    pub(in crate::ledger) seq: u64,
    pub(in crate::ledger) prev: Option<Digest>,
    pub(in crate::ledger) kind: KindWord,
    /// `ref`.
    pub(in crate::ledger) answers: Option<u64>,
}

/// A kind; a later version may write one that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KindWord {
    Known(Kind),
    Other(Box<str>),
}

/// How a payload relates to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayloadState {
    /// It matches the header's commitment.
    Sound,
    /// Both salt and body are missing.
    Erased,
    /// What is wrong with it.
    Wrong(&'static str),
}

impl KindWord {
    fn parse(kind: &str) -> Self {
        Kind::parse(kind).map_or_else(|| Self::Other(kind.into()), Self::Known)
    }

    pub(in crate::ledger) fn as_str(&self) -> &str {
        match self {
            Self::Known(kind) => kind.as_str(),
            Self::Other(word) => word,
        }
    }

    pub(in crate::ledger) fn is(&self, kind: Kind) -> bool {
        *self == Self::Known(kind)
    }
}

impl CheckedEntry {
    /// Checks an entry. `log` is the id that was read last; most entries share it.
    pub(in crate::ledger) fn new(
        header: &[u8],
        salt: Option<&[u8]>,
        body: Option<&[u8]>,
        log: &mut Arc<str>,
    ) -> Self {
        let leaf = leaf(header);
        let mut facts = |id: &str, seq, prev, kind: &str, answers| {
            if **log != *id {
                *log = id.into();
            }
            EntryFacts { log: log.clone(), seq, prev, kind: KindWord::parse(kind), answers }
        };
        if let Some(plain) = PlainHeader::read(header) {
            let payload = payload(&plain.payload, plain.payload_len, salt, body);
            let facts = facts(plain.log, plain.seq, plain.prev, plain.kind, plain.answers);
            return Self { leaf, header: Ok(facts), payload };
        }
        match Header::parse_any(header) {
            Ok(read) => Self {
                leaf,
                header: Ok(facts(&read.log, read.seq, read.prev, &read.kind, read.u64("ref"))),
                payload: payload(&read.payload, read.payload_len, salt, body),
            },
            // Without a valid header, the commitment is unknown.
            Err(what) => Self { leaf, header: Err(what), payload: PayloadState::Erased },
        }
    }
}

fn payload(committed: &Digest, len: u64, salt: Option<&[u8]>, body: Option<&[u8]>) -> PayloadState {
    let (salt, body) = match (salt, body) {
        (Some(salt), Some(body)) => (salt, body),
        (None, None) => return PayloadState::Erased,
        _ => return PayloadState::Wrong("half of the payload is gone"),
    };
    let Ok(salt) = <&[u8; 32]>::try_from(salt) else {
        return PayloadState::Wrong("the payload's salt is not 32 bytes");
    };
    if body.len() as u64 != len || commitment(salt, body) != *committed {
        return PayloadState::Wrong("the payload does not match the header's commitment");
    }
    PayloadState::Sound
}
