//! Why a verification could not continue. Its text becomes a finding of the report.

use crate::ledger::checkpoint::CheckpointError;
use crate::ledger::entry::HeaderError;
use crate::ledger::projection::garbled;
use crate::ledger::read::{ReadError, SchemaError};
use crate::store::StoreError;
use std::io;
use std::path::PathBuf;

/// Why a ledger could not be verified to its end.
#[derive(Debug, thiserror::Error)]
pub(in crate::ledger) enum AuditError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A statement on a segment failed.
    #[error("ledger.db: {0}")]
    Ledger(#[from] rusqlite::Error),
    #[error("state.db: {0}")]
    State(#[source] rusqlite::Error),
    /// SQLite returned an error that names no file.
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error("state.db cannot follow this entry: {0}")]
    Follow(#[source] rusqlite::Error),
    #[error("table `{0}`: {1}")]
    Table(&'static str, #[source] rusqlite::Error),
    #[error("{}", garbled(.0))]
    Garbled(#[source] StoreError),
    #[error("{}: {}", .0.display(), .1)]
    Folder(PathBuf, #[source] io::Error),
    #[error("{} cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, #[source] io::Error),
    #[error("the high-water mark cannot be read")]
    Mark,
    /// SQLite's own check of a file failed.
    #[error("{0}")]
    Unsound(String),
    #[error("a column holds a number, expected bytes")]
    Column,
    #[error("the schema changed while the ledger was read")]
    SchemaChanged,
    #[error("entry {0} disappeared while it was read")]
    Gone(u64),
    #[error("no checkpoint from outside covers {from} entries or more: the newest covers {newest}")]
    NothingOutside { from: u64, newest: u64 },
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The keys cannot be followed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl AuditError {
    /// Whether the files themselves are at fault. Other errors, such as one of the disk or too many
    /// open files, may pass.
    pub(in crate::ledger) fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) | Self::Read(ReadError::Store(error)) => error.is_garbled(),
            Self::Ledger(error)
            | Self::Sqlite(error)
            | Self::Table(_, error)
            | Self::Read(ReadError::Sqlite(error)) => is_corrupt(error),
            Self::Read(ReadError::Damaged(..))
            | Self::Garbled(_)
            | Self::Mark
            | Self::Unsound(_)
            | Self::Column
            | Self::Gone(_)
            | Self::Header(_)
            | Self::Checkpoint(_) => true,
            Self::Schema(_)
            | Self::State(_)
            | Self::Follow(_)
            | Self::Folder(..)
            | Self::Unreadable(..)
            | Self::SchemaChanged
            | Self::NothingOutside { .. }
            | Self::Read(ReadError::Unsigned(..)) => false,
        }
    }
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
        || matches!(
            error,
            rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..)
        )
}
