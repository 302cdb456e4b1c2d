//! What one entry's bytes say by themselves: header, leaf and commitment. Pure: no disk, no clock.
//!
//! This is the dear part of a verification, and needs no entry but its own, so that several threads can look at
//! several entries. What needs the entries before is the walk's.

use crate::ledger::entry::{Header, HeaderError, Kind, PlainHeader, commitment};
use crate::ledger::tree::leaf;
use crate::types::Digest;
use std::sync::Arc;

/// An entry that was looked at.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct Looked {
    pub(in crate::ledger) leaf: Digest,
    /// What the header says, or why it is none.
    pub(super) header: Result<EntryFacts, HeaderError>,
    pub(super) payload: PayloadState,
}

/// What the walk has to know of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryFacts {
    pub(in crate::ledger) log: Arc<str>,
    pub(in crate::ledger) seq: u64,
    pub(in crate::ledger) prev: Option<Digest>,
    pub(in crate::ledger) kind: KindWord,
    /// `ref`.
    pub(in crate::ledger) answers: Option<u64>,
}

/// A kind, perhaps one of a later version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KindWord {
    Known(Kind),
    Other(Box<str>),
}

/// How a payload stands to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayloadState {
    /// It is the one that the header commits to.
    Sound,
    /// Neither salt nor body are there.
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

impl Looked {
    /// Looks at an entry. `log` is the id that was read last: most entries have the same.
    pub(in crate::ledger) fn at(
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
            // What it would commit to nobody knows.
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
