//! Why a checkpoint was not anchored.

use crate::egress::EgressError;
use crate::ledger::checkpoint::CheckpointError;
use crate::ledger::read::ReadError;
use crate::ledger::write::AppendError;
use std::path::PathBuf;

/// Why the configured place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnchorOpenError {
    /// The witness's address is not valid.
    #[error("`anchor`: {0}")]
    Address(#[source] EgressError),
    /// The witness would be asked without TLS over a network.
    #[error("`anchor`: a witness must have an `https` address, or be on this host")]
    Clear,
    /// The witness's key is not valid.
    #[error("`anchor_key`: must be the witness's key, `NAME+HASH+KEY`, of the type for cosignatures (4)")]
    Key,
    /// A key is configured, but no witness.
    #[error("`anchor_key` is set, but `anchor` does not name a witness")]
    KeyWithoutWitness,
    /// The file cannot be opened.
    #[error("`anchor`: {}: {}", .0.display(), .1)]
    File(PathBuf, #[source] std::io::Error),
    /// The file is not suitable for checkpoints.
    #[error("`anchor`: {}: {}", .0.display(), .1)]
    Place(PathBuf, &'static str),
}

/// Why a checkpoint was not anchored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnchorFailure {
    /// The place holds another history: the ledger or the place was rewritten or rolled back.
    #[error("{0}")]
    Conflict(String),
    /// The place did not take the checkpoint, or this is not known. The task tries again.
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
        Self::Missed(format!("the place took the checkpoint, but it could not be recorded: {error}"))
    }
}

impl From<EgressError> for AnchorFailure {
    fn from(error: EgressError) -> Self {
        Self::Missed(error.to_string())
    }
}

/// Runs blocking file access outside the threads that serve.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AnchorFailure> + Send + 'static,
) -> Result<T, AnchorFailure> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(AnchorFailure::Missed(e.to_string())))
}
