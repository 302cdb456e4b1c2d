//! Reading entries, for people and for the rooms that answer from them.

use super::entry::{Header, Payload, commitment};
use super::epoch::Epochs;
use super::evidence::{Evidence, Item};
use super::merkle::{Frontier, TILE_WIDTH, Tile, leaf};
use super::note::{Checkpoint, Note, VerifierKey};
use super::payload::{GenesisPayload, KeyEpochPayload};
use super::query::Filter;
use super::shelf::Shelf;
use super::{Head, proof};
use crate::store::{self, StoreError};
use crate::types::{Digest, limits};
use rusqlite::{Connection, OptionalExtension as _};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Entries that one page of a walk looks at.
const WALK_ENTRIES: u64 = 1_024;

/// Reading connections that many may share; each call is a few short queries under a lock.
#[derive(Debug)]
pub struct Reader {
    shelf: Mutex<Shelf>,
    began: Mutex<Began>,
}

/// The entries that began an epoch, as far as was looked.
#[derive(Debug, Default)]
struct Began {
    looked: u64,
    seqs: Vec<u64>,
}

/// An entry as read back; the payload was checked against the header's commitment.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The header.
    pub header: Header,
    /// The header's bytes, which are what was hashed.
    pub bytes: Vec<u8>,
    /// The payload's bytes; `None` where they were erased.
    pub body: Option<Vec<u8>>,
}

/// An entry, and its payload's salt where that is there.
type Salted = (Stored, Option<[u8; 32]>);

impl Stored {
    /// The leaf hash, SHA-256(0x00 ‖ header): the next entry's `prev`.
    #[must_use]
    pub fn leaf(&self) -> Digest {
        leaf(&self.bytes)
    }

    /// What the payload says; `None` where it was erased or cut, and where the entry is of another kind.
    #[must_use]
    pub fn payload<P: Payload>(&self) -> Option<P> {
        self.header.payload_of(self.body.as_deref()?)
    }
}

/// Why an entry could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// A file cannot be opened.
    Store(StoreError),
    /// SQLite's own answer.
    Sqlite(rusqlite::Error),
    /// The entry is damaged: its number and what is wrong.
    Damaged(u64, String),
    /// No checkpoint covers the entry yet, but only so many.
    Unsigned(u64, u64),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(e) => e.fmt(f),
            Self::Sqlite(e) => write!(f, "ledger.db: {e}"),
            Self::Damaged(seq, what) => write!(f, "entry {seq} is damaged: {what}"),
            Self::Unsigned(seq, size) => {
                write!(f, "entry {seq} is not signed yet: the newest checkpoint covers {size} entries")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Which way a list goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By rising sequence number.
    #[default]
    Ascending,
    /// Newest first.
    Descending,
}

impl Reader {
    /// Opens the ledger at `path`, which is the file of its first segment, for reading.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { shelf: Mutex::new(Shelf::open(path)?), began: Mutex::default() })
    }

    pub(super) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // A panic under this lock cannot have left a read half done.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the write-ahead log of a sealed segment; false where somebody else has it open.
    pub(super) fn settle(&self, first: u64) -> Result<bool, StoreError> {
        let mut shelf = self.shelf();
        shelf.close(first);
        store::settle(&shelf.path(first))
    }

    /// The same, tried again for up to `ms_max` milliseconds: a command that reads is soon over.
    pub(super) fn settle_within(&self, first: u64, ms_max: u64) -> Result<bool, StoreError> {
        const STEP_MS: u64 = 20;
        for _ in 0..ms_max / STEP_MS {
            if self.settle(first)? {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(STEP_MS));
        }
        self.settle(first)
    }

    /// Number of entries.
    pub fn size(&self) -> Result<u64, ReadError> {
        let mut shelf = self.shelf();
        loop {
            let first = shelf.first_of(u64::MAX);
            let sql = "SELECT max(seq) FROM entry";
            let last: Option<i64> = shelf.newest()?.query_row(sql, [], |row| row.get(0))?;
            let size = last.and_then(|seq| u64::try_from(seq).ok()).map_or(first, |seq| seq + 1);
            // Another process may have begun a segment since.
            if size == first || !shelf.path(size).exists() {
                return Ok(size);
            }
            shelf.add(size);
        }
    }

    /// The newest signed checkpoint, as it is stored.
    pub fn newest_checkpoint(&self) -> Result<Option<String>, ReadError> {
        let newest = "SELECT note FROM checkpoint ORDER BY id DESC LIMIT 1";
        let mut shelf = self.shelf();
        // A segment that has just begun has none.
        for first in shelf.firsts().to_vec().into_iter().rev() {
            let segment = shelf.of(first)?;
            let note: Option<Vec<u8>> = segment.query_row(newest, [], |row| row.get(0)).optional()?;
            if let Some(note) = note {
                return Ok(Some(String::from_utf8_lossy(&note).into_owned()));
            }
        }
        Ok(None)
    }

    /// The log's verifier key, as the genesis entry pins it.
    pub fn log_key(&self) -> Result<VerifierKey, ReadError> {
        let genesis = self.entry(0)?.ok_or_else(|| lacks(0, "the entry"))?;
        let body = genesis.body.unwrap_or_default();
        let epochs = Epochs::of_genesis(&genesis.header.log, &body);
        Ok(epochs.map_err(|what| ReadError::Damaged(0, what))?.log().clone())
    }

    /// The tree over the first `size` entries, which are there; from tiles, not a verification.
    pub fn head_at(&self, size: u64) -> Result<Head, ReadError> {
        Ok(Head { size, root: root_at(&mut self.shelf(), size)? })
    }

    /// The audit path of entry `seq` in the tree over the first `size`, which are there and hold it.
    pub fn inclusion(&self, seq: u64, size: u64) -> Result<Vec<Digest>, ReadError> {
        let mut shelf = self.shelf();
        proof::inclusion(seq, size, &mut |height, index| subtree(&mut shelf, height, index))
    }

    /// The proof that the tree over the first `new` entries, which are there, begins with that over the
    /// first `old`.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<Digest>, ReadError> {
        let mut shelf = self.shelf();
        proof::consistency(old, new, &mut |height, index| subtree(&mut shelf, height, index))
    }

    /// The proof file of some entries, of `run` or of one alone, against the newest checkpoint. A payload
    /// that may not be shown, or was erased, is left out.
    pub fn prove(&self, run: Option<String>, seqs: &[u64]) -> Result<Evidence, ReadError> {
        let last = seqs.last().copied().unwrap_or_default();
        let checkpoint = self.newest_checkpoint()?.unwrap_or_default();
        let size = Note::parse(&checkpoint).and_then(|note| Checkpoint::parse(note.text()));
        let size = size.map_err(|what| ReadError::Damaged(last, what))?.head.size;
        if last >= size {
            return Err(ReadError::Unsigned(last, size));
        }
        let mut items = Vec::with_capacity(seqs.len());
        for seq in seqs {
            items.push(self.item(*seq, size, &mut HashMap::new())?);
        }
        let (first, seals) = self.epochs(size)?;
        Ok(Evidence { first, seals, checkpoint, run, items })
    }

    /// An entry with its place in the tree over the first `size`; its payload where it may be shown. `roots` remembers
    /// those of subtrees that were looked up.
    pub(super) fn item(
        &self,
        seq: u64,
        size: u64,
        roots: &mut HashMap<(u32, u64), Digest>,
    ) -> Result<Item, ReadError> {
        let (stored, salt) = self.salted(seq)?.ok_or_else(|| lacks(seq, "the entry"))?;
        let payload = salt.zip(stored.body).filter(|_| stored.header.shows_payload());
        let mut shelf = self.shelf();
        let path = proof::inclusion(seq, size, &mut |height, index| {
            if let Some(root) = roots.get(&(height, index)) {
                return Ok(*root);
            }
            let root = subtree(&mut shelf, height, index)?;
            roots.insert((height, index), root);
            Ok::<_, ReadError>(root)
        })?;
        Ok(Item { header: stored.bytes, payload, path })
    }

    /// The verifier key of epoch 1, and the seals of the epochs that began among the first `size` entries.
    pub(super) fn epochs(&self, size: u64) -> Result<(String, Vec<String>), ReadError> {
        let pinned: GenesisPayload = self.said(0, "epoch_key")?;
        let seal = |seq| Ok(self.said::<KeyEpochPayload>(seq, "seal")?.seal);
        let seals = self.began(size)?.into_iter().map(seal).collect::<Result<_, ReadError>>()?;
        Ok((pinned.epoch_key, seals))
    }

    /// What the payload of `seq` says, of which `what` is needed.
    fn said<P: Payload>(&self, seq: u64, what: &str) -> Result<P, ReadError> {
        self.entry(seq)?.and_then(|stored| stored.payload()).ok_or_else(|| lacks(seq, what))
    }

    /// The entries among the first `size` that began an epoch. Headers are looked at once, by pages.
    fn began(&self, size: u64) -> Result<Vec<u64>, ReadError> {
        let mut known = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = "SELECT seq FROM entry WHERE seq >= ?1 AND seq < ?2 \
                   AND instr(header, CAST('\"kind\":\"key.epoch\"' AS BLOB)) > 0 ORDER BY seq";
        while known.looked < size {
            let until = size.min(known.looked + WALK_ENTRIES);
            let mut shelf = self.shelf();
            for part in shelf.parts(known.looked..until) {
                let mut statement = shelf.of(part.start)?.prepare_cached(sql)?;
                let rows = statement.query_map([number(part.start), number(part.end)], |row| row.get(0))?;
                let found = rows.collect::<Result<Vec<i64>, _>>()?;
                known.seqs.extend(found.into_iter().filter_map(|seq| u64::try_from(seq).ok()));
            }
            known.looked = until;
        }
        Ok(known.seqs.iter().copied().filter(|seq| *seq < size).collect())
    }

    /// The entry `seq`, or `None` where there is none.
    pub fn entry(&self, seq: u64) -> Result<Option<Stored>, ReadError> {
        Ok(self.salted(seq)?.map(|(stored, _)| stored))
    }

    /// The entry `seq` and its payload's salt.
    pub(super) fn salted(&self, seq: u64) -> Result<Option<Salted>, ReadError> {
        let row = self
            .shelf()
            .of(seq)?
            .prepare_cached(
                "SELECT e.header, p.salt, p.body FROM entry e LEFT JOIN payload p USING (seq) WHERE seq = ?1",
            )?
            .query_row([number(seq)], |row| {
                Ok((
                    row.get::<_, Vec<u8>>(0)?,
                    row.get::<_, Option<Vec<u8>>>(1)?,
                    row.get::<_, Option<Vec<u8>>>(2)?,
                ))
            })
            .optional()?;
        let Some((bytes, salt, body)) = row else { return Ok(None) };
        let header = Header::parse(&bytes).map_err(|what| ReadError::Damaged(seq, what))?;
        let told = salt.as_deref().and_then(|salt| salt.try_into().ok());
        let body = checked(&header, salt, body)?;
        Ok(Some((Stored { header, bytes, body }, told)))
    }

    /// Up to `limit` headers that match, from `from` on in `order`.
    ///
    /// Looks at no more than `scan_max` headers, and for free text into little more than
    /// [`limits::PAGE_TEXT_BYTES_MAX`] of payloads; the second value is where to go on, `None` at the end.
    pub fn headers(
        &self,
        filter: &Filter,
        from: u64,
        order: Order,
        limit: usize,
        scan_max: usize,
    ) -> Result<(Vec<Header>, Option<u64>), ReadError> {
        let mut shelf = self.shelf();
        // No other number can match.
        let asked = filter.seqs();
        let (sql, range) = match order {
            Order::Ascending => (
                "SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq",
                from.max(asked.start)..asked.end,
            ),
            Order::Descending => (
                "SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq DESC",
                asked.start..from.saturating_add(1).min(asked.end),
            ),
        };
        let mut parts = shelf.parts(range);
        if order == Order::Descending {
            parts.reverse();
        }
        let (mut found, mut scanned, mut bytes_read) = (Vec::new(), 0, 0);
        for part in parts {
            let db = shelf.of(part.start)?;
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([number(part.start), number(part.end)])?;
            while let Some(row) = rows.next()? {
                let seq = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
                if found.len() == limit || scanned == scan_max || bytes_read >= limits::PAGE_TEXT_BYTES_MAX {
                    return Ok((found, Some(seq)));
                }
                scanned += 1;
                let bytes: Vec<u8> = row.get(1)?;
                let header = Header::parse(&bytes).map_err(|what| ReadError::Damaged(seq, what))?;
                if !filter.matches(&header) {
                    continue;
                }
                if filter.has_text() {
                    let body = body(db, &header)?;
                    bytes_read += body.as_ref().map_or(0, Vec::len);
                    if !filter.matches_text(&header, body.as_deref()) {
                        continue;
                    }
                }
                found.push(header);
            }
        }
        Ok((found, None))
    }

    /// Shows the stored headers of `range` to `see`, in order, until that says false.
    pub(super) fn each_header(
        &self,
        range: Range<u64>,
        mut see: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), ReadError> {
        let sql = "SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq";
        let mut shelf = self.shelf();
        for part in shelf.parts(range) {
            let mut statement = shelf.of(part.start)?.prepare_cached(sql)?;
            let mut rows = statement.query([number(part.start), number(part.end)])?;
            while let Some(row) = rows.next()? {
                let seq = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX);
                let bytes = row.get_ref(1)?.as_blob().unwrap_or_default();
                if !see(seq, bytes) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The header of entry `seq`, where it matches, and how many bytes of payload were read to know.
    pub(super) fn matching(&self, filter: &Filter, seq: u64) -> Result<(Option<Header>, usize), ReadError> {
        let mut shelf = self.shelf();
        let bytes = header_bytes(&mut shelf, seq)?;
        let header = Header::parse(&bytes).map_err(|what| ReadError::Damaged(seq, what))?;
        if header.seq != seq || !filter.matches(&header) {
            return Ok((None, 0));
        }
        let body = if filter.has_text() { body(shelf.of(seq)?, &header)? } else { None };
        let is_it = filter.matches_text(&header, body.as_deref());
        Ok((is_it.then_some(header), body.map_or(0, |body| body.len())))
    }

    /// Shows every header of `range` to `wants`, in order, which says whether `each` is to have the whole
    /// entry, one at a time. Reads by pages, so that a writer's log can be emptied in between; an entry that
    /// is not there is passed over.
    pub fn walk(
        &self,
        range: Range<u64>,
        mut wants: impl FnMut(&Header) -> bool,
        mut each: impl FnMut(Stored),
    ) -> Result<(), ReadError> {
        let parts = self.shelf().parts(range);
        for part in parts {
            let mut from = part.start;
            while from < part.end {
                let until = part.end.min(from.saturating_add(WALK_ENTRIES));
                self.page(from..until, &mut wants, &mut each)?;
                from = until;
            }
        }
        Ok(())
    }

    /// A range within one segment.
    fn page(
        &self,
        range: Range<u64>,
        wants: &mut impl FnMut(&Header) -> bool,
        each: &mut impl FnMut(Stored),
    ) -> Result<(), ReadError> {
        let mut shelf = self.shelf();
        let db = shelf.of(range.start)?;
        let mut headers =
            db.prepare_cached("SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq")?;
        let mut rows = headers.query([number(range.start), number(range.end)])?;
        while let Some(row) = rows.next()? {
            let (seq, bytes): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let at = u64::try_from(seq).unwrap_or(0);
            let header = Header::parse(&bytes).map_err(|what| ReadError::Damaged(at, what))?;
            if header.seq != at {
                return Err(ReadError::Damaged(at, format!("its header says {}", header.seq)));
            }
            if wants(&header) {
                let body = body(db, &header)?;
                each(Stored { header, bytes, body });
            }
        }
        Ok(())
    }
}

fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// The root over the first `size` entries, which are there; from tiles and headers.
pub(super) fn root_at(shelf: &mut Shelf, size: u64) -> Result<Digest, ReadError> {
    proof::root(size, &mut |height, index| subtree(shelf, height, index))
}

/// Root of the 2^height leaves from index · 2^height on: from one tile, or where that is not full yet from
/// the full ones or the headers below it. At most 256 rows are read.
fn subtree(shelf: &mut Shelf, height: u32, index: u64) -> Result<Digest, ReadError> {
    let (level, above) = (height / 8, height % 8);
    let (from, count) = (index << above, 1_u64 << above);
    let mut frontier = Frontier::default();
    let width = TILE_WIDTH as u64;
    if let Some(hashes) = tile(shelf, level, from / width)? {
        let at = usize::try_from(from % width).unwrap_or(usize::MAX);
        let part = hashes.iter().skip(at).take(1 << above);
        part.for_each(|hash| frontier.push(*hash));
    } else {
        for at in from..from + count {
            frontier.push(match level.checked_sub(1) {
                None => leaf(&header_bytes(shelf, at)?),
                Some(below) => {
                    let hashes = tile(shelf, below, at)?;
                    Tile::root(&hashes.ok_or_else(|| lacks(at, &format!("tile {below}/{at}")))?)
                }
            });
        }
    }
    if frontier.size() == count { Ok(frontier.root()) } else { Err(lacks(from, "its tile")) }
}

fn lacks(seq: u64, what: &str) -> ReadError {
    ReadError::Damaged(seq, format!("{what} is missing or cut"))
}

pub(super) fn header_bytes(shelf: &mut Shelf, seq: u64) -> Result<Vec<u8>, ReadError> {
    let header = "SELECT header FROM entry WHERE seq = ?1";
    let found = shelf.of(seq)?.prepare_cached(header)?.query_row([number(seq)], |row| row.get(0));
    found.optional()?.ok_or_else(|| lacks(seq, "the entry"))
}

/// A tile stands in the segment of the entry that filled it.
pub(super) fn tile(shelf: &mut Shelf, level: u32, index: u64) -> Result<Option<Vec<Digest>>, ReadError> {
    let stored = "SELECT hashes FROM tile WHERE k = ?1";
    let segment = shelf.of(Tile::filled_by(level, index))?;
    let found =
        segment.prepare_cached(stored)?.query_row([Tile::key(level, index)], |row| row.get::<_, Vec<u8>>(0));
    Ok(found.optional()?.map(|bytes| super::verify::tile_hashes(&bytes)))
}

/// The payload of an entry; `None` where it was erased.
fn body(db: &Connection, header: &Header) -> Result<Option<Vec<u8>>, ReadError> {
    let mut payload = db.prepare_cached("SELECT salt, body FROM payload WHERE seq = ?1")?;
    let found = payload.query_row([number(header.seq)], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (salt, body) = found.unwrap_or_default();
    checked(header, salt, body)
}

/// The payload, held to its header; `None` where it was erased.
fn checked(
    header: &Header,
    salt: Option<Vec<u8>>,
    body: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, ReadError> {
    match (salt.as_deref().map(<&[u8; 32]>::try_from), body) {
        (Some(Ok(salt)), Some(body)) if commitment(salt, &body) == header.payload => Ok(Some(body)),
        (None, None) => Ok(None),
        _ => Err(ReadError::Damaged(header.seq, "the payload does not match the header".to_owned())),
    }
}
