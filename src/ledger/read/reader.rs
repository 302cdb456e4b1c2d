//! Reads entries, for people and for the rooms that answer from them.

use super::alarm::Alarm;
use super::error::ReadError;
use super::rows::{body, checked, number, root_at, subtree};
use super::segments::OpenSegments;
use crate::ledger::checkpoint::{Epochs, VerifierKey};
use crate::ledger::entry::{Header, Payload};
use crate::ledger::payload::{GenesisPayload, KeyEpochPayload};
use crate::ledger::tree::{Head, leaf, proof};
use crate::store::{self, StoreError};
use crate::types::Digest;
use rusqlite::OptionalExtension as _;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Entries that one page of a walk reads.
const WALK_ENTRIES: u64 = 1_024;

/// Shared read-only connections. Each call runs a few short queries under a lock.
#[derive(Debug)]
pub struct Reader {
    segments: Mutex<OpenSegments>,
    began: Mutex<Began>,
    alarm: Alarm,
}

/// The entries that began an epoch, as far as headers were searched.
#[derive(Debug, Default)]
struct Began {
    searched: u64,
    seqs: Vec<u64>,
}

/// A stored entry. Its payload matches the header's commitment.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The header.
    pub header: Header,
    /// The header's bytes, which the leaf hash covers.
    pub bytes: Vec<u8>,
    /// The payload's bytes; `None` if they were erased.
    pub body: Option<Vec<u8>>,
}

/// An entry, and the salt of its payload if it was not erased.
type Salted = (Stored, Option<[u8; 32]>);

impl Stored {
    /// The leaf hash, SHA-256(0x00 ‖ header): the next entry's `prev`.
    #[must_use]
    pub fn leaf(&self) -> Digest {
        leaf(&self.bytes)
    }

    /// The parsed payload; `None` if it was erased or cut, or if the entry is of another kind.
    #[must_use]
    pub fn payload<P: Payload>(&self) -> Option<P> {
        self.header.payload_of(self.body.as_deref()?)
    }
}

impl Reader {
    /// Opens the ledger for reading. `path` is the file of its first segment.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            segments: Mutex::new(OpenSegments::open(path)?),
            began: Mutex::default(),
            alarm: Alarm::default(),
        })
    }

    /// Rings when a read finds an entry that does not verify.
    pub(in crate::ledger) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// The first entry that a read of this reader found damaged, unless a server's thread has
    /// looked at it since.
    #[must_use]
    pub fn met_damage(&self) -> Option<u64> {
        self.alarm.met()
    }

    pub(in crate::ledger) fn segments(&self) -> MutexGuard<'_, OpenSegments> {
        // A panic under this lock cannot have left a read half done.
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the write-ahead log of a sealed segment. Returns false if another connection has the
    /// file open.
    pub(in crate::ledger) fn settle(&self, first: u64) -> Result<bool, StoreError> {
        let mut segments = self.segments();
        segments.close(first);
        store::settle(&segments.path(first))
    }

    /// As [`Reader::settle`], tried again for up to `ms_max` milliseconds, since a command that
    /// reads soon ends.
    pub(in crate::ledger) fn settle_within(&self, first: u64, ms_max: u64) -> Result<bool, StoreError> {
        const STEP_MS: u64 = 20;
        for _ in 0..ms_max / STEP_MS {
            if self.settle(first)? {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(STEP_MS));
        }
        self.settle(first)
    }

    /// Number of entries in the ledger.
    pub fn size(&self) -> Result<u64, ReadError> {
        let mut segments = self.segments();
        loop {
            let first = segments.first_of(u64::MAX);
            let sql = "SELECT max(seq) FROM entry";
            let last: Option<i64> = segments.newest()?.query_row(sql, [], |row| row.get(0))?;
            let size = last.and_then(|seq| u64::try_from(seq).ok()).map_or(first, |seq| seq + 1);
            // Another process may have begun a segment since.
            if size == first || !segments.path(size).exists() {
                return Ok(size);
            }
            segments.add(size);
        }
    }

    /// The newest signed checkpoint, as it is stored.
    pub fn newest_checkpoint(&self) -> Result<Option<String>, ReadError> {
        let newest = "SELECT note FROM checkpoint ORDER BY id DESC LIMIT 1";
        let mut segments = self.segments();
        // A new segment has no checkpoint yet.
        for first in segments.firsts().to_vec().into_iter().rev() {
            let segment = segments.connection(first)?;
            let note: Option<Vec<u8>> = segment.query_row(newest, [], |row| row.get(0)).optional()?;
            if let Some(note) = note {
                return Ok(Some(String::from_utf8_lossy(&note).into_owned()));
            }
        }
        Ok(None)
    }

    /// The log's verifier key, as the genesis entry pins it.
    pub fn log_key(&self) -> Result<VerifierKey, ReadError> {
        let genesis = self.entry(0)?.ok_or_else(|| ReadError::missing(0, "the entry"))?;
        let body = genesis.body.unwrap_or_default();
        let epochs = Epochs::from_genesis(&genesis.header.log, &body);
        Ok(epochs.map_err(ReadError::damaged(0))?.log().clone())
    }

    /// The tree head over the first `size` entries, which must exist. Computed from tiles; this is
    /// not a verification.
    pub fn head_at(&self, size: u64) -> Result<Head, ReadError> {
        Ok(Head { size, root: root_at(&mut self.segments(), size)? })
    }

    /// The audit path of entry `seq` in the tree over the first `size` entries. They must exist and
    /// include `seq`.
    pub fn inclusion(&self, seq: u64, size: u64) -> Result<Vec<Digest>, ReadError> {
        let mut segments = self.segments();
        proof::inclusion(seq, size, &mut |height, index| subtree(&mut segments, height, index))
    }

    /// The proof that the tree over the first `new` entries, which must exist, extends that over
    /// the first `old`.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<Digest>, ReadError> {
        let mut segments = self.segments();
        proof::consistency(old, new, &mut |height, index| subtree(&mut segments, height, index))
    }

    /// The verifier key of epoch 1, and the seals of the epochs that began among the first `size`
    /// entries.
    pub(in crate::ledger) fn epochs(&self, size: u64) -> Result<(String, Vec<String>), ReadError> {
        let pinned: GenesisPayload = self.parsed(0, "epoch_key")?;
        let seal = |seq| Ok(self.parsed::<KeyEpochPayload>(seq, "seal")?.seal);
        let seals = self.began(size)?.into_iter().map(seal).collect::<Result<_, ReadError>>()?;
        Ok((pinned.epoch_key, seals))
    }

    /// The payload of `seq`. The error names `what` as missing.
    fn parsed<P: Payload>(&self, seq: u64, what: &str) -> Result<P, ReadError> {
        self.entry(seq)?.and_then(|stored| stored.payload()).ok_or_else(|| ReadError::missing(seq, what))
    }

    /// The entries among the first `size` that began an epoch. Each header is searched once, in
    /// pages.
    fn began(&self, size: u64) -> Result<Vec<u64>, ReadError> {
        let mut known = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = "SELECT seq FROM entry WHERE seq >= ?1 AND seq < ?2 \
                   AND instr(header, CAST('\"kind\":\"key.epoch\"' AS BLOB)) > 0 ORDER BY seq";
        while known.searched < size {
            let until = size.min(known.searched + WALK_ENTRIES);
            let mut segments = self.segments();
            for part in segments.parts(known.searched..until) {
                let mut statement = segments.connection(part.start)?.prepare_cached(sql)?;
                let rows = statement.query_map([number(part.start), number(part.end)], |row| row.get(0))?;
                let found = rows.collect::<Result<Vec<i64>, _>>()?;
                known.seqs.extend(found.into_iter().filter_map(|seq| u64::try_from(seq).ok()));
            }
            known.searched = until;
        }
        Ok(known.seqs.iter().copied().filter(|seq| *seq < size).collect())
    }

    /// The entry `seq`, or `None` if it does not exist.
    pub fn entry(&self, seq: u64) -> Result<Option<Stored>, ReadError> {
        Ok(self.salted(seq)?.map(|(stored, _)| stored))
    }

    /// The entry `seq` and the salt of its payload.
    pub(in crate::ledger) fn salted(&self, seq: u64) -> Result<Option<Salted>, ReadError> {
        self.alarm.hear(self.checked_entry(seq))
    }

    fn checked_entry(&self, seq: u64) -> Result<Option<Salted>, ReadError> {
        let row = self
            .segments()
            .connection(seq)?
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
        let header = Header::parse(&bytes).map_err(ReadError::damaged(seq))?;
        let stored_salt = salt.as_deref().and_then(|salt| salt.try_into().ok());
        let body = checked(&header, salt, body)?;
        Ok(Some((Stored { header, bytes, body }, stored_salt)))
    }

    /// Passes the stored headers of `range` to `see`, in order, until it returns false.
    pub(in crate::ledger) fn each_header(
        &self,
        range: Range<u64>,
        mut see: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), ReadError> {
        let sql = "SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq";
        let mut segments = self.segments();
        for part in segments.parts(range) {
            let mut statement = segments.connection(part.start)?.prepare_cached(sql)?;
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

    /// Passes every header of `range` to `wants`, in order. For each one that it accepts, passes
    /// the whole entry to `each`. Reads in pages, so that the writer can empty a write-ahead log in
    /// between. Missing entries are skipped.
    pub fn walk(
        &self,
        range: Range<u64>,
        mut wants: impl FnMut(&Header) -> bool,
        mut each: impl FnMut(Stored),
    ) -> Result<(), ReadError> {
        let parts = self.segments().parts(range);
        for part in parts {
            let mut from = part.start;
            while from < part.end {
                let until = part.end.min(from.saturating_add(WALK_ENTRIES));
                self.alarm.hear(self.page(from..until, &mut wants, &mut each))?;
                from = until;
            }
        }
        Ok(())
    }

    /// Reads a range within one segment.
    fn page(
        &self,
        range: Range<u64>,
        wants: &mut impl FnMut(&Header) -> bool,
        each: &mut impl FnMut(Stored),
    ) -> Result<(), ReadError> {
        let mut segments = self.segments();
        let db = segments.connection(range.start)?;
        let mut headers =
            db.prepare_cached("SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq")?;
        let mut rows = headers.query([number(range.start), number(range.end)])?;
        while let Some(row) = rows.next()? {
            let (seq, bytes): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let at = u64::try_from(seq).unwrap_or(0);
            let header = Header::parse(&bytes).map_err(ReadError::damaged(at))?;
            if header.seq != at {
                return Err(ReadError::Damaged(at, format!("its header has number {}", header.seq)));
            }
            if wants(&header) {
                let body = body(db, &header)?;
                each(Stored { header, bytes, body });
            }
        }
        Ok(())
    }
}
