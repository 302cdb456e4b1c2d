//! Why nothing was appended, and why a ledger was not opened.

use crate::ledger::checkpoint::key::SigningKeyError;
use crate::ledger::entry::DraftError;
use crate::ledger::files::LockError;
use crate::ledger::payload::LedgerDamagePayload;
use crate::ledger::projection::garbled;
use crate::ledger::read::ReadError;
use crate::store::StoreError;
use rusqlite::ErrorCode;
use std::path::PathBuf;

/// What to do about a damaged ledger, for messages.
pub const WAY_OUT: &str =
    "run `par audit verify`, then stop the server, if one runs, and run `par audit renew --reason …`";

/// Why nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// A draft cannot become an entry; the ledger is intact.
    #[error("the entry cannot be written: {0}")]
    Draft(#[source] DraftError),
    /// The disk is full: nothing was written. Appends may succeed again when there is space.
    #[error("the disk under the ledger is full")]
    Full,
    /// A verification found damage. Only what says so is appended until the log is renewed.
    #[error(
        "the ledger is damaged{}: nothing runs, and no answer, key or rule is taken; {WAY_OUT}",
        .0.entry.map_or(String::new(), |seq| format!(" at entry {seq}"))
    )]
    Damaged(Box<LedgerDamagePayload>),
    /// The state of the file on disk is unknown, or the file is not the one that was opened. No
    /// append succeeds until a restart.
    #[error("the ledger accepts no more entries until a restart: {0}")]
    Poisoned(String),
    /// The writer has ended.
    #[error("the ledger is closed")]
    Closed,
}

impl AppendError {
    /// A full disk rolls back cleanly and may pass. After any other error the state of the file is
    /// unknown.
    pub(super) fn from_sqlite(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            _ => Self::Poisoned(error.to_string()),
        }
    }

    /// As [`AppendError::from_sqlite`], for a file that is created or opened.
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
    /// Another process holds the lock, or it cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// A database cannot be opened.
    #[error(transparent)]
    Store(StoreError),
    /// state.db is not a database any more.
    #[error("{}", garbled(.0))]
    Garbled(#[source] StoreError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// A file other than the databases cannot be used.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] std::io::Error),
    /// The ledger is shorter than its recorded size, or differs from it.
    #[error("the ledger is incomplete or changed: {0}; run `par audit verify` for details")]
    Incomplete(String),
    /// The signing keys cannot be used.
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
