//! The record of an export: an entry that says who exported what, appended before the first byte
//! leaves.

use super::error::ExportError;
use crate::ledger::entry::Draft;
use crate::ledger::handle::Ledger;
use crate::ledger::payload::{ExportPayload, PowerUsed};
use crate::ledger::query::{Filter, Order};
use crate::ledger::read::{ReadError, Reader};
use crate::ledger::write::AppendError;
use crate::types::Digest;

/// The format of the first line.
pub(super) const FORMAT: &str = "par/export/1";
/// Headers read at once.
const PAGE: usize = 4_096;
/// The file format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON Lines, with everything that a verifier needs.
    Jsonl,
    /// A table (RFC 4180), for people.
    Csv,
}

impl Format {
    /// Parses the name of a format.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Jsonl, Self::Csv].into_iter().find(|format| format.as_str() == name)
    }

    /// The name of the format, which is also the extension of its files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    /// The media type of the format.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

impl Ledger {
    /// Records an export of all matching entries, and returns the number of the `export` entry,
    /// which a checkpoint covers. Blocking while it reads every header.
    pub fn record_export(
        &self,
        filter: &Filter,
        format: Format,
        principal: String,
        power: Option<PowerUsed>,
    ) -> Result<u64, ExportError> {
        let size = self.head().size;
        let reader = Reader::open(&self.files().ledger()).map_err(ExportError::Store)?;
        let seqs = select(&reader, filter, size);
        // The thread that verifies hears only of the ledger's own reader.
        if let Some(seq) = reader.met_damage() {
            self.suspect(seq);
        }
        let seqs = seqs?;
        let payload = ExportPayload {
            query: filter.to_string(),
            format: format.as_str().to_owned(),
            size,
            entries: seqs.len() as u64,
            seqs: digest_of(seqs.iter().copied()),
            power,
        };
        let draft = Draft { principal: Some(principal), ..Draft::new(payload) };
        let receipt = self.append_blocking(vec![draft])?.pop().ok_or(AppendError::Closed)?;
        Ok(receipt.seq())
    }
}

/// The numbers below `size` whose entries match.
pub(super) fn select(reader: &Reader, filter: &Filter, size: u64) -> Result<Vec<u64>, ReadError> {
    let (mut seqs, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next.filter(|from| *from < size) {
        let (headers, on) = reader.listed(filter, from, Order::Ascending, PAGE, PAGE)?;
        let stored = headers.iter().filter(|header| !header.is_unreadable());
        seqs.extend(stored.map(|header| header.seq).filter(|seq| *seq < size));
        next = on;
    }
    Ok(seqs)
}

/// SHA-256 over the numbers in decimal, with a newline after each.
pub(super) fn digest_of(seqs: impl Iterator<Item = u64>) -> Digest {
    let mut hash = Seqs::default();
    seqs.for_each(|seq| hash.push(seq));
    hash.digest()
}

/// Computes the digest of numbers that arrive one by one.
#[derive(Debug, Default)]
pub(super) struct Seqs {
    hash: sha2::Sha256,
}

impl Seqs {
    pub(super) fn push(&mut self, seq: u64) {
        sha2::Digest::update(&mut self.hash, format!("{seq}\n").as_bytes());
    }

    pub(super) fn digest(self) -> Digest {
        Digest(sha2::Digest::finalize(self.hash).into())
    }
}
