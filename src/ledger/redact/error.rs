//! Why nothing was erased.

use crate::ledger::read::ReadError;
use crate::ledger::write::AppendError;

/// Why nothing was erased.
#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    /// A value is not accepted: its name and the reason.
    #[error("`{0}`: {1}")]
    Invalid(&'static str, String),
    /// Entries that must stay, each with the reason.
    #[error("nothing was erased: {}", .0.join("; "))]
    Kept(Vec<String>),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The ledger cannot be written.
    #[error(transparent)]
    Append(AppendError),
    /// The search could not be built.
    #[error("{0}")]
    Failed(String),
}
