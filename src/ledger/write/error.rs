//! Why nothing was appended, and why a ledger was not opened.

use crate::ledger::checkpoint::key::SigningKeyError;
use crate::ledger::entry::DraftError;
use crate::ledger::files::LockError;
use crate::ledger::projection::garbled;
use crate::ledger::read::ReadError;
use crate::store::StoreError;
use rusqlite::ErrorCode;
use std::path::PathBuf;

/// Why nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// A draft cannot become an entry; the ledger is fine.
    #[error("the entry cannot be written: {0}")]
    Draft(#[source] DraftError),
    /// The disk is full: nothing was written, and appends may succeed again once there is space.
    #[error("the disk under the ledger is full")]
    Full,
    /// What is on the disk is not known, or the file is not the one that was opened: nothing is
    /// accepted until a restart.
    #[error("the ledger is not written any more: {0}")]
    Poisoned(String),
    /// The writer has ended.
    #[error("the ledger is closed")]
    Closed,
}

impl AppendError {
    /// A full disk rolls back cleanly and may pass; after anything else the file's state is not known.
    pub(super) fn from_sqlite(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            _ => Self::Poisoned(error.to_string()),
        }
    }

    /// The same of a file that is to be made or opened.
    pub(super) fn from_store(error: &StoreError) -> Self {
        match error {
            StoreError::Sqlite(_, e) => Self::from_sqlite(e),
            StoreError::File(_, e) if e.kind() == std::io::ErrorKind::StorageFull => Self::Full,
            other => Self::Poisoned(other.to_string()),
        }
    }
}

/// Why a ledger was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another writer, or no lock.
    #[error(transparent)]
    Lock(LockError),
    /// A database.
    #[error(transparent)]
    Store(StoreError),
    /// state.db is no database any more.
    #[error("{}", garbled(.0))]
    Garbled(#[source] StoreError),
    /// Reading what is there.
    #[error(transparent)]
    Read(ReadError),
    /// A file beside the databases.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] std::io::Error),
    /// The ledger is shorter than, or other than, what was seen of it before.
    #[error("the ledger is incomplete or changed: {0}; `par audit verify` tells more")]
    Incomplete(String),
    /// The keys that sign.
    #[error("the ledger cannot be signed: {0}")]
    Keys(#[source] SigningKeyError),
    /// The first entry could not be written.
    #[error(transparent)]
    Append(AppendError),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(ReadError::Sqlite(error))
    }
}
