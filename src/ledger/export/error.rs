//! Why there is no export, and why a file proves nothing.

use crate::ledger::checkpoint::CheckpointError;
use crate::ledger::entry::HeaderError;
use crate::ledger::read::ReadError;
use crate::ledger::write::AppendError;
use crate::store::StoreError;
use crate::types::json::JsonError;

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file.
    #[error(transparent)]
    Store(StoreError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The ledger cannot be written: nothing is told without a record.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// An entry cannot be told as it is.
    #[error("{0}")]
    Failed(String),
}

/// Why a proof file or an export proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// A key, a seal or the checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// JSON that cannot be written.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// An entry: its number, and what is wrong with it.
    #[error("entry {0}: {1}")]
    Entry(u64, String),
    /// An entry whose bytes are not text.
    #[error("an entry is no text")]
    NoText,
    /// The file, a line of it, or its record is not one.
    #[error("{0}")]
    Malformed(String),
    /// A line of an export: which, and what is wrong with it.
    #[error("{0}: {1}")]
    At(String, #[source] Box<Self>),
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl ProofError {
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }

    pub(super) fn at(self, place: impl Into<String>) -> Self {
        Self::At(place.into(), Box::new(self))
    }
}
