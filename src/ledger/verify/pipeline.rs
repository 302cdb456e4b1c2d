//! Reads and checks entries in several threads, and hands them over in order.
//!
//! Each thread has its own connections and so its own snapshot. It may be younger than the caller's
//! but never older. A ledger only grows, so up to the caller's last entry only one difference is
//! not damage: a payload that was erased in between. The caller reads again what is missing.

use super::entry::{CheckedEntry, PayloadState};
use super::error::AuditError;
use super::rows::{blob, entries_until};
use super::walk::ChainWalk;
use crate::ledger::entry::Header;
use crate::ledger::projection::{Projection, Row};
use crate::ledger::read::{Schema, number, schema};
use crate::ledger::tree::Tile;
use crate::store;
use rusqlite::Connection;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Entries of one page.
const PAGE_ENTRIES: u64 = 256;
/// Pages that one thread may be ahead of the walk.
const PAGES_AHEAD: usize = 4;
/// Maximum number of checking threads, in addition to the caller's.
const THREADS_MAX: usize = 8;

/// A thread's results for a range of neighbouring entries.
#[derive(Debug)]
pub(super) struct SeenPage {
    /// The end of the page's range. Entries of the range may be missing in `entries`.
    pub(in crate::ledger) until: u64,
    pub(in crate::ledger) entries: Vec<SeenEntry>,
    /// Whether every entry has a payload row, and every payload row an entry.
    pub(super) is_paired: bool,
}

/// An entry and its changes to state.db.
#[derive(Debug)]
pub(super) struct SeenEntry {
    pub(in crate::ledger) seq: u64,
    pub(in crate::ledger) checked: CheckedEntry,
    pub(in crate::ledger) rows: Vec<Row>,
}

/// The task of the threads.
#[derive(Debug)]
pub(in crate::ledger) struct Reading<'a> {
    /// The file of a segment.
    pub(in crate::ledger) file: PathBuf,
    pub(in crate::ledger) first: u64,
    /// The schema of the caller's snapshot. With another schema the same statements could read
    /// other data.
    pub(in crate::ledger) schema: &'a Schema,
    /// Entries before this one may change state.db.
    pub(in crate::ledger) replayed: u64,
    pub(in crate::ledger) projections: &'static [Projection],
}

impl Reading<'_> {
    /// Passes every page to `take`, in rising order, until it breaks. Holds at most a few pages per
    /// thread in memory.
    pub(super) fn run(
        &self,
        range: &Range<u64>,
        mut take: impl FnMut(SeenPage) -> Result<ControlFlow<()>, AuditError>,
    ) -> Result<(), AuditError> {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
        std::thread::scope(|scope| {
            // Page n is thread n's, and each thread has its own channel, so the order needs no
            // check.
            let pages: Vec<Receiver<_>> = (0..threads)
                .map(|thread| {
                    let (sender, pages) = sync_channel(PAGES_AHEAD);
                    scope.spawn(move || self.check_pages(range, thread, threads, &sender));
                    pages
                })
                .collect();
            // A thread that has finished has dropped its sender.
            let in_turn = pages.iter().cycle().map_while(|pages| pages.recv().ok());
            for page in in_turn {
                if take(page?)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Walks over the entries of the segment from `from` on. Calls `each` with every entry, the
    /// tiles that it filled and its changes to state.db. `each` may end the walk; otherwise it ends
    /// with the chain. Returns whether every entry has a payload row and every payload row an
    /// entry, as far as the walk shows it.
    pub(in crate::ledger) fn follow(
        &self,
        db: &Connection,
        from: u64,
        walk: &mut ChainWalk,
        mut each: impl FnMut(&mut ChainWalk, Vec<Tile>, u64, Vec<Row>) -> Result<ControlFlow<()>, AuditError>,
    ) -> Result<bool, AuditError> {
        if walk.is_broken() {
            return Ok(false);
        }
        let range = from..entries_until(db)?;
        let mut is_paired = !has_payload_outside(db, &(self.first..range.end))?;
        self.run(&range, |page| {
            is_paired &= page.is_paired;
            self.take(db, page, walk, &mut each)
        })?;
        Ok(is_paired && !walk.is_broken())
    }

    /// As [`Reading::follow`], up to `until` at most and in this thread alone: every entry is read
    /// in the snapshot of `db`. Ends after a page for which `is_over` returns true.
    pub(super) fn follow_here(
        &self,
        db: &Connection,
        range: &Range<u64>,
        walk: &mut ChainWalk,
        mut each: impl FnMut(&mut ChainWalk, Vec<Tile>, u64, Vec<Row>) -> Result<ControlFlow<()>, AuditError>,
        is_over: impl Fn() -> bool,
    ) -> Result<bool, AuditError> {
        let mut is_paired = !has_payload_outside(db, &(self.first..entries_until(db)?))?;
        let mut log: Arc<str> = "".into();
        for page in pages(range) {
            let page = self.page(db, &page, &mut log)?;
            is_paired &= page.is_paired;
            if self.take(db, page, walk, &mut each)?.is_break() || is_over() {
                break;
            }
        }
        Ok(is_paired && !walk.is_broken())
    }

    /// Walks over one page.
    fn take(
        &self,
        db: &Connection,
        page: SeenPage,
        walk: &mut ChainWalk,
        each: &mut impl FnMut(&mut ChainWalk, Vec<Tile>, u64, Vec<Row>) -> Result<ControlFlow<()>, AuditError>,
    ) -> Result<ControlFlow<()>, AuditError> {
        for seen in page.entries {
            let (seen, body) = match seen.needs_reread() {
                true => self.reread(db, seen.seq)?,
                false => (seen, None),
            };
            let filled = walk.entry(seen.seq, &seen.checked, body.as_deref());
            if each(walk, filled, seen.seq, seen.rows)?.is_break() || walk.is_broken() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if walk.size() < page.until {
            // Entries are missing, so the walk breaks at the next one that exists.
            let next = "SELECT min(seq) FROM entry WHERE seq >= ?1";
            let next: Option<i64> = db.query_row(next, [number(walk.size())], |row| row.get(0))?;
            let next = next.and_then(|next| u64::try_from(next).ok()).unwrap_or(page.until);
            let (seen, body) = self.reread(db, next)?;
            walk.entry(next, &seen.checked, body.as_deref());
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Checks an entry in the caller's own snapshot, and returns its payload too.
    fn reread(&self, db: &Connection, seq: u64) -> Result<(SeenEntry, Option<Vec<u8>>), AuditError> {
        let sql =
            "SELECT e.header, p.salt, p.body FROM entry e LEFT JOIN payload p USING (seq) WHERE e.seq = ?1";
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query([number(seq)])?;
        let row = rows.next()?.ok_or(AuditError::Gone(seq))?;
        let (header, body) = (blob(row, 0)?.unwrap_or_default(), blob(row, 2)?);
        let checked = CheckedEntry::new(header, blob(row, 1)?, body, &mut "".into());
        let rows = self.changes(seq, &checked, header, body.unwrap_or_default());
        Ok((SeenEntry { seq, checked, rows }, body.map(<[u8]>::to_vec)))
    }

    /// Checks every page of one thread.
    fn check_pages(
        &self,
        range: &Range<u64>,
        thread: usize,
        threads: usize,
        sender: &SyncSender<Result<SeenPage, AuditError>>,
    ) {
        let mut log: Arc<str> = "".into();
        let mut mine = pages(range).skip(thread).step_by(threads).peekable();
        let db = match self.open() {
            Ok(db) => db,
            Err(error) if mine.peek().is_some() => return drop(sender.send(Err(error))),
            Err(_) => return,
        };
        for page in mine {
            let seen = self.page(&db, &page, &mut log);
            let is_last = seen.is_err();
            // The walk ended early, and the receiver is gone.
            if sender.send(seen).is_err() || is_last {
                return;
            }
        }
    }

    fn open(&self) -> Result<Connection, AuditError> {
        let db = store::open_reader(&self.file)?;
        db.execute_batch("BEGIN")?;
        match schema(&db)? == *self.schema {
            true => Ok(db),
            false => Err(AuditError::SchemaChanged),
        }
    }

    fn page(&self, db: &Connection, at: &Range<u64>, log: &mut Arc<str>) -> Result<SeenPage, AuditError> {
        let range = [at.start, at.end].map(number);
        let entries = "SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq";
        let payloads = "SELECT seq, salt, body FROM payload WHERE seq >= ?1 AND seq < ?2 ORDER BY seq";
        let (mut entries, mut payloads) = (db.prepare_cached(entries)?, db.prepare_cached(payloads)?);
        let mut headers = entries.query(range)?;
        let mut bodies = payloads.query(range)?;
        let mut page = SeenPage { until: at.end, entries: Vec::new(), is_paired: true };
        let mut body = bodies.next()?;
        while let Some(row) = headers.next()? {
            let seq: i64 = row.get(0)?;
            let header = blob(row, 1)?.unwrap_or_default();
            // Payload rows with smaller numbers have no entry.
            let at = loop {
                match body {
                    Some(row) => match row.get::<_, i64>(0)? {
                        before if before < seq => {
                            page.is_paired = false;
                            body = bodies.next()?;
                        }
                        at => break Some(at),
                    },
                    None => break None,
                }
            };
            let seq_of = u64::try_from(seq).unwrap_or(0);
            let (salt, words) = match body.filter(|_| at == Some(seq)) {
                Some(row) => (blob(row, 1)?, blob(row, 2)?),
                None => {
                    page.is_paired = false;
                    (None, None)
                }
            };
            let checked = CheckedEntry::new(header, salt, words, log);
            let rows = self.changes(seq_of, &checked, header, words.unwrap_or_default());
            page.entries.push(SeenEntry { seq: seq_of, checked, rows });
            if at == Some(seq) {
                body = bodies.next()?;
            }
        }
        page.is_paired &= body.is_none();
        Ok(page)
    }

    /// The changes of the entry to state.db. Most kinds have none and are not parsed again.
    fn changes(&self, seq: u64, checked: &CheckedEntry, header: &[u8], body: &[u8]) -> Vec<Row> {
        let Ok(facts) = checked.header.as_ref().map_err(drop) else { return Vec::new() };
        let mut wanting = self.projections.iter().filter(|one| one.looks_at(facts.kind.as_str())).peekable();
        if seq >= self.replayed || wanting.peek().is_none() {
            return Vec::new();
        }
        let Ok(header) = Header::parse(header) else { return Vec::new() };
        wanting.flat_map(|projection| (projection.rows)(&header, body)).collect()
    }
}

impl SeenEntry {
    /// Whether the walk needs the payload, or the payload may have been erased since the caller's
    /// snapshot.
    fn needs_reread(&self) -> bool {
        let Ok(facts) = &self.checked.header else { return false };
        self.checked.payload == PayloadState::Erased || ChainWalk::follows(&facts.kind)
    }
}

fn pages(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let (step, until) = (usize::try_from(PAGE_ENTRIES).unwrap_or(usize::MAX), range.end);
    range.clone().step_by(step).map(move |from| from..until.min(from.saturating_add(PAGE_ENTRIES)))
}

/// Whether a payload row has a number that no entry of the range can have.
fn has_payload_outside(db: &Connection, range: &Range<u64>) -> Result<bool, rusqlite::Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM payload WHERE seq < ?1) \
               OR EXISTS (SELECT 1 FROM payload WHERE seq >= ?2)";
    db.query_row(sql, [number(range.start), number(range.end)], |row| row.get(0))
}
