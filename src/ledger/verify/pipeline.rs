//! Entries read and looked at by several threads, and handed over in their order.
//!
//! Each thread has its own connections, and so its own snapshot: what it reads may be younger than what the caller
//! sees, and never older. A ledger only grows, so that up to the caller's last entry there is one difference that is
//! no damage: a payload that was erased in between. The caller looks again at what is not there.

use super::entry::{Looked, PayloadState};
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
/// Pages that one thread may be ahead.
const PAGES_AHEAD: usize = 4;
/// Threads that look, at most: the caller's own is one more.
const THREADS_MAX: usize = 8;

/// What a thread saw of a few entries that stand side by side.
#[derive(Debug)]
pub(super) struct SeenPage {
    /// Where they end: more entries than are here may have been looked for.
    pub(in crate::ledger) until: u64,
    pub(in crate::ledger) entries: Vec<SeenEntry>,
    /// Whether every entry has its payload's row, and every payload its entry.
    pub(super) is_paired: bool,
}

/// An entry, and what it changes in state.db.
#[derive(Debug)]
pub(super) struct SeenEntry {
    pub(in crate::ledger) seq: u64,
    pub(in crate::ledger) looked: Looked,
    pub(in crate::ledger) rows: Vec<Row>,
}

/// What the threads are to do.
#[derive(Debug)]
pub(in crate::ledger) struct Reading<'a> {
    /// The file of a segment, and its first entry.
    pub(in crate::ledger) file: PathBuf,
    pub(in crate::ledger) first: u64,
    /// The schema of the caller's snapshot: under another one the same statements could read something else.
    pub(in crate::ledger) schema: &'a Schema,
    /// Entries before this one may change state.db.
    pub(in crate::ledger) replayed: u64,
    pub(in crate::ledger) projections: &'static [Projection],
}

impl Reading<'_> {
    /// Hands every page to `take`, by rising numbers, until it wants no more. At most a few pages a thread are in
    /// memory.
    pub(super) fn run(
        &self,
        range: &Range<u64>,
        mut take: impl FnMut(SeenPage) -> Result<ControlFlow<()>, AuditError>,
    ) -> Result<(), AuditError> {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
        std::thread::scope(|scope| {
            // Page n is thread n's, and each has a channel of its own: the order needs no look.
            let pages: Vec<Receiver<_>> = (0..threads)
                .map(|thread| {
                    let (sender, pages) = sync_channel(PAGES_AHEAD);
                    scope.spawn(move || self.look(range, thread, threads, &sender));
                    pages
                })
                .collect();
            // A thread that has no more to give has let go of its channel.
            let in_turn = pages.iter().cycle().map_while(|pages| pages.recv().ok());
            for page in in_turn {
                if take(page?)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Walks over the entries of the segment, of which those from `from` on are looked for. `each` is told of every
    /// entry, of the tiles that it filled and of what it changes in state.db, and may end the walk, which otherwise
    /// ends where the chain does. Gives out whether every entry has its payload's row, and every payload its entry,
    /// as far as that is known without looking for it.
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
            for seen in page.entries {
                let (seen, body) = match seen.wants_again() {
                    true => self.again(db, seen.seq)?,
                    false => (seen, None),
                };
                let filled = walk.entry(seen.seq, &seen.looked, body.as_deref());
                if each(walk, filled, seen.seq, seen.rows)?.is_break() || walk.is_broken() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if walk.size() < page.until {
                // Entries are missing: the walk breaks at the next one that is there.
                let next = "SELECT min(seq) FROM entry WHERE seq >= ?1";
                let next: Option<i64> = db.query_row(next, [number(walk.size())], |row| row.get(0))?;
                let next = next.and_then(|next| u64::try_from(next).ok()).unwrap_or(page.until);
                let (seen, body) = self.again(db, next)?;
                walk.entry(next, &seen.looked, body.as_deref());
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(is_paired && !walk.is_broken())
    }

    /// Looks at an entry in the caller's own snapshot, and hands back its payload too.
    fn again(&self, db: &Connection, seq: u64) -> Result<(SeenEntry, Option<Vec<u8>>), AuditError> {
        let sql =
            "SELECT e.header, p.salt, p.body FROM entry e LEFT JOIN payload p USING (seq) WHERE e.seq = ?1";
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query([number(seq)])?;
        let row = rows.next()?.ok_or(AuditError::Gone(seq))?;
        let (header, body) = (blob(row, 0)?.unwrap_or_default(), blob(row, 2)?);
        let looked = Looked::at(header, blob(row, 1)?, body, &mut "".into());
        let rows = self.changes(seq, &looked, header, body.unwrap_or_default());
        Ok((SeenEntry { seq, looked, rows }, body.map(<[u8]>::to_vec)))
    }

    /// Every page of one thread.
    fn look(
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
            // Nobody waits any more: the walk ended early.
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
            // Payloads before this entry have none.
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
            let looked = Looked::at(header, salt, words, log);
            let rows = self.changes(seq_of, &looked, header, words.unwrap_or_default());
            page.entries.push(SeenEntry { seq: seq_of, looked, rows });
            if at == Some(seq) {
                body = bodies.next()?;
            }
        }
        page.is_paired &= body.is_none();
        Ok(page)
    }

    /// What the entry changes in state.db. Most kinds change nothing: those are not read again.
    fn changes(&self, seq: u64, looked: &Looked, header: &[u8], body: &[u8]) -> Vec<Row> {
        let Ok(facts) = looked.header.as_ref().map_err(drop) else { return Vec::new() };
        let mut wanting = self.projections.iter().filter(|one| one.looks_at(facts.kind.as_str())).peekable();
        if seq >= self.replayed || wanting.peek().is_none() {
            return Vec::new();
        }
        let Ok(header) = Header::parse(header) else { return Vec::new() };
        wanting.flat_map(|projection| (projection.rows)(&header, body)).collect()
    }
}

impl SeenEntry {
    /// Whether the walk reads the payload's words, or the payload may have been erased since the caller's snapshot.
    fn wants_again(&self) -> bool {
        let Ok(facts) = &self.looked.header else { return false };
        self.looked.payload == PayloadState::Erased || ChainWalk::follows(&facts.kind)
    }
}

fn pages(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let (step, until) = (usize::try_from(PAGE_ENTRIES).unwrap_or(usize::MAX), range.end);
    range.clone().step_by(step).map(move |from| from..until.min(from.saturating_add(PAGE_ENTRIES)))
}

/// Whether a payload stands where no entry of the range can.
fn has_payload_outside(db: &Connection, range: &Range<u64>) -> Result<bool, rusqlite::Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM payload WHERE seq < ?1) \
               OR EXISTS (SELECT 1 FROM payload WHERE seq >= ?2)";
    db.query_row(sql, [number(range.start), number(range.end)], |row| row.get(0))
}
