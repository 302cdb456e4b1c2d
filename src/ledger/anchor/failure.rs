//! Why a checkpoint was not anchored.

use crate::egress::EgressError;
use crate::ledger::checkpoint::CheckpointError;
use crate::ledger::read::ReadError;
use crate::ledger::write::AppendError;
use std::path::PathBuf;

/// Why the place that is configured cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnchorOpenError {
    /// The witness's address.
    #[error("`anchor`: {0}")]
    Address(#[source] EgressError),
    /// The witness would be asked in the clear, by others' networks.
    #[error("`anchor`: a witness is asked by `https`, or on this host")]
    Clear,
    /// The witness's key.
    #[error("`anchor_key`: must be the witness's key, `NAME+HASH+KEY`, of the type for cosignatures (4)")]
    Key,
    /// A key, and no witness.
    #[error("`anchor_key` is a witness's, and `anchor` names none")]
    KeyOfNobody,
    /// The file cannot be opened.
    #[error("`anchor`: {}: {}", .0.display(), .1)]
    File(PathBuf, #[source] std::io::Error),
    /// The file is not one that checkpoints may be kept in.
    #[error("`anchor`: {}: {}", .0.display(), .1)]
    Place(PathBuf, &'static str),
}

/// Why a checkpoint was not anchored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnchorFailure {
    /// The place holds another history: somebody rewrote or rolled back the one or the other.
    #[error("{0}")]
    Conflict(String),
    /// Nothing was told, or nothing is known of it; to be tried again.
    #[error("{0}")]
    Missed(String),
}

impl From<CheckpointError> for AnchorFailure {
    fn from(error: CheckpointError) -> Self {
        Self::Missed(error.to_string())
    }
}

impl From<ReadError> for AnchorFailure {
    fn from(error: ReadError) -> Self {
        Self::Missed(error.to_string())
    }
}

impl From<AppendError> for AnchorFailure {
    fn from(error: AppendError) -> Self {
        Self::Missed(format!("it was told, and not recorded: {error}"))
    }
}

impl From<EgressError> for AnchorFailure {
    fn from(error: EgressError) -> Self {
        Self::Missed(error.to_string())
    }
}

/// Reads and writes files aside from the threads that serve.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AnchorFailure> + Send + 'static,
) -> Result<T, AnchorFailure> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(AnchorFailure::Missed(e.to_string())))
}
