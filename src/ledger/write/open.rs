//! Opens a ledger for writing: checks it against its marks and schema, resumes it, and starts its
//! writer.

use super::error::{AppendError, OpenError};
use super::follow::catch_up;
use super::queue::{Queue, Task};
use super::reserve::Reserve;
use super::segment::{Segment, SegmentFile};
use super::shared::Shared;
use super::succession::newest as newest_before;
use super::wal::{self, LogLengths};
use super::writer::{Tip, Writer};
use super::{retention, sealed};
use crate::ledger::checkpoint::{Checkpoint, Note, Signer};
use crate::ledger::entry::{Header, Kind};
use crate::ledger::files::{Files, HighWater, Lock};
use crate::ledger::payload::{GenesisPayload, KeyEpochPayload, LedgerDamagePayload, VerifyPass};
use crate::ledger::projection::{Projection, Projector};
use crate::ledger::read::{ReadError, Reader, header_bytes, tile, unlike_made};
use crate::ledger::tree::{Head, TILE_WIDTH, TileEdge, leaf};
use crate::ledger::verify::ChainState;
use crate::store::{self, Database, StoreError};
use crate::types::clock;
use rusqlite::Connection;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// An open ledger with its writer running.
#[derive(Debug)]
pub(in crate::ledger) struct Opened {
    pub(in crate::ledger) queue: Queue,
    pub(in crate::ledger) shared: Arc<Shared>,
    pub(in crate::ledger) reader: Arc<Reader>,
    /// A read-only connection to state.db.
    pub(in crate::ledger) state: Connection,
    pub(in crate::ledger) files: Files,
    /// The log's id.
    pub(in crate::ledger) log: String,
    pub(in crate::ledger) lock: Arc<Lock>,
    /// The payload of the first entry, if the log is new.
    pub(in crate::ledger) genesis: Option<GenesisPayload>,
}

/// Opens the ledger and starts the writer's thread. The caller still appends the genesis entry.
pub(in crate::ledger) fn open(
    files: Files,
    lock: Lock,
    projections: &'static [Projection],
) -> Result<Opened, OpenError> {
    let segments = files.segments().map_err(|e| OpenError::File(files.data.clone(), e))?;
    let path = files.segment(segments.last().copied().unwrap_or_default());
    let db = store::open_writer(&path, Database::Ledger).map_err(OpenError::Store)?;
    check_schema(&db, Database::Ledger)?;
    let reader = Reader::open(&files.ledger()).map_err(OpenError::Store)?;
    check_seals(&reader)?;
    let (chain, log) = resume(&reader)?;
    let head = Head { size: chain.frontier.size(), root: chain.frontier.root() };
    check_mark(&files, head)?;
    let projector = open_state(&files, projections, &reader, head.size)?;
    sealed::finish(&files, &reader).map_err(OpenError::Read)?;
    let segment = Segment::resume(&path, &reader, head.size).map_err(OpenError::Read)?;

    let is_new = log.is_none();
    let newest = newest_checkpoint(&reader, &chain)?;
    let (signer, log) = match &log {
        Some(log) => (signer(&files, log, &reader, newest.as_ref())?, log.clone()),
        None => Signer::begin(files.keys(), clock::Wall::now().0).map_err(OpenError::Keys)?,
    };
    let genesis = is_new.then(|| signer.genesis(newest_before(&files)));
    let checkpoint = newest.map(|(_, note)| note.to_string().into());
    let damage = recorded_damage(&reader).map_err(OpenError::Read)?;
    let known = damage.map_or_else(ChainState::default, ChainState::Broken);
    let shared = Arc::new(Shared::at(head, checkpoint, segment.first, known));
    let file = SegmentFile::new(db, path.clone()).map_err(|e| OpenError::File(path, e))?;
    let reader = Arc::new(reader);
    let mark = files.high_water();
    let high_water = HighWater::open(&mark).map_err(|e| OpenError::File(mark, e))?;
    let (queue, tasks) = Queue::new();
    let lock = Arc::new(lock);
    retention::start(&files, &reader, queue.downgrade())?;
    let (moves, mover) = wal::start(&files, &shared, &reader, queue.downgrade())?;
    let writer = Writer {
        files: files.clone(),
        segment,
        file,
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
        // A crash may have come between an erasure and the truncation of the write-ahead log.
        owes: true,
        moves,
        logs: LogLengths::default(),
    };
    start(writer, tasks, mover, lock.clone())?;
    let state = store::open_reader(&files.state()).map_err(OpenError::Store)?;
    Ok(Opened { queue, shared, reader, state, files, log, lock, genesis })
}

/// Allocates the reserve. A disk without space for it counts as full from the start.
fn make_reserve(files: &Files, shared: &Shared) -> Result<Reserve, OpenError> {
    let mut reserve = Reserve::new(files);
    match reserve.make() {
        Err(e) if e.kind() == std::io::ErrorKind::StorageFull => shared.fail(&AppendError::Full),
        Err(e) => return Err(OpenError::File(files.reserve(), e)),
        Ok(()) => {}
    }
    Ok(reserve)
}

/// Opens state.db and brings it up to `size` entries.
fn open_state(
    files: &Files,
    projections: &'static [Projection],
    reader: &Reader,
    size: u64,
) -> Result<Projector, OpenError> {
    let state = store::open_writer(&files.state(), Database::State).map_err(of_state)?;
    check_schema(&state, Database::State)?;
    let projector = Projector { state, projections };
    catch_up(&projector, reader, size)?;
    Ok(projector)
}

/// Starts the writer's thread. It holds the lock until no thread of this process works on the
/// files.
fn start(
    writer: Writer,
    tasks: mpsc::Receiver<Task>,
    mover: JoinHandle<()>,
    lock: Arc<Lock>,
) -> Result<(), OpenError> {
    let path = writer.file.path().to_owned();
    let run = move || {
        writer.run(tasks);
        if mover.join().is_err() {
            tracing::error!("the thread that copies the write-ahead logs panicked");
        }
        drop(lock);
    };
    let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(run);
    thread.map(drop).map_err(|e| OpenError::File(path, e))
}

/// The newest checkpoint, if there is one. If it covers more entries than there are, or has another
/// root, the ledger lost entries or is another one. If it covers fewer, the checkpoints that every
/// commit writes were removed and the entries after it may be forged, so they must not be signed.
fn newest_checkpoint(reader: &Reader, chain: &Tip) -> Result<Option<(Checkpoint, Note)>, OpenError> {
    let Some(note) = reader.newest_checkpoint().map_err(OpenError::Read)? else { return Ok(None) };
    let note = Note::parse(&note).map_err(|e| OpenError::Incomplete(e.to_string()))?;
    let checkpoint = Checkpoint::parse(note.text()).map_err(|e| OpenError::Incomplete(e.to_string()))?;
    let (there, signed) = (chain.frontier.size(), checkpoint.head.size);
    if signed > there {
        return Err(OpenError::Incomplete(format!(
            "it has {there} entries, but a checkpoint covers {signed}"
        )));
    }
    if signed < there {
        let what = format!("no checkpoint covers its entries {signed} to {}", there - 1);
        return Err(OpenError::Incomplete(what));
    }
    if checkpoint.head.root != chain.frontier.root() {
        return Err(OpenError::Incomplete(format!(
            "its root differs from that of the checkpoint at {there} entries"
        )));
    }
    Ok(Some((checkpoint, note)))
}

/// The damage that an earlier process recorded, if there is any. After such an entry the log takes
/// only a few kinds, so that the search ends at the first entry of another kind.
pub fn recorded_damage(reader: &Reader) -> Result<Option<LedgerDamagePayload>, ReadError> {
    let mut next = reader.size()?.checked_sub(1);
    while let Some(seq) = next {
        let bytes = header_bytes(&mut reader.segments(), seq)?;
        let header = Header::parse(&bytes).map_err(ReadError::damaged(seq))?;
        match header.known_kind() {
            Some(Kind::LedgerDamage) => {
                let stored = reader.entry(seq).ok().flatten().and_then(|stored| stored.payload());
                let unread = || LedgerDamagePayload {
                    entry: None,
                    found: format!("entry {seq} records damage"),
                    pass: VerifyPass::Whole,
                    size: seq,
                };
                return Ok(Some(stored.unwrap_or_else(unread)));
            }
            Some(kind) if kind.is_written_on_damage() => next = seq.checked_sub(1),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The keys of an existing log.
fn signer(
    files: &Files,
    log: &str,
    reader: &Reader,
    newest: Option<&(Checkpoint, Note)>,
) -> Result<Signer, OpenError> {
    let (_, note) = newest.ok_or_else(|| OpenError::Incomplete("it has no checkpoint".to_owned()))?;
    let key_of = |seq| {
        let stored = reader.entry(seq).ok()??;
        let pinned = stored.payload().map(|pinned: GenesisPayload| pinned.epoch_key);
        pinned.or_else(|| stored.payload().map(|named: KeyEpochPayload| named.key))
    };
    Signer::resume(files.keys(), log, key_of, note).map_err(OpenError::Keys)
}

/// The chain as stored, from the tiles and the last headers. This is not a verification.
fn resume(reader: &Reader) -> Result<(Tip, Option<String>), OpenError> {
    let size = reader.size().map_err(OpenError::Read)?;
    let Some(last) = size.checked_sub(1) else { return Ok((Tip::default(), None)) };
    let mut segments = reader.segments();
    let leaves = (size - size % TILE_WIDTH as u64..size)
        .map(|seq| header_bytes(&mut segments, seq).map(|bytes| leaf(&bytes)))
        .collect::<Result<_, _>>()
        .map_err(of_missing)?;
    let (edge, frontier) = TileEdge::resume(size, leaves, |level, index| {
        let stored = tile(&mut segments, level, index).map_err(OpenError::Read)?;
        stored.ok_or_else(|| OpenError::Incomplete(format!("tile {level}/{index} is missing")))
    })?;
    let bytes = header_bytes(&mut segments, last).map_err(of_missing)?;
    let header = Header::parse(&bytes).map_err(|e| OpenError::Read(ReadError::damaged(last)(e)))?;
    Ok((Tip { prev: Some(leaf(&bytes)), frontier, edge }, Some(header.log)))
}

/// A missing header means that an entry was lost.
fn of_missing(error: ReadError) -> OpenError {
    match error {
        ReadError::Damaged(..) => OpenError::Incomplete(error.to_string()),
        other => OpenError::Read(other),
    }
}

/// Checks that each segment but the newest ends with a seal right before the next one begins.
fn check_seals(reader: &Reader) -> Result<(), OpenError> {
    let mut segments = reader.segments();
    for first in segments.firsts().to_vec().into_iter().skip(1) {
        let before = first - 1;
        let bytes = header_bytes(&mut segments, before).map_err(of_missing)?;
        if !Header::parse(&bytes).is_ok_and(|header| header.is(Kind::SegmentSeal)) {
            let what = format!("a segment begins with entry {first}, but the one before it has no seal");
            return Err(OpenError::Incomplete(what));
        }
    }
    Ok(())
}

/// A view, trigger or column that does not belong there could swallow appended entries, so nothing
/// is written to a database with another schema.
fn check_schema(db: &Connection, kind: Database) -> Result<(), OpenError> {
    let unlike = unlike_made(db, kind).map_err(|e| OpenError::Incomplete(e.to_string()))?;
    match unlike.into_iter().next() {
        Some(what) => Err(OpenError::Incomplete(what)),
        None => Ok(()),
    }
}

/// The ledger holds all that state.db does, so nothing is lost if state.db is not a database any
/// more.
fn of_state(error: StoreError) -> OpenError {
    if error.is_garbled() { OpenError::Garbled(error) } else { OpenError::Store(error) }
}

/// A mark ahead of the ledger, or another root at the same size, means that the ledger lost
/// entries.
fn check_mark(files: &Files, head: Head) -> Result<(), OpenError> {
    if HighWater::is_garbled(&files.high_water()) {
        return Err(OpenError::Incomplete("its high-water mark cannot be read".to_owned()));
    }
    match HighWater::read(&files.high_water()) {
        Some(mark) if mark.size > head.size => Err(OpenError::Incomplete(format!(
            "it has {} entries, but the high-water mark has {}",
            head.size, mark.size
        ))),
        Some(mark) if mark.size == head.size && mark.root != head.root => Err(OpenError::Incomplete(
            format!("its root differs from that of the high-water mark at {} entries", mark.size),
        )),
        Some(_) => Ok(()),
        None if head.size > 0 => {
            tracing::warn!("the high-water mark is missing");
            Ok(())
        }
        None => Ok(()),
    }
}
