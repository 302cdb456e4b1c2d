//! Opening a ledger: its files, the lock against a second writer, and catching up.

use super::cut::Logs;
use super::entry::Header;
use super::key::{KeyFiles, Signer};
use super::merkle::{TILE_WIDTH, TileEdge, leaf};
use super::note::{Checkpoint, Note};
use super::project::{Projection, Projector};
use super::read::{header_bytes, tile};
use super::rotate::Segment;
use super::space::Reserve;
use super::writer::{Append, Chain, Task, Writer};
use super::{
    AppendError, Draft, Head, Kind, Ledger, ReadError, Reader, Receipt, Report, Shared, audit, erase, expire,
    moves, shelf, succeed,
};
use crate::store::{self, Kind as Db, StoreError};
use crate::types::{Digest, clock, limits};
use rusqlite::Connection;
use std::fmt;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// The files of a ledger, all in `data/`.
#[derive(Clone, Debug)]
pub struct Files {
    /// The folder.
    pub data: PathBuf,
    /// Free space below which new runs are refused, in bytes.
    pub free_bytes_min: u64,
    /// What is held back for results on a full disk, in bytes.
    pub reserve_bytes: u64,
    /// Write-ahead log of a segment behind which it is cut, in bytes.
    pub wal_bytes_max: u64,
    /// The log key, where it is not in the folder.
    pub log_key: Option<PathBuf>,
    /// When a segment is sealed, and when its payloads go.
    pub rotation: Rotation,
}

/// When a segment is full, and how long payloads are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Bytes of headers and payloads behind which a segment is sealed.
    pub segment_bytes_max: u64,
    /// Age of its first entry behind which a segment is sealed, in milliseconds.
    pub segment_ms_max: Option<u64>,
    /// Age of a segment's seal behind which its payloads are dropped, in milliseconds.
    pub payload_ms_max: Option<u64>,
}

impl Default for Rotation {
    fn default() -> Self {
        let segment_bytes_max = limits::SEGMENT_BYTES_MAX;
        Self { segment_bytes_max, segment_ms_max: None, payload_ms_max: None }
    }
}

impl Files {
    /// The files below `data`, with the default floor of free space.
    #[must_use]
    pub fn below(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            free_bytes_min: limits::LEDGER_FREE_BYTES_MIN,
            reserve_bytes: limits::LEDGER_RESERVE_BYTES,
            wal_bytes_max: limits::WAL_BYTES_MAX,
            log_key: None,
            rotation: Rotation::default(),
        }
    }

    /// The truth: the first segment of it.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        self.segment(0)
    }

    /// The file of the segment that begins with entry `first`.
    #[must_use]
    pub fn segment(&self, first: u64) -> PathBuf {
        shelf::path_of(&self.data, first)
    }

    /// The first entries of the segments that are there, rising.
    pub fn segments(&self) -> std::io::Result<Vec<u64>> {
        shelf::firsts(&self.data)
    }

    /// The projection.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.data.join("state.db")
    }

    /// What queries look into.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.data.join("index.db")
    }

    /// Size and root of the last commit.
    #[must_use]
    pub fn high_water(&self) -> PathBuf {
        self.data.join("high-water")
    }

    /// The secret half of the log key: a credential of the service manager, else a file of `data/`.
    #[must_use]
    pub fn log_key(&self) -> PathBuf {
        self.log_key.clone().unwrap_or_else(|| self.data.join("log.key"))
    }

    /// Space for results on a full disk.
    #[must_use]
    pub fn reserve(&self) -> PathBuf {
        self.data.join("reserve")
    }

    /// How the anchors stand.
    #[must_use]
    pub fn anchor(&self) -> PathBuf {
        self.data.join("anchor")
    }

    pub(super) fn keys(&self) -> KeyFiles {
        let file = |name| self.data.join(name);
        KeyFiles { log: self.log_key(), epoch: file("epoch.key"), next: file("epoch.next") }
    }

    fn lock(&self) -> PathBuf {
        self.data.join("lock")
    }

    /// The write-ahead logs that are there, in bytes: those of all segments together, of state.db and of index.db.
    #[must_use]
    pub fn log_bytes(&self) -> [(&'static str, u64); 3] {
        let segments = self.segments().unwrap_or_default();
        let ledger = segments.into_iter().map(|first| store::log_bytes(&self.segment(first))).sum();
        [
            ("ledger", ledger),
            ("state", store::log_bytes(&self.state())),
            ("index", store::log_bytes(&self.index())),
        ]
    }

    /// Free bytes for an ordinary user under `data`.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        let fs = rustix::fs::statvfs(&self.data).ok()?;
        Some(fs.f_bavail.saturating_mul(fs.f_frsize))
    }
}

/// The lock that makes a second writer wait. Its file tells who holds it.
#[derive(Debug)]
pub struct Lock {
    file: Mutex<std::fs::File>,
}

/// Why the lock was not had.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it; the text tells which.
    Held(String),
    /// The file cannot be used.
    File(PathBuf, std::io::Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(holder) => {
                write!(f, "the ledger is held by another process: {}", holder.replace('\n', " ").trim())
            }
            Self::File(path, e) => write!(f, "{}: {e}", path.display()),
        }
    }
}

impl std::error::Error for LockError {}

impl Lock {
    /// Takes the lock of `files`, waiting at most `wait`.
    pub fn take(files: &Files, wait: Duration) -> Result<Self, LockError> {
        let path = files.lock();
        let at = |e| LockError::File(path.clone(), e);
        let open = || {
            std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
        };
        let file = open().map_err(at)?;
        let step = Duration::from_millis(20);
        let mut left = wait;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(std::fs::TryLockError::WouldBlock) if left.is_zero() => {
                    return Err(LockError::Held(Self::holder(files).unwrap_or_default()));
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    std::thread::sleep(step.min(left));
                    left = left.saturating_sub(step);
                }
                Err(std::fs::TryLockError::Error(e)) => return Err(at(e)),
            }
        }
        let lock = Self { file: Mutex::new(file) };
        lock.tell(None).map_err(at)?;
        Ok(lock)
    }

    /// Writes this process's number and, for a server, its URL into the file.
    pub fn tell(&self, url: Option<&str>) -> std::io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = format!("pid={}\n", std::process::id());
        if let Some(url) = url {
            text.push_str(&format!("url={url}\n"));
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())
    }

    /// What the holder of the lock says of itself, or `None` where nobody holds it.
    #[must_use]
    pub fn holder(files: &Files) -> Option<String> {
        let mut file = std::fs::File::open(files.lock()).ok()?;
        // Being able to take it shared means that nobody holds it; the descriptor's end gives it back.
        if file.try_lock_shared().is_ok() {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// The high-water mark: written after each commit and not synced, so it may lag and never lead.
#[derive(Debug)]
pub struct HighWater {
    file: std::fs::File,
}

impl HighWater {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Self { file })
    }

    /// Writes `head`. A failure is no more than a mark that lags.
    pub(super) fn write(&self, head: Head) {
        if let Err(e) = self.file.write_all_at(Self::line(head).as_bytes(), 0) {
            tracing::warn!(error = %e, "the high-water mark was not written");
        }
    }

    /// Reads the mark; `None` where there is none that can be read.
    #[must_use]
    pub fn read(path: &Path) -> Option<Head> {
        let text = std::fs::read_to_string(path).ok()?;
        let (size, root) = text.trim_end().split_once(' ')?;
        let read = Head { size: size.parse().ok()?, root: Digest::from_hex(root)? };
        (Self::line(read) == text).then_some(read)
    }

    fn line(head: Head) -> String {
        format!("{:020} {}\n", head.size, head.root)
    }

    /// Whether there is something that is no mark. An empty file is what a crash may leave of a first
    /// write: no more than a mark that is missing.
    #[must_use]
    pub fn is_garbled(path: &Path) -> bool {
        Self::read(path).is_none() && std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
    }
}

/// Why a ledger was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another writer, or no lock.
    Lock(LockError),
    /// A database.
    Store(StoreError),
    /// state.db is no database any more.
    Garbled(StoreError),
    /// Reading what is there.
    Read(ReadError),
    /// A file beside the databases.
    File(PathBuf, std::io::Error),
    /// The ledger is shorter than, or other than, what was seen of it before.
    Incomplete(String),
    /// The keys that sign.
    Keys(String),
    /// The first entry could not be written.
    Append(AppendError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(e) => e.fmt(f),
            Self::Store(e) => e.fmt(f),
            Self::Garbled(e) => write!(
                f,
                "{e}: stop the server and delete this file, which is then made anew from the ledger"
            ),
            Self::Read(e) => e.fmt(f),
            Self::File(path, e) => write!(f, "{}: {e}", path.display()),
            Self::Incomplete(what) => {
                write!(f, "the ledger is incomplete or changed: {what}; `par audit verify` tells more")
            }
            Self::Keys(what) => write!(f, "the ledger cannot be signed: {what}"),
            Self::Append(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(ReadError::Sqlite(error))
    }
}

impl Ledger {
    /// Opens the ledger for writing under `lock`, brings state.db up to date, and writes the genesis
    /// entry where there is none: it names the log that was set aside last. Starts the writer's thread.
    ///
    /// A ledger that is shorter than its high-water mark or than what state.db saw is refused.
    pub fn open(files: Files, lock: Lock, projections: &'static [Projection]) -> Result<Self, OpenError> {
        let segments = files.segments().map_err(|e| OpenError::File(files.data.clone(), e))?;
        let path = files.segment(segments.last().copied().unwrap_or_default());
        let db = store::open_writer(&path, Db::Ledger).map_err(OpenError::Store)?;
        check_schema(&db, Db::Ledger)?;
        let reader = Reader::open(&files.ledger()).map_err(OpenError::Store)?;
        check_seals(&reader)?;
        let (chain, log) = resume(&reader)?;
        let head = Head { size: chain.frontier.size(), root: chain.frontier.root() };
        check_mark(&files, head)?;
        let projector = open_state(&files, projections, &reader, head.size)?;
        erase::finish(&files, &reader).map_err(OpenError::Read)?;
        let segment = Segment::resume(&path, &reader, head.size).map_err(OpenError::Read)?;

        let is_new = log.is_none();
        let newest = newest_checkpoint(&reader, &chain)?;
        let (signer, log) = match &log {
            Some(log) => (signer(&files, log, &reader, newest.as_ref())?, log.clone()),
            None => Signer::begin(files.keys(), clock::Wall::now().0).map_err(OpenError::Keys)?,
        };
        let genesis = is_new.then(|| signer.genesis(succeed::newest(&files)));
        let shared = Arc::new(Shared::at(head, newest.map(|(_, note)| note.to_string().into())));
        shared.segment.store(segment.first, Ordering::Release);
        let identity = store::identity(&path).map_err(|e| OpenError::File(path.clone(), e))?;
        let reader = Arc::new(reader);
        let mark = files.high_water();
        let high_water = HighWater::open(&mark).map_err(|e| OpenError::File(mark, e))?;
        let (queue, appends) = mpsc::channel(limits::QUEUE_ENTRIES_MAX);
        let lock = Arc::new(lock);
        expire::start(&files, &reader, queue.downgrade())?;
        let (moves, mover) = moves::start(&files, &shared, &reader, queue.downgrade())?;
        let writer = Writer {
            db,
            files: files.clone(),
            segment,
            path: path.clone(),
            identity,
            log: log.clone(),
            chain,
            high_water,
            projector,
            reader: reader.clone(),
            lags: false,
            reserve: make_reserve(&files, &shared)?,
            waiting: Vec::new(),
            shared: shared.clone(),
            signer,
            // A crash may have come between an erasure and the emptying of the log.
            owes: true,
            moves,
            logs: Logs::default(),
        };
        start(writer, appends, mover, lock.clone())?;
        let ledger = Self {
            queue,
            places: Arc::new(Semaphore::new(limits::QUEUE_ENTRIES_MAX)),
            shared,
            reader,
            state: Arc::new(Mutex::new(store::open_reader(&files.state()).map_err(OpenError::Store)?)),
            files: Arc::new(files),
            log: log.into(),
            _lock: lock,
        };
        if let Some(payload) = genesis {
            let first = ledger.append_blocking(vec![Draft::new(payload)]);
            let _receipts = first.map_err(OpenError::Append)?;
        }
        Ok(ledger)
    }

    /// Tells other processes through the lock file where this server listens.
    pub fn tell_url(&self, url: &str) -> std::io::Result<()> {
        self._lock.tell(Some(url))
    }

    /// As [`Ledger::append`], from a thread outside any async runtime.
    pub fn append_blocking(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        let places = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
        let permit = loop {
            match self.places.clone().try_acquire_many_owned(places) {
                Ok(permit) => break permit,
                Err(tokio::sync::TryAcquireError::NoPermits) => std::thread::yield_now(),
                Err(tokio::sync::TryAcquireError::Closed) => return Err(AppendError::Closed),
            }
        };
        let (append, answer) = Append::of(drafts)?;
        let append = Append { places: Some(permit), ..append };
        self.queue.blocking_send(Task::Append(append)).map_err(|_| AppendError::Closed)?;
        answer.blocking_recv().map_err(|_| AppendError::Closed)?
    }
}

/// The reserve; where there is no room for it, the disk counts as full from the start.
fn make_reserve(files: &Files, shared: &Shared) -> Result<Reserve, OpenError> {
    let mut reserve = Reserve::of(files);
    match reserve.make() {
        Err(e) if e.kind() == std::io::ErrorKind::StorageFull => shared.fail(&AppendError::Full),
        Err(e) => return Err(OpenError::File(files.reserve(), e)),
        Ok(()) => {}
    }
    Ok(reserve)
}

/// state.db, brought up to `size` entries.
fn open_state(
    files: &Files,
    projections: &'static [Projection],
    reader: &Reader,
    size: u64,
) -> Result<Projector, OpenError> {
    let state = store::open_writer(&files.state(), Db::State).map_err(of_state)?;
    check_schema(&state, Db::State)?;
    let projector = Projector { state, projections };
    catch_up(&projector, reader, size)?;
    Ok(projector)
}

/// Starts the writer's thread, which holds the lock until nobody of this process works on the files.
fn start(
    writer: Writer,
    appends: mpsc::Receiver<Task>,
    mover: JoinHandle<()>,
    lock: Arc<Lock>,
) -> Result<(), OpenError> {
    let path = writer.path.clone();
    let run = move || {
        writer.run(appends);
        if mover.join().is_err() {
            tracing::error!("the thread that moves the write-ahead logs panicked");
        }
        drop(lock);
    };
    let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(run);
    thread.map(drop).map_err(|e| OpenError::File(path, e))
}

/// The newest checkpoint, if there is one. One of more entries than there are, or of another root, is of a
/// ledger that lost entries or is another; behind one of fewer somebody has taken the checkpoints away that every
/// commit has, and could have written what he likes: nobody signs for that.
fn newest_checkpoint(reader: &Reader, chain: &Chain) -> Result<Option<(Checkpoint, Note)>, OpenError> {
    let Some(note) = reader.newest_checkpoint().map_err(OpenError::Read)? else { return Ok(None) };
    let note = Note::parse(&note).map_err(OpenError::Incomplete)?;
    let checkpoint = Checkpoint::parse(note.text()).map_err(OpenError::Incomplete)?;
    let (there, signed) = (chain.frontier.size(), checkpoint.head.size);
    if signed > there {
        return Err(OpenError::Incomplete(format!("it has {there} entries, and a checkpoint says {signed}")));
    }
    if signed < there {
        let what = format!("no checkpoint covers its entries {signed} to {}", there - 1);
        return Err(OpenError::Incomplete(what));
    }
    if checkpoint.head.root != chain.frontier.root() {
        return Err(OpenError::Incomplete(format!(
            "its root is not that of the checkpoint at {there} entries"
        )));
    }
    Ok(Some((checkpoint, note)))
}

/// The keys of a log that is there.
fn signer(
    files: &Files,
    log: &str,
    reader: &Reader,
    newest: Option<&(Checkpoint, Note)>,
) -> Result<Signer, OpenError> {
    let (_, note) = newest.ok_or_else(|| OpenError::Incomplete("it has no checkpoint".to_owned()))?;
    let entry = |seq| {
        let stored = reader.entry(seq).map_err(|e| e.to_string())?;
        stored.ok_or_else(|| "the entry is not there".to_owned())
    };
    Signer::resume(files.keys(), log, entry, note).map_err(OpenError::Keys)
}

/// The chain as the files have it, from their tiles and last headers; not a verification.
fn resume(reader: &Reader) -> Result<(Chain, Option<String>), OpenError> {
    let size = reader.size().map_err(OpenError::Read)?;
    let Some(last) = size.checked_sub(1) else { return Ok((Chain::default(), None)) };
    let mut shelf = reader.shelf();
    let leaves = (size - size % TILE_WIDTH as u64..size)
        .map(|seq| header_bytes(&mut shelf, seq).map(|bytes| leaf(&bytes)))
        .collect::<Result<_, _>>()
        .map_err(of_missing)?;
    let (edge, frontier) = TileEdge::resume(size, leaves, |level, index| {
        let stored = tile(&mut shelf, level, index).map_err(OpenError::Read)?;
        stored.ok_or_else(|| OpenError::Incomplete(format!("tile {level}/{index} is missing")))
    })?;
    let bytes = header_bytes(&mut shelf, last).map_err(of_missing)?;
    let header = Header::parse(&bytes).map_err(|what| OpenError::Read(ReadError::Damaged(last, what)))?;
    Ok((Chain { prev: Some(leaf(&bytes)), frontier, edge }, Some(header.log)))
}

/// A header that is not there is an entry that was lost.
fn of_missing(error: ReadError) -> OpenError {
    match error {
        ReadError::Damaged(..) => OpenError::Incomplete(error.to_string()),
        other => OpenError::Read(other),
    }
}

/// Each segment but the newest ends with its seal, where the next one begins.
fn check_seals(reader: &Reader) -> Result<(), OpenError> {
    let mut shelf = reader.shelf();
    for first in shelf.firsts().to_vec().into_iter().skip(1) {
        let before = first - 1;
        let bytes = header_bytes(&mut shelf, before).map_err(of_missing)?;
        if !Header::parse(&bytes).is_ok_and(|header| header.is(Kind::SegmentSeal)) {
            let what = format!("a segment begins with entry {first}, and the one before it has no seal");
            return Err(OpenError::Incomplete(what));
        }
    }
    Ok(())
}

/// A view, trigger or column that does not belong could swallow what is appended: nothing is written
/// under another schema than the one that was made.
fn check_schema(db: &Connection, kind: Db) -> Result<(), OpenError> {
    let mut report = Report::default();
    audit::check_schema(db, kind, &mut report).map_err(OpenError::Incomplete)?;
    match report.findings.first() {
        Some(finding) => Err(OpenError::Incomplete(finding.what.clone())),
        None => Ok(()),
    }
}

/// The ledger holds all that state.db does: one that is no database is no loss.
fn of_state(error: StoreError) -> OpenError {
    if error.is_garbled() { OpenError::Garbled(error) } else { OpenError::Store(error) }
}

/// A mark ahead of the ledger, or another root at the same size, is a ledger that lost entries.
fn check_mark(files: &Files, head: Head) -> Result<(), OpenError> {
    if HighWater::is_garbled(&files.high_water()) {
        return Err(OpenError::Incomplete("its high-water mark cannot be read".to_owned()));
    }
    match HighWater::read(&files.high_water()) {
        Some(mark) if mark.size > head.size => Err(OpenError::Incomplete(format!(
            "it has {} entries, and the high-water mark says {}",
            head.size, mark.size
        ))),
        Some(mark) if mark.size == head.size && mark.root != head.root => Err(OpenError::Incomplete(
            format!("its root is not that of the high-water mark at {} entries", mark.size),
        )),
        Some(_) => Ok(()),
        None if head.size > 0 => {
            tracing::warn!("the high-water mark is missing");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Moves state.db along to `size` entries.
pub(super) fn catch_up(projector: &Projector, reader: &Reader, size: u64) -> Result<(), OpenError> {
    const STEP: u64 = 1_000;
    let mut at = projector.applied()?;
    if at > size {
        return Err(OpenError::Incomplete(format!("it has {size} entries, and state.db has seen {at}")));
    }
    while at < size {
        let end = size.min(at + STEP);
        let mut batch = Vec::new();
        for seq in at..end {
            let stored = reader.entry(seq).map_err(OpenError::Read)?;
            let stored = stored.ok_or_else(|| OpenError::Incomplete(format!("entry {seq} is missing")))?;
            batch.push((stored.header, stored.body.unwrap_or_default()));
        }
        projector.apply(batch.iter().map(|(header, body)| (header, body.as_slice())), end)?;
        at = end;
    }
    Ok(())
}
