//! Why an export failed, and why a file proves nothing.

use crate::ledger::checkpoint::CheckpointError;
use crate::ledger::entry::HeaderError;
use crate::ledger::read::ReadError;
use crate::ledger::write::AppendError;
use crate::store::StoreError;
use crate::types::json::JsonError;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The ledger cannot be opened.
    #[error(transparent)]
    Store(StoreError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The record cannot be appended: nothing is exported without one.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The record or an entry cannot be exported.
    #[error("{0}")]
    Failed(String),
}

/// Why a proof file or an export proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// A key, a seal or the checkpoint is not valid.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A header is not valid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The JSON is not valid.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// An entry is not proven: its number, and what is wrong with it.
    #[error("entry {0}: {1}")]
    Entry(u64, String),
    /// An entry's bytes are not text.
    #[error("an entry is not text")]
    NoText,
    /// The file, a line or the record is not in its format.
    #[error("{0}")]
    Malformed(String),
    /// A part of the file is wrong: which one, and why.
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
