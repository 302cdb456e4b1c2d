//! Why an entry could not be read.

use crate::store::StoreError;

/// Why an entry could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be opened.
    #[error(transparent)]
    Store(StoreError),
    /// SQLite's own answer.
    #[error("ledger.db: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The entry is damaged: its number and what is wrong.
    #[error("entry {0} is damaged: {1}")]
    Damaged(u64, String),
    /// No checkpoint covers the entry yet, but only so many.
    #[error("entry {0} is not signed yet: the newest checkpoint covers {1} entries")]
    Unsigned(u64, u64),
}

impl ReadError {
    /// Something of entry `seq` is not there, or not whole.
    pub(in crate::ledger) fn lacks(seq: u64, what: &str) -> Self {
        Self::Damaged(seq, format!("{what} is missing or cut"))
    }

    /// The entry `seq` is damaged, for this reason.
    pub(in crate::ledger) fn damaged<E: std::fmt::Display>(seq: u64) -> impl Fn(E) -> Self {
        move |what| Self::Damaged(seq, what.to_string())
    }
}
