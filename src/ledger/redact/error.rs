//! Why nothing was erased.

use crate::ledger::read::ReadError;
use crate::ledger::write::AppendError;

/// Why nothing was erased.
#[derive(Debug, thiserror::Error)]
pub enum RedactError {
    /// A value does not fit: its name and the reason.
    #[error("`{0}`: {1}")]
    Unfit(&'static str, String),
    /// Entries that stay as they are, each with the reason.
    #[error("nothing was erased: {}", .0.join("; "))]
    Kept(Vec<String>),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The ledger cannot be written.
    #[error(transparent)]
    Append(AppendError),
    /// The search cannot be made.
    #[error("{0}")]
    Failed(String),
}
