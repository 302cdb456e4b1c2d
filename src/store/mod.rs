//! SQLite files: opened here and nowhere else, with one set of pragmas, and brought to their schema
//! by the files in `migrations/`.
//!
//! Architecture invariant: no other room opens a database.

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
    /// `state.db`: may lose its last commits with the power, never its order (`NORMAL`).
    State,
    /// `index.db`: likewise.
    Index,
}

impl Database {
    fn migrations(self) -> &'static [&'static str] {
        match self {
            Self::Ledger => &[include_str!("../../migrations/ledger/0001.sql")],
            Self::State => &[
                include_str!("../../migrations/state/0001.sql"),
                include_str!("../../migrations/state/0002.sql"),
            ],
            Self::Index => &[include_str!("../../migrations/index/0001.sql")],
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
    /// The file cannot be made or opened.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] std::io::Error),
    /// SQLite's own answer.
    #[error("{}: {}", .0.display(), said(.1))]
    Sqlite(PathBuf, #[source] rusqlite::Error),
    /// The file was written by a later version.
    #[error("{}: schema version {} is newer than this program", .0.display(), .1)]
    Newer(PathBuf, i64),
}

/// SQLite's own words, but where it says no more than that it failed.
fn said(error: &rusqlite::Error) -> String {
    if is_index_short(error) {
        "no room for the index of its write-ahead log: is the disk full?".to_owned()
    } else {
        error.to_string()
    }
}

fn is_index_short(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

impl StoreError {
    /// Whether the file holds something that is no database, or no whole one.
    #[must_use]
    pub fn is_garbled(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let Self::Sqlite(_, e) = self else { return false };
        matches!(e.sqlite_error_code(), Some(NotADatabase | DatabaseCorrupt))
    }
}

/// Opens the writing connection, making the file (mode 0600) and its schema where needed.
///
/// WAL; automatic checkpoints are off: the owner runs them beside its appends. What is deleted or overwritten is
/// filled with zeros, also in pages that become free.
pub fn open_writer(path: &Path, kind: Database) -> Result<Connection, StoreError> {
    let at_file = |e| StoreError::File(path.to_owned(), e);
    let at = |e| StoreError::Sqlite(path.to_owned(), e);
    // SQLite gives `-wal` and `-shm` the mode of the main file. A file that is there is not opened
    // here: its close would take from every other connection of this process its POSIX lock, and then
    // a stranger's `sqlite3` could take the write-ahead log away from under the writer.
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

/// Opens a connection on a file that exists and is not appended to any more, to erase in it. What is deleted or
/// overwritten is filled with zeros.
pub fn open_sealed(path: &Path) -> Result<Connection, StoreError> {
    let at = |e| StoreError::Sqlite(path.to_owned(), e);
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(at)?;
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;").map_err(at)?;
    Ok(connection)
}

/// Ends the write-ahead log of a file that is not appended to any more, so that the file stands alone; false where
/// somebody still has it open: then the log is cut, where nobody reads by it. Does not wait.
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

/// A database under another name beside its place, which it takes only when it is whole.
#[derive(Debug)]
pub struct Beside {
    connection: Connection,
    made: PathBuf,
    place: PathBuf,
}

impl Beside {
    /// Makes an empty database of `kind` for `place`. One that a crash left is removed.
    pub fn make(place: &Path, kind: Database) -> Result<Self, StoreError> {
        let beside = |end: &str| {
            let mut name = place.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        for end in [".new", ".new-wal", ".new-shm"] {
            match std::fs::remove_file(beside(end)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::File(beside(end), e));
                }
                _ => {}
            }
        }
        let made = beside(".new");
        Ok(Self { connection: open_writer(&made, kind)?, made, place: place.to_owned() })
    }

    /// The connection to write by.
    #[must_use]
    pub fn db(&self) -> &Connection {
        &self.connection
    }

    /// Gives it its name, durably. What stood under the name is gone.
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

/// Makes a database that comes to its name with its whole schema, where it is not there, and opens it as
/// [`open_writer`] does.
pub fn make(path: &Path, kind: Database) -> Result<Connection, StoreError> {
    if !path.exists() {
        Beside::make(path, kind)?.take_place()?;
    }
    open_writer(path, kind)
}

/// Opens a reading connection on a file that exists.
pub fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|e| match obstacle(path) {
        // SQLite says no more than that it cannot.
        Some(why) => StoreError::File(path.to_owned(), why),
        None => StoreError::Sqlite(path.to_owned(), e),
    })
}

/// What keeps this process from reading a file, in the system's words. The file is not opened: to close it
/// would take this process's locks from it.
#[must_use]
pub fn obstacle(path: &Path) -> Option<std::io::Error> {
    match std::fs::metadata(path) {
        Err(e) => Some(e),
        Ok(meta) if !meta.is_file() => Some(std::io::Error::other("is no file")),
        Ok(_) => rustix::fs::access(path, rustix::fs::Access::READ_OK).err().map(Into::into),
    }
}

/// A database in memory with the schema of `kind`, to compare a file against.
pub fn open_memory(kind: Database) -> Result<Connection, StoreError> {
    let path = Path::new(":memory:");
    let connection =
        open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|e| StoreError::Sqlite(path.to_owned(), e))?;
    migrate(&connection, path, kind)?;
    Ok(connection)
}

/// Copies what the write-ahead log holds into the main file, as far as no reader is in the way. Returns how many pages of
/// the log are not there yet.
///
/// Called from a thread of its own, so that no append waits for it.
pub fn checkpoint(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let pages = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (log, moved) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], pages)?;
    Ok(log.saturating_sub(moved))
}

/// The write-ahead log of the database at `path`, in bytes; none where it has none.
#[must_use]
pub fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(Path::new(&log)).map_or(0, |meta| meta.len())
}

/// Moves the write-ahead log into the file and cuts it to nothing; false where a reader or a copy under way is in
/// the way. Does not wait.
pub fn empty_log(connection: &Connection) -> Result<bool, rusqlite::Error> {
    empty_log_within(connection, Duration::ZERO)
}

/// The same, and waits at most `wait` for readers.
pub fn empty_log_within(connection: &Connection, wait: Duration) -> Result<bool, rusqlite::Error> {
    connection.busy_timeout(wait)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(BUSY)?;
    Ok(busy? == 0)
}

/// Writes a copy of the database at `from`, as it is now, to `to`, which is not there yet: whole, without a write-ahead
/// log and without what was deleted. Mode 0600, synced.
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

/// Writes the whole file anew, without what earlier versions of its pages left between the rows. The new pages stand
/// in the write-ahead log; meanwhile the database is held in memory.
pub fn rewrite(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch("VACUUM")
}

/// Device and inode of a database and of its write-ahead log: others mean that one was replaced.
pub type Identity = [(u64, u64); 2];

/// The identity of the database at `path`, which a connection holds open.
pub fn identity(path: &Path) -> std::io::Result<Identity> {
    let one = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok([one(path)?, one(Path::new(&log))?])
}

#[expect(clippy::disallowed_methods, reason = "the one place that opens SQLite")]
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
