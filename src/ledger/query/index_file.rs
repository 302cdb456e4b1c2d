//! The file `index.db`: its lines, the digests over its blocks, and its updates, each in one
//! transaction.

use super::counts;
use super::index_row::{BLOCK_ENTRIES, IndexRow, digest, lines, seal};
use super::run_lines;
use super::tokens::{ASKED, any_text, words};
use crate::ledger::entry::{Header, Kind};
use crate::ledger::files::Files;
use crate::ledger::payload::dropped;
use crate::ledger::read::{ReadError, Reader, Stored, header_bytes, number, unlike_made};
use crate::ledger::tree::leaf;
use crate::store::{self, Database, StoreError};
use crate::types::Digest;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;

/// Maximum number of entries, and bytes of payloads, that one transaction indexes.
const BATCH_ENTRIES: u64 = 256;
const BATCH_BYTES: usize = 8 << 20;
#[derive(Debug)]
pub(in crate::ledger) struct IndexFile {
    pub(in crate::ledger) db: Connection,
    pub(super) identity: store::Identity,
    /// SQLite's `data_version`: it changes when another connection has written.
    version: i64,
    /// Blocks that were checked: by their columns only, and with their words.
    sound: [BTreeSet<u64>; 2],
    /// Blocks that did not match the ledger, until they are rebuilt.
    pub(super) unsound: BTreeSet<u64>,
    pub(super) batches: u32,
}

/// Why the index could not be used. Damage to the ledger is reported by the reader.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The file cannot be opened.
    #[error(transparent)]
    Store(StoreError),
    /// SQLite returned an error.
    #[error("index.db: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Too little space is free; the ledger has priority.
    #[error("index.db: too little disk space is free")]
    Space,
}

impl IndexFile {
    pub(in crate::ledger) fn open(files: &Files) -> Result<Self, IndexError> {
        Self::with(store::open_writer(&files.index(), Database::Index).map_err(IndexError::Store)?, files)
    }

    pub(super) fn with(db: Connection, files: &Files) -> Result<Self, IndexError> {
        let odd =
            |what: String| IndexError::Store(StoreError::File(files.index(), std::io::Error::other(what)));
        let unlike = unlike_made(&db, Database::Index).map_err(|e| odd(e.to_string()))?;
        if let Some(what) = unlike.into_iter().next() {
            return Err(odd(what));
        }
        let identity = store::identity(&files.index())
            .map_err(|e| IndexError::Store(StoreError::File(files.index(), e)))?;
        let inner = Self {
            db,
            identity,
            version: 0,
            sound: Default::default(),
            unsound: BTreeSet::new(),
            batches: 0,
        };
        Ok(inner)
    }

    /// Reads the index in one snapshot, whatever is written meanwhile.
    pub(in crate::ledger) fn still<T>(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.db.execute_batch("BEGIN")?;
        let seen = self.db.query_row("SELECT size FROM covered", [], |row| row.get::<_, i64>(0));
        let seen = seen.and_then(|_| self.refresh()).map_err(IndexError::from).and_then(|()| look(self));
        // Nothing was written, so a failing end does no harm.
        self.db.execute_batch("ROLLBACK")?;
        seen
    }

    /// Forgets which blocks were checked if another connection has written.
    pub(super) fn refresh(&mut self) -> Result<(), rusqlite::Error> {
        let version = self.db.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if version != self.version {
            self.sound.iter_mut().for_each(BTreeSet::clear);
            self.version = version;
        }
        Ok(())
    }

    /// Number of entries of this ledger in the index; 0 if it belongs to another ledger.
    pub(in crate::ledger) fn covered(&self, ledger: &Reader) -> Result<u64, IndexError> {
        let sql = "SELECT size, leaf FROM covered LEFT JOIN line ON seq = size - 1";
        let (size, last): (i64, Option<Vec<u8>>) =
            self.db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let size = u64::try_from(size).unwrap_or(0);
        let Some(before) = size.checked_sub(1).filter(|_| ledger.size().is_ok_and(|there| size <= there))
        else {
            return Ok(0);
        };
        let there = leaf(&header_bytes(&mut ledger.segments(), before)?);
        Ok(if last.as_deref() == Some(&there.0) { size } else { 0 })
    }

    pub(in crate::ledger) fn clear(&mut self) -> Result<(), rusqlite::Error> {
        let change = self.db.unchecked_transaction()?;
        change.execute_batch(
            "DELETE FROM line; DELETE FROM block; DELETE FROM counted; DELETE FROM run_line; UPDATE covered SET log = '', size = 0; DROP TABLE words; \
             CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'ascii'); \
             INSERT INTO words(words, rank) VALUES ('secure-delete', 1);",
        )?;
        change.commit()?;
        self.sound.iter_mut().for_each(BTreeSet::clear);
        self.unsound.clear();
        Ok(())
    }

    /// Makes one step in one transaction that begins before the ledger is read. So an eraser waits
    /// for it, and an entry that is read after an erasure has no payload any more.
    pub(super) fn advance(&mut self, ledger: &Reader) -> Result<u64, IndexError> {
        let is_other = self.covered(ledger)? == 0;
        if is_other {
            let is_empty = "SELECT size = 0 AND NOT EXISTS (SELECT 1 FROM line) FROM covered";
            if !self.db.query_row(is_empty, [], |row| row.get::<_, bool>(0))? {
                self.clear()?;
            }
        }
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        let done = self.step(ledger);
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.db.execute_batch(end)?;
        let (done, touched) = done?;
        for id in touched {
            // Each was sound before or is completely new, and only this connection has written
            // since.
            self.sound.iter_mut().for_each(|sound| {
                sound.insert(id);
            });
            self.unsound.remove(&id);
        }
        self.batches += u32::from(done > 0);
        Ok(done)
    }

    fn step(&mut self, ledger: &Reader) -> Result<(u64, BTreeSet<u64>), IndexError> {
        // Another connection may have written until the transaction began.
        self.refresh()?;
        let (covered, size) = (self.covered(ledger)?, ledger.size()?);
        let tail = covered / BLOCK_ENTRIES;
        if !covered.is_multiple_of(BLOCK_ENTRIES) && covered < size {
            // The digest over a block that grows also covers its earlier lines.
            self.is_sound(ledger, tail, covered, true)?;
        }
        let mut touched = BTreeSet::new();
        if let Some(id) = self.unsound.first().copied() {
            return self.rebuild_block(ledger, id, covered);
        }
        let (mut seq, mut bytes, mut log, mut runs) = (covered, 0, String::new(), BTreeSet::new());
        while seq < size.min(covered + BATCH_ENTRIES) && bytes < BATCH_BYTES {
            let stored = entry(ledger, seq)?;
            bytes += stored.body.as_ref().map_or(0, Vec::len);
            touched.insert(seq / BLOCK_ENTRIES);
            let line = self.put(ledger, &stored, covered, &mut touched)?;
            counts::count(&self.db, &line)?;
            runs.extend(line.field("run").map(ToOwned::to_owned));
            log = stored.header.log;
            seq += 1;
        }
        if seq > covered {
            runs.iter().try_for_each(|run| run_lines::refresh(&self.db, run))?;
            self.seal(&touched)?;
            self.db.execute("UPDATE covered SET log = ?1, size = ?2", params![log, number(seq)])?;
        }
        Ok((seq - covered, touched))
    }

    /// Rebuilds an unsound block from the ledger, up to entry `covered`.
    fn rebuild_block(
        &mut self,
        ledger: &Reader,
        id: u64,
        covered: u64,
    ) -> Result<(u64, BTreeSet<u64>), IndexError> {
        let mut touched = BTreeSet::from([id]);
        let range = id * BLOCK_ENTRIES..covered.min((id + 1) * BLOCK_ENTRIES);
        let ends = [range.start, (id + 1) * BLOCK_ENTRIES].map(number);
        self.db.execute("DELETE FROM line WHERE seq >= ?1 AND seq < ?2", ends)?;
        self.db.execute("DELETE FROM words WHERE rowid >= ?1 AND rowid < ?2", ends)?;
        for seq in range.clone() {
            self.put(ledger, &entry(ledger, seq)?, covered, &mut touched)?;
        }
        // After the last one: what is derived from the lines may be wrong too.
        if self.unsound.len() <= 1 {
            self.derive_again()?;
        }
        self.seal(&touched)?;
        Ok((range.end.saturating_sub(range.start), touched))
    }

    /// Writes the line and the words of an entry, and removes the words that it erased. Adds the
    /// blocks whose digest must be made again to `touched`.
    fn put(
        &mut self,
        ledger: &Reader,
        stored: &Stored,
        covered: u64,
        touched: &mut BTreeSet<u64>,
    ) -> Result<IndexRow, IndexError> {
        let text = text_of(&stored.header, stored.body.as_deref());
        let line = IndexRow::from_stored(stored, text.as_deref());
        line.insert(&self.db)?;
        if let Some(text) = text {
            self.db
                .prepare_cached("REPLACE INTO words(rowid, text) VALUES (?1, ?2)")?
                .execute(params![number(line.seq), text])?;
        }
        if let Some(erased) = stored.header.u64("ref").filter(|_| stored.header.is(Kind::Redaction)) {
            self.forget(ledger, erased, covered, touched)?;
        }
        if let Some(range) =
            stored.body.as_deref().filter(|_| stored.header.is(Kind::PayloadDrop)).and_then(dropped)
        {
            for seq in range.start..range.end.min(line.seq) {
                if has_expirable_words(&self.db, seq)? {
                    self.forget(ledger, seq, covered, touched)?;
                }
            }
        }
        Ok(line)
    }

    /// Makes the counts and the lines of runs again from the lines, if they differ. Returns whether
    /// they did.
    pub(super) fn derive_again(&self) -> Result<bool, rusqlite::Error> {
        let (counts_hold, runs_hold) = (counts::is_right(&self.db)?, run_lines::is_right(&self.db)?);
        if !counts_hold {
            counts::recount(&self.db)?;
        }
        if !runs_hold {
            run_lines::refresh_all(&self.db)?;
        }
        Ok(!(counts_hold && runs_hold))
    }

    /// Removes the words of an entry. The digest of a block that did not match before stays as it
    /// is, since the block is rebuilt.
    fn forget(
        &mut self,
        ledger: &Reader,
        seq: u64,
        covered: u64,
        touched: &mut BTreeSet<u64>,
    ) -> Result<(), IndexError> {
        let id = seq / BLOCK_ENTRIES;
        if touched.contains(&id) || self.is_sound(ledger, id, covered, true)? {
            touched.insert(id);
        }
        Ok(forget_one(&self.db, seq)?)
    }

    /// Writes the digests of blocks.
    fn seal(&self, blocks: &BTreeSet<u64>) -> Result<(), rusqlite::Error> {
        blocks.iter().try_for_each(|id| seal(&self.db, *id))
    }

    /// Whether the lines of a block can be trusted: they match its digest, no number is missing,
    /// and their columns match the ledger's headers. With `has_text` their words match the digest
    /// too. Remembers blocks that match.
    pub(in crate::ledger) fn is_sound(
        &mut self,
        ledger: &Reader,
        id: u64,
        covered: u64,
        has_text: bool,
    ) -> Result<bool, IndexError> {
        let [sound, with_words] = &self.sound;
        if with_words.contains(&id) || !has_text && sound.contains(&id) {
            return Ok(true);
        }
        let range = id * BLOCK_ENTRIES..covered.min((id + 1) * BLOCK_ENTRIES);
        let matches = !self.unsound.contains(&id)
            && self.matches_ledger(ledger, id, range.clone())?
            && (!has_text || self.has_its_words(range)?);
        if !matches {
            if self.unsound.insert(id) {
                tracing::error!(
                    block = id,
                    "index.db: a block does not match the ledger, which is read instead"
                );
            }
            return Ok(false);
        }
        let [sound, with_words] = &mut self.sound;
        if has_text { with_words } else { sound }.insert(id);
        Ok(true)
    }

    /// Whether a block was already checked.
    pub(in crate::ledger) fn knows(&self, id: u64, has_text: bool) -> bool {
        let [sound, with_words] = &self.sound;
        with_words.contains(&id) || !has_text && sound.contains(&id) || self.unsound.contains(&id)
    }

    fn matches_ledger(&self, ledger: &Reader, id: u64, range: Range<u64>) -> Result<bool, IndexError> {
        // Lines after the range's end may exist too.
        let lines = lines(&self.db, range.start..range.start + BLOCK_ENTRIES)?;
        let stored: Option<Vec<u8>> = self
            .db
            .prepare_cached("SELECT digest FROM block WHERE id = ?1")?
            .query_row([number(id)], |row| row.get(0))
            .optional()?;
        if !lines.iter().map(|line| line.seq).eq(range.clone())
            || stored.as_deref() != Some(&digest(&lines).0)
        {
            return Ok(false);
        }
        let (mut lines, mut all) = (lines.iter(), true);
        ledger.each_header(range, |seq, bytes| {
            all &= lines.next().is_some_and(|line| line.seq == seq && line.is_of(bytes));
            all
        })?;
        Ok(all && lines.next().is_none())
    }

    fn has_its_words(&self, range: Range<u64>) -> Result<bool, rusqlite::Error> {
        let ends = [range.start, range.end.max(range.start + 1) - 1].map(number);
        let sql = "SELECT seq, id, line.text, c0 FROM line LEFT JOIN words_content ON id = seq \
                   WHERE seq BETWEEN ?1 AND ?2";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(ends)?;
        while let Some(row) = rows.next()? {
            let (has_words, want): (Option<i64>, Option<Vec<u8>>) = (row.get(1)?, row.get(2)?);
            let matches = match (has_words, want) {
                (None, None) => true,
                (Some(_), Some(want)) => row
                    .get_ref(3)?
                    .as_str()
                    .is_ok_and(|text| Digest::sha256(text.as_bytes()).0.as_slice() == want.as_slice()),
                _ => false,
            };
            if !matches {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the index has words of an entry whose payload is dropped with age.
fn has_expirable_words(db: &Connection, seq: u64) -> Result<bool, rusqlite::Error> {
    let sql = "SELECT kind FROM line WHERE seq = ?1 AND text IS NOT NULL";
    let kind: Option<String> =
        db.prepare_cached(sql)?.query_row([number(seq)], |row| row.get(0)).optional()?;
    Ok(kind.and_then(|kind| Kind::parse(&kind)).is_some_and(Kind::is_expirable))
}

pub(in crate::ledger) fn forget_one(db: &Connection, seq: u64) -> Result<(), rusqlite::Error> {
    db.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([number(seq)])?;
    db.prepare_cached("UPDATE line SET text = NULL WHERE seq = ?1")?.execute([number(seq)])?;
    Ok(())
}

/// The words of a payload, separated by spaces; `None` if it may not be shown or has none.
pub(in crate::ledger) fn text_of(header: &Header, body: Option<&[u8]>) -> Option<String> {
    let body = body.filter(|_| header.shows_payload())?;
    let payload: Value = serde_json::from_slice(body).ok()?;
    let mut text = String::new();
    any_text(&payload, &mut |part| {
        for word in words(part) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word);
        }
        false
    });
    let message = payload.get("message").and_then(Value::as_str);
    for word in message.filter(|_| header.is(Kind::RunRequest)).into_iter().flat_map(words) {
        text.extend([' ', ASKED]);
        text.push_str(&word);
    }
    (!text.is_empty()).then_some(text)
}

fn entry(ledger: &Reader, seq: u64) -> Result<Stored, ReadError> {
    let stored = ledger.entry(seq)?;
    stored.ok_or_else(|| ReadError::Damaged(seq, "the entry is missing".to_owned()))
}
