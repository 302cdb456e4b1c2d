//! Receipts, and the one transaction that they come from.
//!
//! A [`Receipt`] is made only from a [`Committed`], one for each entry in the transaction, in
//! order. A `Committed` is made only in [`Uncommitted::commit`], after SQLite has committed and
//! synced, and after a check that the file is the one that was opened. No other module can access
//! the fields of the three types.

use super::error::AppendError;
use super::segment::SegmentFile;
use crate::ledger::entry::{SealedEntry, Written};
use crate::ledger::read::number;
use crate::ledger::tree::{Head, Tile};
use crate::types::limits;
use rusqlite::{Transaction, params};
use std::sync::Arc;

/// Proof that an entry is durable: it was committed and synced before this was made.
#[derive(Debug)]
#[must_use = "a receipt is what lets the next step happen"]
pub struct Receipt {
    seq: u64,
    after: Arc<After>,
}

/// The state of the ledger after a commit.
#[derive(Debug)]
struct After {
    head: Head,
    checkpoint: Arc<str>,
}

impl Receipt {
    /// The entry's sequence number.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The ledger after the commit that held the entry.
    #[must_use]
    pub fn head(&self) -> Head {
        self.after.head
    }

    /// The signed checkpoint of that commit, over all entries up to its last one.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&str> {
        Some(&self.after.checkpoint)
    }
}

/// An open transaction. Without [`Uncommitted::commit`] it has no effect.
#[derive(Debug)]
pub(super) struct Uncommitted<'a> {
    change: Transaction<'a>,
    file: &'a SegmentFile,
    /// The entries in the transaction.
    seqs: Vec<u64>,
}

impl<'a> Uncommitted<'a> {
    /// Begins a transaction in the file that the ledger has opened.
    pub(super) fn begin(file: &'a SegmentFile) -> Result<Self, AppendError> {
        file.check_identity()?;
        let change = file.db().unchecked_transaction().map_err(|e| AppendError::from_sqlite(&e))?;
        Ok(Self { change, file, seqs: Vec::new() })
    }

    /// Adds an entry with its payload.
    pub(super) fn put(&mut self, sealed: &SealedEntry, written: &Written) -> Result<(), rusqlite::Error> {
        let seq = number(sealed.header.seq);
        self.change
            .prepare_cached("INSERT INTO entry(seq, header) VALUES (?1, ?2)")?
            .execute(params![seq, sealed.bytes])?;
        self.change
            .prepare_cached("INSERT INTO payload(seq, salt, body) VALUES (?1, ?2, ?3)")?
            .execute(params![seq, written.salt, written.body])?;
        self.seqs.push(sealed.header.seq);
        Ok(())
    }

    /// Erases the payload of an entry of the same file.
    pub(super) fn erase(&self, seq: u64) -> Result<(), rusqlite::Error> {
        let sql = "UPDATE payload SET salt = NULL, body = NULL WHERE seq = ?1";
        self.change.prepare_cached(sql)?.execute([number(seq)]).map(drop)
    }

    /// Stores a tile that the transaction's entries filled.
    pub(super) fn store(&self, tile: &Tile) -> Result<(), rusqlite::Error> {
        let sql = "INSERT INTO tile(k, hashes) VALUES (?1, ?2)";
        let row = params![Tile::key(tile.level, tile.index), tile.bytes()];
        self.change.prepare_cached(sql)?.execute(row).map(drop)
    }

    /// Commits with `note`, the signed checkpoint over `head`, which is the ledger after the
    /// commit. Only the newest checkpoint of each span of entries is kept.
    pub(super) fn commit(self, head: Head, note: &Arc<str>) -> Result<Committed, AppendError> {
        let Self { change, file, seqs } = self;
        let finish = || -> Result<(), rusqlite::Error> {
            let span = number(head.size / limits::CHECKPOINT_ENTRIES);
            change
                .prepare_cached("REPLACE INTO checkpoint(id, size, note) VALUES (?1, ?2, ?3)")?
                .execute(params![span, number(head.size), note.as_bytes()])?;
            change.commit()
        };
        finish().map_err(|e| AppendError::from_sqlite(&e))?;
        // Checked again: a commit into a file that cannot be opened by its name any more is not
        // durable.
        file.check_identity()?;
        let after = Arc::new(After { head, checkpoint: note.clone() });
        Ok(Committed { seqs: seqs.into_iter(), after })
    }
}

/// A commit that SQLite has synced. Receipts are made from it, in the order of its entries.
#[derive(Debug)]
pub(super) struct Committed {
    seqs: std::vec::IntoIter<u64>,
    after: Arc<After>,
}

impl Committed {
    /// The receipts of the next `entries` entries.
    pub(super) fn receipts(&mut self, entries: usize) -> Vec<Receipt> {
        let of_entry = |seq| Receipt { seq, after: self.after.clone() };
        self.seqs.by_ref().take(entries).map(of_entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{AppendError, Uncommitted};
    use crate::ledger::entry::{Draft, Kind, SealedEntry, Stamp, Written, seal};
    use crate::ledger::tree::Head;
    use crate::ledger::write::segment::SegmentFile;
    use crate::store;
    use crate::types::Digest;
    use serde_json::json;

    fn entry(seq: u64) -> (SealedEntry, Written) {
        let written = Written::from_draft(Draft::untyped(Kind::Start, json!({}))).expect("written");
        let (prev, first_seq) = ((seq > 0).then(|| Digest::sha256(b"before")), seq);
        let stamp = Stamp { log: "00", seq, prev, wall_us: 1, mono_us: 2, boot: "b", first_seq };
        (seal(&written, &stamp).expect("sealed"), written)
    }

    /// One receipt for each entry in the transaction, in order, and no more, however many are asked
    /// for.
    #[test]
    fn receipts_are_of_the_entries_that_were_committed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("ledger.db");
        let db = store::open_writer(&path, store::Database::Ledger).expect("database");
        let file = SegmentFile::new(db, path.clone()).expect("file");
        let (head, note) = (Head { size: 3, root: Digest::sha256(b"root") }, "note".into());
        let mut open = Uncommitted::begin(&file).expect("begun");
        for seq in 0..3 {
            let (sealed, written) = entry(seq);
            open.put(&sealed, &written).expect("put");
        }
        let mut committed = open.commit(head, &note).expect("committed");
        let mut seqs = |entries| -> Vec<u64> {
            let receipts = committed.receipts(entries);
            receipts
                .iter()
                .map(|receipt| {
                    assert_eq!((receipt.head(), receipt.checkpoint()), (head, Some("note")));
                    receipt.seq()
                })
                .collect()
        };
        assert_eq!((seqs(2), seqs(5), seqs(1)), (vec![0, 1], vec![2], vec![]));

        let mut dropped = Uncommitted::begin(&file).expect("begun");
        let (sealed, written) = entry(3);
        dropped.put(&sealed, &written).expect("put");
        drop(dropped);
        let rows = || file.db().query_row("SELECT count(*) FROM entry", [], |row| row.get::<_, i64>(0));
        assert_eq!(rows(), Ok(3), "uncommitted entries are not stored");

        // A commit into a file that has lost its name makes no receipt.
        let mut open = Uncommitted::begin(&file).expect("begun");
        open.put(&sealed, &written).expect("put");
        std::fs::rename(&path, folder.path().join("other.db")).expect("renamed");
        assert!(matches!(open.commit(head, &note), Err(AppendError::Poisoned(_))));
    }
}
