//! Verification of the files on disk: `par audit verify`.
//!
//! Levels: schema fingerprint and SQLite's own check; all headers, chain and root; every checkpoint and
//! epoch; all payloads; all tiles; the high-water mark; state.db against a fresh projection. Nothing is repaired.

use crate::ledger::handle::Head;
use crate::ledger::projection::{Projection, Row, applied, is_applied_one};
use crate::ledger::read::{ReadError, Shelf, root_at, segments as shelf};
use crate::ledger::tree::Tile;
use crate::ledger::write::{Files, HighWater, OpenError};
use super::pipeline::Reading;
use super::walk::{Mark, Outside, Report, Verdict, Walk};
use crate::store::{self, Kind, StoreError};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as RowRef, params_from_iter};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Entries between two words on how far a verification is.
pub(in crate::ledger) const PROGRESS_ENTRIES: u64 = 4_096;

/// What is said of a table `applied` with another row than its one.
const APPLIED_ODD: &str = "state.db: `applied` has not exactly one row with a number of entries";

/// What a verification looks for besides what the files say by themselves.
struct Looking<'a> {
    projections: &'static [Projection],
    outside: &'a [Outside],
    /// Told now and then how many entries of how many were followed.
    progress: &'a dyn Fn(u64, u64),
}

/// Verifies the ledger in `files`, also under a running writer.
///
/// What is read first may only be older than what is read later, so that a live ledger raises no
/// false alarm: mark, then state.db, then a snapshot of ledger.db, which decides; entries are read by several
/// threads in snapshots of their own behind it.
#[must_use]
pub fn audit(files: &Files, projections: &'static [Projection], outside: &[Outside]) -> Report {
    audit_telling(files, projections, outside, &|_, _| {})
}

/// As [`audit`]; `progress` is told now and then how many entries of how many were followed.
#[must_use]
pub fn audit_telling(
    files: &Files,
    projections: &'static [Projection],
    outside: &[Outside],
    progress: &dyn Fn(u64, u64),
) -> Report {
    let looking = Looking { projections, outside, progress };
    let (mark, state) = (read_mark(files), open_state(files));
    let known = mark.as_ref().ok().and_then(Option::as_ref).map(|head| Mark { head: *head });
    let there = state.as_ref().ok().and_then(Option::as_ref);
    let is_there = files.segments().is_ok_and(|firsts| !firsts.is_empty());
    let mut report = audit_ledger(files, known, there, &looking).unwrap_or_else(|what| {
        let mut report = Report::default();
        report.find(None, Verdict::Unreadable, what);
        report
    });
    report.find_strays(files);
    match mark {
        Ok(None) if is_there => {
            report.warnings.push("there is no high-water mark: a cut tail would not be seen".to_owned());
        }
        Ok(_) => {}
        Err(what) => report.find(None, Verdict::Unreadable, what),
    }
    match state {
        Ok(None) if is_there => report.warnings.push("there is no state.db to compare".to_owned()),
        Ok(_) => {}
        Err(what) => report.find(None, Verdict::Unreadable, format!("state.db cannot be compared: {what}")),
    }
    if report.verdict == Verdict::Verified && report.anchored.is_none() {
        report.verdict = Verdict::VerifiedUnanchored;
    }
    report
}

impl Report {
    /// Files that are named like segments and are none.
    pub(in crate::ledger) fn find_strays(&mut self, files: &Files) {
        for path in shelf::strays(&files.data).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.find(
                None,
                Verdict::Invalid,
                format!("`{name}` is named like a segment, and no segment has that name"),
            );
        }
    }
}

/// What keeps `path` from being read; `None` where it can be or is not there.
fn unreadable(path: &Path) -> Option<String> {
    let why = store::obstacle(path).filter(|e| e.kind() != ErrorKind::NotFound)?;
    Some(format!("{} cannot be read: {why}", path.display()))
}

/// The high-water mark; `None` where there is none.
fn read_mark(files: &Files) -> Result<Option<Head>, String> {
    let path = files.high_water();
    match unreadable(&path) {
        Some(what) => Err(what),
        None if HighWater::is_garbled(&path) => Err("the high-water mark cannot be read".to_owned()),
        None => Ok(HighWater::read(&path)),
    }
}

/// A snapshot of state.db and the number of entries that it has seen; `None` where there is no file,
/// which may be: it can be built again.
fn open_state(files: &Files) -> Result<Option<(Connection, u64)>, String> {
    let path = files.state();
    if let Some(what) = unreadable(&path) {
        return Err(what);
    }
    if !path.exists() {
        return Ok(None);
    }
    let state = store::open_reader(&path).map_err(|e| e.to_string())?;
    let at = |e| {
        let e = StoreError::Sqlite(path.clone(), e);
        if e.is_garbled() { OpenError::Garbled(e).to_string() } else { e.to_string() }
    };
    state.execute_batch("BEGIN").map_err(at)?;
    let size = match applied(&state) {
        Err(rusqlite::Error::QueryReturnedNoRows) => 0,
        other => other.map_err(at)?,
    };
    Ok(Some((state, size)))
}

/// What there is to say without a ledger.db: whether one was ever seen.
fn missing(mark: Option<u64>, seen: Option<u64>) -> Report {
    let mut report = Report::default();
    for (who, size) in [("the high-water mark says", mark), ("state.db has seen", seen)] {
        if let Some(size) = size.filter(|size| *size > 0) {
            let what = format!("there is no ledger.db, and {who} {size} entries");
            report.find(None, Verdict::Incomplete, what);
        }
    }
    if report.findings.is_empty() {
        let what =
            "the ledger is empty: there is no ledger.db. Nothing was recorded yet, or all of it is gone";
        report.find(None, Verdict::Unreadable, what);
    }
    report
}

fn audit_ledger(
    files: &Files,
    mark: Option<Mark>,
    state: Option<&(Connection, u64)>,
    looking: &Looking<'_>,
) -> Result<Report, String> {
    let firsts = files.segments().map_err(|e| format!("{}: {e}", files.data.display()))?;
    if let Some(what) = firsts.iter().find_map(|first| unreadable(&files.segment(*first))) {
        return Err(what);
    }
    if firsts.is_empty() {
        return Ok(missing(mark.map(|mark| mark.head.size), state.map(|(_, size)| *size)));
    }
    let mut shelf = Shelf::snapshot(&files.ledger()).map_err(|e| e.to_string())?;
    let paths: Vec<PathBuf> = shelf.firsts().iter().map(|first| shelf.path(*first)).collect();
    let mut walk = Walk::new(mark);
    let mut stored = Vec::new();
    for (at, first) in shelf.firsts().to_vec().iter().enumerate() {
        let db = shelf.segment(*first).map_err(|e| e.to_string())?;
        check_schema(db, Kind::Ledger, &mut walk.report)?;
        if walk.report.verdict != Verdict::Verified {
            // Under another schema the same statements could read something else.
            let (before, this) =
                (paths.get(..at).unwrap_or_default(), paths.get(at..=at).unwrap_or_default());
            if let Some(what) = first_unsound(before)? {
                return Ok(unsound(what));
            }
            let unsound = first_unsound(this)?;
            unsound.into_iter().for_each(|what| walk.report.find(None, Verdict::Unreadable, what));
            return Ok(walk.report);
        }
        stored.extend(checkpoints(db).map_err(text)?);
    }
    walk.expect(&stored, looking.outside);
    // SQLite's own check is made beside the walk, whose findings count for nothing where that one fails.
    let is_unsound = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let check = scope.spawn(|| {
            let found = first_unsound(&paths);
            is_unsound.store(!matches!(found, Ok(None)), Ordering::Relaxed);
            found
        });
        let walked = walk_all(&mut shelf, walk, state, looking, &is_unsound);
        match check.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))? {
            None => walked,
            Some(what) => Ok(unsound(what)),
        }
    })
}

fn unsound(what: String) -> Report {
    let mut report = Report::default();
    report.find(None, Verdict::Unreadable, what);
    report
}

fn walk_all(
    shelf: &mut Shelf,
    mut walk: Walk,
    state: Option<&(Connection, u64)>,
    looking: &Looking<'_>,
    is_unsound: &AtomicBool,
) -> Result<Report, String> {
    let mut replay = state.map(|_| Replay::new(looking.projections)).transpose()?;
    let mut tiles = Tiles::default();
    let until = entries_until(shelf.newest().map_err(|e| e.to_string())?).map_err(text)?;
    for first in shelf.firsts().to_vec() {
        let file = shelf.path(first);
        let db = shelf.segment(first).map_err(|e| e.to_string())?;
        walk.segment(first);
        for seq in numbers(db, "SELECT seq FROM entry WHERE seq < 0 ORDER BY seq").map_err(text)? {
            walk.report.find(None, Verdict::Invalid, format!("an entry is stored under {seq}"));
        }
        let reading = Reading {
            file,
            first,
            schema: &schema(db).map_err(text)?,
            replayed: state.map_or(0, |(_, size)| *size),
            projections: looking.projections,
        };
        // An entry that belongs before the segment is in the walk's way too.
        let lowest = numbers(db, "SELECT min(seq) FROM entry WHERE seq >= 0 HAVING min(seq) >= 0");
        let lowest = lowest.map_err(text)?.into_iter().find_map(|seq| u64::try_from(seq).ok());
        let from = lowest.map_or(first, |lowest| lowest.min(first));
        let is_paired = reading.follow(db, from, &mut walk, |walk, filled, seq, rows| {
            tiles.expect(filled);
            // What was changed leads to no state: from the first finding on there is nothing to compare.
            if let Some(replay) = replay.as_mut().filter(|_| walk.report.verdict == Verdict::Verified)
                && let Err(what) = replay.apply(rows)
            {
                walk.report.find(Some(seq), Verdict::Invalid, what);
            }
            if seq.is_multiple_of(PROGRESS_ENTRIES) {
                (looking.progress)(seq, until);
            }
            let is_over = is_unsound.load(Ordering::Relaxed);
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !is_paired {
            check_orphans(db, &mut walk.report).map_err(text)?;
        }
    }
    let anchors = std::mem::take(&mut walk.anchors);
    let (mut report, frontier) = walk.finish();
    if report.verdict == Verdict::Verified {
        tiles.compare(shelf, &mut report).map_err(|e| e.to_string())?;
    }
    if report.verdict == Verdict::Verified {
        compare_anchors(shelf, &anchors, &mut report)?;
    }
    if let (Some(replay), Some((state, size))) = (replay, state)
        && report.verdict == Verdict::Verified
    {
        compare_state(&replay, state, *size, frontier.size(), &mut report)?;
    }
    Ok(report)
}

/// What SQLite's own check finds in the first of the files where it finds anything.
fn first_unsound(paths: &[PathBuf]) -> Result<Option<String>, String> {
    for path in paths {
        let db = store::open_reader(path).map_err(|e| e.to_string())?;
        let mut statement = db.prepare("PRAGMA integrity_check(5)").map_err(text)?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0)).map_err(text)?;
        let lines = lines.collect::<Result<Vec<_>, _>>().map_err(text)?;
        if lines != ["ok"] {
            return Ok(Some(format!("integrity_check: {}", lines.join("; "))));
        }
    }
    Ok(None)
}

fn text(error: rusqlite::Error) -> String {
    format!("ledger.db: {error}")
}

fn numbers(db: &Connection, sql: &str) -> Result<Vec<i64>, rusqlite::Error> {
    db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// The number behind the last entry's.
pub(in crate::ledger) fn entries_until(db: &Connection) -> Result<u64, rusqlite::Error> {
    let last: Option<i64> = db.query_row("SELECT max(seq) FROM entry", [], |row| row.get(0))?;
    Ok(last.and_then(|seq| u64::try_from(seq).ok()).map_or(0, |seq| seq + 1))
}

fn compare_state(
    replay: &Replay,
    state: &Connection,
    seen: u64,
    size: u64,
    report: &mut Report,
) -> Result<(), String> {
    if seen > size {
        let what = format!("{size} entries are there, and state.db has seen {seen}");
        report.find(Some(size), Verdict::Incomplete, what);
    }
    check_schema(state, Kind::State, report)?;
    if !is_applied_one(state).map_err(|e| format!("state.db: {e}"))? {
        report.find(None, Verdict::Invalid, APPLIED_ODD);
    }
    if report.verdict == Verdict::Verified {
        report.state_rows = Some(replay.compare(state, report)?);
    }
    Ok(())
}

pub(in crate::ledger) fn blob<'a>(row: &'a RowRef<'_>, column: usize) -> Result<Option<&'a [u8]>, String> {
    match row.get_ref(column).map_err(|e| e.to_string())? {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Some(bytes)),
        ValueRef::Integer(_) | ValueRef::Real(_) => {
            Err("a column holds a number where bytes belong".to_owned())
        }
    }
}

/// The schema must be exactly what the migrations make: an added view, trigger, index or column can
/// change what a query answers with the chain intact.
pub(in crate::ledger) fn check_schema(db: &Connection, kind: Kind, report: &mut Report) -> Result<(), String> {
    let expected = store::open_memory(kind).map_err(|e| e.to_string())?;
    let (want, is) = (schema(&expected).map_err(|e| e.to_string())?, schema(db).map_err(|e| e.to_string())?);
    let name = match kind {
        Kind::Ledger => "ledger.db",
        Kind::State => "state.db",
        Kind::Index => "index.db",
    };
    for (item, sql) in &is {
        match want.get(item) {
            None => report.find(
                None,
                Verdict::Invalid,
                format!("{name} has a {} that does not belong: `{}`", item.0, item.1),
            ),
            Some(other) if other != sql => {
                report.find(
                    None,
                    Verdict::Invalid,
                    format!("{name}: {} `{}` is not as it was made", item.0, item.1),
                );
            }
            Some(_) => {}
        }
    }
    for item in want.keys().filter(|item| !is.contains_key(*item)) {
        report.find(None, Verdict::Invalid, format!("{name} lacks {} `{}`", item.0, item.1));
    }
    Ok(())
}

pub(in crate::ledger) type Schema = BTreeMap<(String, String), Option<String>>;

pub(in crate::ledger) fn schema(db: &Connection) -> Result<Schema, rusqlite::Error> {
    let mut statement = db.prepare("SELECT type, name, sql FROM sqlite_master")?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    let mut schema: Schema = rows.collect::<Result<_, _>>()?;
    // What decides which migrations run is part of the schema.
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    schema.insert(("pragma".to_owned(), "user_version".to_owned()), Some(version.to_string()));
    Ok(schema)
}

/// The stored checkpoints: span, size and note.
pub(in crate::ledger) fn checkpoints(db: &Connection) -> Result<Vec<(i64, i64, Vec<u8>)>, rusqlite::Error> {
    let mut statement = db.prepare("SELECT id, size, note FROM checkpoint ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// Rows that belong to no entry.
pub(in crate::ledger) fn check_orphans(db: &Connection, report: &mut Report) -> Result<(), rusqlite::Error> {
    let orphan: Option<i64> =
        db.query_row("SELECT min(seq) FROM payload WHERE seq NOT IN (SELECT seq FROM entry)", [], |row| {
            row.get(0)
        })?;
    if let Some(seq) = orphan {
        report.find(u64::try_from(seq).ok(), Verdict::Incomplete, "a payload is there without its entry");
    }
    let lone: Option<i64> =
        db.query_row("SELECT min(seq) FROM entry WHERE seq NOT IN (SELECT seq FROM payload)", [], |row| {
            row.get(0)
        })?;
    if let Some(seq) = lone {
        report.find(u64::try_from(seq).ok(), Verdict::Invalid, "the payload's row is missing");
    }
    Ok(())
}

/// The trees that `anchor` entries say were told, against the tree; its tiles were compared before.
fn compare_anchors(shelf: &mut Shelf, anchors: &[(u64, Head)], report: &mut Report) -> Result<(), String> {
    for (seq, told) in anchors {
        let there = root_at(shelf, told.size).map_err(|e| e.to_string())?;
        if there == told.root {
            report.anchors += 1;
            continue;
        }
        let (there, told_root) = (there.short(), told.root.short());
        let what = format!(
            "it says that {} entries with the root {told_root}… were anchored, and theirs is {there}…: all before it \
             were rewritten",
            told.size
        );
        report.find(Some(*seq), Verdict::Invalid, what);
    }
    Ok(())
}

/// The tiles that the entries lead to, against those stored.
#[derive(Default)]
struct Tiles {
    expected: BTreeMap<i64, Vec<u8>>,
}

impl Tiles {
    fn expect(&mut self, tiles: Vec<Tile>) {
        for tile in tiles {
            self.expected.insert(Tile::key(tile.level, tile.index), tile.bytes());
        }
    }

    fn compare(mut self, shelf: &mut Shelf, report: &mut Report) -> Result<(), ReadError> {
        for first in shelf.firsts().to_vec() {
            let next = shelf.firsts().iter().copied().find(|next| *next > first).unwrap_or(u64::MAX);
            let mut statement = shelf.of(first)?.prepare("SELECT k, hashes FROM tile ORDER BY k")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (key, hashes): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                let is_here = (first..next).contains(&Tile::filled_at(key));
                if is_here && self.expected.remove(&key).as_deref() == Some(hashes.as_slice()) {
                    report.tiles += 1;
                } else {
                    report.find(
                        None,
                        Verdict::Invalid,
                        format!("tile {key} is not what the entries lead to"),
                    );
                }
            }
        }
        for key in self.expected.keys() {
            report.find(None, Verdict::Invalid, format!("tile {key} is missing"));
        }
        Ok(())
    }
}

/// A fresh projection of the first entries, to compare state.db against.
struct Replay {
    state: Connection,
    projections: &'static [Projection],
}

impl Replay {
    fn new(projections: &'static [Projection]) -> Result<Self, String> {
        let state = store::open_memory(Kind::State).map_err(|e| e.to_string())?;
        // Nobody else reads it, and nothing of it is kept: one transaction that never ends.
        state.execute_batch("BEGIN").map_err(|e| e.to_string())?;
        Ok(Self { state, projections })
    }

    fn apply(&mut self, rows: Vec<Row>) -> Result<(), String> {
        let apply = |row: Row| self.state.prepare_cached(row.sql)?.execute(params_from_iter(row.values));
        rows.into_iter()
            .try_for_each(|row| apply(row).map(drop))
            .map_err(|e| format!("state.db cannot follow this entry: {e}"))
    }

    fn compare(&self, state: &Connection, report: &mut Report) -> Result<u64, String> {
        let mut compared = 0;
        for (table, key) in self.projections.iter().flat_map(|p| p.tables) {
            let (rows, differs) =
                compare_table(&self.state, state, table, key).map_err(|e| format!("table `{table}`: {e}"))?;
            compared += rows;
            if let Some(shown) = differs {
                let what =
                    format!("state.db: table `{table}` is not what the entries lead to, at row {shown}");
                report.find(None, Verdict::Invalid, what);
            }
        }
        Ok(compared)
    }
}

/// How many rows `is` has, and the first that is not as in `want`, or that only `want` has.
fn compare_table(
    want: &Connection,
    is: &Connection,
    table: &str,
    key: &str,
) -> Result<(u64, Option<String>), rusqlite::Error> {
    let sql = format!("SELECT * FROM {table} ORDER BY {key}");
    let (mut want, mut is) = (want.prepare(&sql)?, is.prepare(&sql)?);
    let columns = is.column_count();
    let (mut want, mut is) = (want.query([])?, is.query([])?);
    let (mut rows, mut differs) = (0, None);
    loop {
        let wanted = want.next()?;
        let found = is.next()?;
        rows += u64::from(found.is_some());
        match (wanted, found) {
            (None, None) => return Ok((rows, differs)),
            _ if differs.is_some() => {}
            (wanted, found) => {
                let (wanted, found) =
                    (wanted.map(|row| cells(row, columns)), found.map(|row| cells(row, columns)));
                let (wanted, found) = (wanted.transpose()?, found.transpose()?);
                if wanted != found {
                    let shown = found.or(wanted).unwrap_or_default();
                    let shown: Vec<String> = shown.iter().map(|cell| format!("{cell:?}")).collect();
                    differs = Some(shown.join(", "));
                }
            }
        }
    }
}

fn cells<'a>(row: &'a RowRef<'_>, columns: usize) -> Result<Vec<ValueRef<'a>>, rusqlite::Error> {
    (0..columns).map(|at| row.get_ref(at)).collect()
}
