//! Drops the payloads of old segments. Headers, tiles and checkpoints stay, so that every old
//! header can still be proven against the newest checkpoint.
//!
//! A `payload.drop` entry is durable before the segment's file is replaced by one without the
//! payloads. Payloads that keys, rules and approvals are rebuilt from stay. A segment in which a
//! run began that has not ended keeps all of its payloads.

use super::error::{AppendError, OpenError};
use super::queue::WeakQueue;
use crate::ledger::entry::{Draft, Header, Kind};
use crate::ledger::files::Files;
use crate::ledger::payload::{PayloadDropPayload, dropped};
use crate::ledger::read::{ReadError, Reader, Stored};
use crate::store::{self, StoreError};
use crate::types::{RunStatus, clock, limits};
use rusqlite::params;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why payloads were not dropped.
#[derive(Debug, thiserror::Error)]
enum RetentionError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// Drops payloads, on its own thread.
struct Expiry {
    files: Files,
    reader: Arc<Reader>,
    queue: WeakQueue,
    age_ms: u64,
    /// Segments with nothing left to drop.
    done: BTreeSet<u64>,
}

/// Starts the thread, if payloads have a maximum age. It ends with the writer.
pub(super) fn start(files: &Files, reader: &Arc<Reader>, queue: WeakQueue) -> Result<(), OpenError> {
    let Some(age_ms) = files.rotation.payload_ms_max else { return Ok(()) };
    let mut expiry =
        Expiry { files: files.clone(), reader: reader.clone(), queue, age_ms, done: BTreeSet::new() };
    std::thread::Builder::new()
        .name("ledger-expiry".to_owned())
        .spawn(move || expiry.run())
        .map_err(|e| OpenError::File(files.data.clone(), e))?;
    Ok(())
}

impl Expiry {
    fn run(&mut self) {
        let every = Duration::from_millis((self.age_ms / 10).clamp(1_000, limits::EXPIRY_EVERY_MS_MAX));
        let mut last: Option<Instant> = None;
        // The end of the writer is noticed within a second.
        while self.queue.is_open() {
            if last.is_none_or(|last| last.elapsed() >= every) {
                if let Err(e) = self.expire() {
                    tracing::error!("payloads past their maximum age were not dropped: {e}");
                }
                last = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Drops payloads that are past their maximum age, oldest segment first.
    fn expire(&mut self) -> Result<(), RetentionError> {
        let firsts = self.reader.segments().firsts().to_vec();
        for range in firsts.windows(2).filter_map(|two| Some(*two.first()?..*two.get(1)?)) {
            if self.done.contains(&range.start) {
                continue;
            }
            let Some(seal) = self.reader.entry(range.end - 1)?.map(|stored| stored.header) else {
                return Ok(());
            };
            let age_us = clock::Wall::now().0.saturating_sub(seal.u64("wall_us").unwrap_or(u64::MAX));
            // The segments after it are younger.
            if age_us / 1_000 < self.age_ms {
                return Ok(());
            }
            let is_done = !self.has_payloads(&range)?
                || (!self.has_open_runs(&range)? && self.drop_payloads(&range)?);
            if is_done {
                self.done.insert(range.start);
            }
        }
        Ok(())
    }

    /// Whether a payload that may be dropped still exists.
    fn has_payloads(&self, range: &Range<u64>) -> Result<bool, RetentionError> {
        let db = store::open_reader(&self.files.segment(range.start))?;
        let found = || -> Result<bool, rusqlite::Error> {
            let sql = "SELECT e.header FROM payload p JOIN entry e USING (seq) WHERE p.body IS NOT NULL";
            let mut statement = db.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if Header::parse(&row.get::<_, Vec<u8>>(0)?).is_ok_and(|header| header.is_expirable()) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok(found().map_err(ReadError::Sqlite)?)
    }

    /// Whether a run that began before the segment's end has not ended yet. Its entries may be read
    /// again.
    fn has_open_runs(&self, range: &Range<u64>) -> Result<bool, RetentionError> {
        let mut open = BTreeSet::new();
        let size = self.reader.size()?;
        let wants = |header: &Header| {
            let Some(run) = header.str("run") else { return false };
            if header.is(Kind::RunReply) && header.str("status") != Some(RunStatus::Waiting.as_str()) {
                open.remove(run);
            } else if header.seq < range.end {
                open.insert(run.to_owned());
            }
            false
        };
        self.reader.walk(range.start..size, wants, |_| ())?;
        Ok(!open.is_empty())
    }

    /// Records the drop, then replaces the file by one without the payloads. Returns false if a
    /// reader has the segment open; the next round tries again.
    fn drop_payloads(&self, range: &Range<u64>) -> Result<bool, RetentionError> {
        let path = self.files.segment(range.start);
        // A reader that still uses a write-ahead log would lose that log with the file's name.
        if !self.reader.settle_within(range.start, limits::SETTLE_MS_MAX)? {
            return Ok(false);
        }
        if !self.is_recorded(range)? {
            self.record(range)?;
        }
        let at = |e| StoreError::Sqlite(path.clone(), e);
        let old = store::open_reader(&path)?;
        let rest = store::Replacement::make(&path, store::Database::Ledger)?;
        let copy = || -> Result<(), rusqlite::Error> {
            let change = rest.db().unchecked_transaction()?;
            let mut statement = old.prepare(
                "SELECT e.seq, e.header, p.salt, p.body FROM entry e LEFT JOIN payload p USING (seq) ORDER BY e.seq",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (seq, header): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                let goes = Header::parse(&header).is_ok_and(|header| header.is_expirable());
                let (salt, body): (Option<Vec<u8>>, Option<Vec<u8>>) =
                    if goes { (None, None) } else { (row.get(2)?, row.get(3)?) };
                change
                    .prepare_cached("INSERT INTO entry(seq, header) VALUES (?1, ?2)")?
                    .execute(params![seq, header])?;
                change
                    .prepare_cached("INSERT INTO payload(seq, salt, body) VALUES (?1, ?2, ?3)")?
                    .execute(params![seq, salt, body])?;
            }
            for (table, columns) in [("tile", "k, hashes"), ("checkpoint", "id, size, note")] {
                let mut statement = old.prepare(&format!("SELECT {columns} FROM {table}"))?;
                let width = statement.column_count();
                let places = (1..=width).map(|at| format!("?{at}")).collect::<Vec<_>>().join(", ");
                let mut insert =
                    change.prepare(&format!("INSERT INTO {table}({columns}) VALUES ({places})"))?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let values: Vec<rusqlite::types::Value> =
                        (0..width).map(|at| row.get(at)).collect::<Result<_, _>>()?;
                    insert.execute(rusqlite::params_from_iter(values))?;
                }
            }
            change.commit()
        };
        copy().map_err(at)?;
        drop(old);
        let mut segments = self.reader.segments();
        segments.close(range.start);
        rest.take_place()?;
        Ok(true)
    }

    /// Whether an entry records the drop already: a crash came between the entry and the file.
    fn is_recorded(&self, range: &Range<u64>) -> Result<bool, RetentionError> {
        let mut is_recorded = false;
        let size = self.reader.size()?;
        let wants = |header: &Header| header.is(Kind::PayloadDrop);
        let each = |stored: Stored| {
            let body = stored.body.unwrap_or_default();
            is_recorded |= dropped(&body).is_some_and(|dropped| dropped == *range);
        };
        self.reader.walk(range.end..size, wants, each)?;
        Ok(is_recorded)
    }

    fn record(&self, range: &Range<u64>) -> Result<(), RetentionError> {
        let payload = PayloadDropPayload { first: range.start, last: range.end - 1, age_ms_max: self.age_ms };
        let drafts = vec![Draft::new(payload)];
        let _receipts = self.queue.append(drafts)?;
        Ok(())
    }
}
