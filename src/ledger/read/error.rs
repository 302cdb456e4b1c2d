//! Why an entry could not be read.

use crate::store::StoreError;

/// Why an entry could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be opened.
    #[error(transparent)]
    Store(StoreError),
    /// SQLite returned an error.
    #[error("ledger.db: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The entry is damaged: its number, and what is wrong.
    #[error("entry {0} is damaged: {1}")]
    Damaged(u64, String),
    /// The newest checkpoint does not cover the entry yet: the entry's number, and the checkpoint's
    /// size.
    #[error("entry {0} does not exist or is not signed yet: the newest checkpoint covers {1} entries")]
    Unsigned(u64, u64),
}

impl ReadError {
    /// A part of entry `seq` is missing or incomplete.
    pub(in crate::ledger) fn missing(seq: u64, what: &str) -> Self {
        Self::Damaged(seq, format!("{what} is missing or incomplete"))
    }

    /// The entry `seq` is damaged for the given reason.
    pub(in crate::ledger) fn damaged<E: std::fmt::Display>(seq: u64) -> impl Fn(E) -> Self {
        move |what| Self::Damaged(seq, what.to_string())
    }
}
