//! SQLite files: one set of pragmas, and a schema from the files in `migrations/`.
//!
//! No other room opens a database.
//!
//! # Layout
//!
//! One file: opening (`open_writer`, `open_reader`, `open_sealed`, `open_memory`), replacing a file
//! by a complete new one (`Replacement`), and the care of write-ahead logs (`checkpoint`, `settle`,
//! `empty_log`).

use rusqlite::{Connection, OpenFlags};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a statement waits for another connection's lock.
const BUSY: Duration = Duration::from_secs(5);

/// A database that PAR keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// `ledger.db`: every commit is synced before it returns (`synchronous=FULL`).
    Ledger,
    /// `state.db`: a power failure may cost the last commits, never their order (`NORMAL`).
    State,
    /// `index.db`: `NORMAL`, like `state.db`.
    Index,
}

impl Database {
    fn migrations(self) -> &'static [&'static str] {
        match self {
            Self::Ledger => &[include_str!("../../migrations/ledger/0001.sql")],
            Self::State => &[
                include_str!("../../migrations/state/0001.sql"),
                include_str!("../../migrations/state/0002.sql"),
                include_str!("../../migrations/state/0003.sql"),
                include_str!("../../migrations/state/0004.sql"),
                include_str!("../../migrations/state/0005.sql"),
            ],
            Self::Index => &[
                include_str!("../../migrations/index/0001.sql"),
                include_str!("../../migrations/index/0002.sql"),
                include_str!("../../migrations/index/0003.sql"),
            ],
        }
    }

    fn synchronous(self) -> &'static str {
        match self {
            Self::Ledger => "FULL",
            Self::State | Self::Index => "NORMAL",
        }
    }
}

/// Why a database could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be created or opened.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] std::io::Error),
    /// SQLite returned an error.
    #[error("{}: {}", .0.display(), message(.1))]
    Sqlite(PathBuf, #[source] rusqlite::Error),
    /// The file was written by a later version.
    #[error("{}: schema version {} is newer than this program", .0.display(), .1)]
    Newer(PathBuf, i64),
}

/// SQLite's message, replaced if it says only that an operation failed.
fn message(error: &rusqlite::Error) -> String {
    if is_index_short(error) {
        "no space for the index of its write-ahead log: is the disk full?".to_owned()
    } else {
        error.to_string()
    }
}

fn is_index_short(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

impl StoreError {
    /// Whether the file is not a database, or only part of one.
    #[must_use]
    pub fn is_garbled(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let Self::Sqlite(_, e) = self else { return false };
        matches!(e.sqlite_error_code(), Some(NotADatabase | DatabaseCorrupt))
    }
}

/// Opens the writing connection. Creates the file (mode 0600) and its schema if they are missing.
///
/// The journal mode is WAL. Automatic checkpoints are off: the owner runs them while it appends.
/// Deleted and overwritten content is filled with zeros, also in pages that become free.
pub fn open_writer(path: &Path, kind: Database) -> Result<Connection, StoreError> {
    let at_file = |e| StoreError::File(path.to_owned(), e);
    let at = |e| StoreError::Sqlite(path.to_owned(), e);
    // SQLite gives `-wal` and `-shm` the mode of the main file. An existing file is not opened
    // here: closing it would drop the POSIX locks of every other connection of this process, and
    // then a foreign `sqlite3` process could remove the write-ahead log while the writer uses it.
    match std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(at_file(e)),
        _ => {}
    }
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(at)?;
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {}; PRAGMA wal_autocheckpoint = 0; \
             PRAGMA secure_delete = ON;",
            kind.synchronous()
        ))
        .map_err(at)?;
    migrate(&connection, path, kind)?;
    Ok(connection)
}

/// Opens a connection to an existing file that gets no more appends, for erasures. Deleted and
/// overwritten content is filled with zeros.
pub fn open_sealed(path: &Path) -> Result<Connection, StoreError> {
    let at = |e| StoreError::Sqlite(path.to_owned(), e);
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(at)?;
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;").map_err(at)?;
    Ok(connection)
}

/// Removes the write-ahead log of a file that gets no more appends, so that the main file is
/// complete without it. Returns false if another connection has the file open; then the log is
/// truncated if no reader uses it. Does not wait.
pub fn settle(path: &Path) -> Result<bool, StoreError> {
    let at = |e| StoreError::Sqlite(path.to_owned(), e);
    let connection = open_sealed(path)?;
    connection.busy_timeout(Duration::ZERO).map_err(at)?;
    let mode = connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
    match mode {
        Ok(mode) => Ok(mode == "delete"),
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
            empty_log(&connection).map_err(at)?;
            Ok(false)
        }
        Err(e) => Err(at(e)),
    }
}

/// A new database under a temporary name next to the final one. It takes the final name only when
/// it is complete.
#[derive(Debug)]
pub struct Replacement {
    connection: Connection,
    made: PathBuf,
    place: PathBuf,
}

impl Replacement {
    /// Creates an empty database of `kind` for `place`. Removes one that a crash left.
    pub fn make(place: &Path, kind: Database) -> Result<Self, StoreError> {
        let with_ending = |end: &str| {
            let mut name = place.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        for end in [".new", ".new-wal", ".new-shm"] {
            match std::fs::remove_file(with_ending(end)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::File(with_ending(end), e));
                }
                _ => {}
            }
        }
        let made = with_ending(".new");
        Ok(Self { connection: open_writer(&made, kind)?, made, place: place.to_owned() })
    }

    /// The connection to write with.
    #[must_use]
    pub fn db(&self) -> &Connection {
        &self.connection
    }

    /// Renames the file to its final name, durably. A file under that name is replaced.
    pub fn take_place(self) -> Result<(), StoreError> {
        let Self { connection, made, place } = self;
        drop(connection);
        settle(&made)?;
        let at = |e| StoreError::File(place.clone(), e);
        std::fs::rename(&made, &place).map_err(at)?;
        let folder = place.parent().unwrap_or(Path::new("."));
        std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(at)
    }
}

/// Creates the database if it is missing, so that its name appears only with the whole schema, and
/// opens it as [`open_writer`] does.
pub fn make(path: &Path, kind: Database) -> Result<Connection, StoreError> {
    if !path.exists() {
        Replacement::make(path, kind)?.take_place()?;
    }
    open_writer(path, kind)
}

/// Opens a read-only connection to an existing file.
pub fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|e| match obstacle(path) {
        // SQLite's own error says only that it cannot open the file.
        Some(why) => StoreError::File(path.to_owned(), why),
        None => StoreError::Sqlite(path.to_owned(), e),
    })
}

/// The system's reason why this process cannot read a file, if there is one. The file is not
/// opened: closing it would drop this process's locks on it.
#[must_use]
pub fn obstacle(path: &Path) -> Option<std::io::Error> {
    match std::fs::metadata(path) {
        Err(e) => Some(e),
        Ok(meta) if !meta.is_file() => Some(std::io::Error::other("not a regular file")),
        Ok(_) => rustix::fs::access(path, rustix::fs::Access::READ_OK).err().map(Into::into),
    }
}

/// Opens a database in memory with the schema of `kind`, to compare a file with.
pub fn open_memory(kind: Database) -> Result<Connection, StoreError> {
    let path = Path::new(":memory:");
    let connection =
        open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|e| StoreError::Sqlite(path.to_owned(), e))?;
    migrate(&connection, path, kind)?;
    Ok(connection)
}

/// Copies the write-ahead log into the main file as far as no reader prevents it. Returns how many
/// pages of the log are not copied yet.
///
/// Runs on its own thread, so that no append waits for it.
pub fn checkpoint(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let pages = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (log, moved) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], pages)?;
    Ok(log.saturating_sub(moved))
}

/// Length of the write-ahead log of the database at `path`, in bytes; 0 if it has none.
#[must_use]
pub fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(Path::new(&log)).map_or(0, |meta| meta.len())
}

/// Copies the write-ahead log into the main file and truncates it. Returns false if a reader or a
/// running copy prevents that. Does not wait.
pub fn empty_log(connection: &Connection) -> Result<bool, rusqlite::Error> {
    empty_log_within(connection, Duration::ZERO)
}

/// As [`empty_log`], waiting at most `wait` for readers.
pub fn empty_log_within(connection: &Connection, wait: Duration) -> Result<bool, rusqlite::Error> {
    connection.busy_timeout(wait)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(BUSY)?;
    Ok(busy? == 0)
}

/// Writes a copy of the database at `from`, as it is now, to the new file `to`: complete, without a
/// write-ahead log and without deleted content. Mode 0600, synced.
pub fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let at_file = |e| StoreError::File(to.to_owned(), e);
    let file =
        std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(to).map_err(at_file)?;
    let connection = open_reader(from)?;
    connection
        .execute("VACUUM INTO ?1", [to.to_string_lossy()])
        .map_err(|e| StoreError::Sqlite(from.to_owned(), e))?;
    file.sync_all().map_err(at_file)
}

/// Rewrites the whole file, without what earlier versions of its pages left between the rows. The
/// new pages go to the write-ahead log; meanwhile the database is held in memory.
pub fn rewrite(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch("VACUUM")
}

/// Device and inode of a database and of its write-ahead log. A change means that a file was
/// replaced.
pub type Identity = [(u64, u64); 2];

/// The identity of the database at `path`, which a connection must hold open.
pub fn identity(path: &Path) -> std::io::Result<Identity> {
    let one = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok([one(path)?, one(Path::new(&log))?])
}

#[expect(clippy::disallowed_methods, reason = "the only code that opens SQLite")]
fn open(path: &Path, access: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.execute_batch(
        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;",
    )?;
    Ok(connection)
}

fn migrate(connection: &Connection, path: &Path, kind: Database) -> Result<(), StoreError> {
    let at = |e| StoreError::Sqlite(path.to_owned(), e);
    let steps = kind.migrations();
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(at)?;
    let done = usize::try_from(version).ok().filter(|done| *done <= steps.len());
    let Some(done) = done else { return Err(StoreError::Newer(path.to_owned(), version)) };
    for (at_step, step) in steps.iter().enumerate().skip(done) {
        let script = format!("BEGIN IMMEDIATE; {step} PRAGMA user_version = {}; COMMIT;", at_step + 1);
        connection.execute_batch(&script).map_err(at)?;
    }
    Ok(())
}
