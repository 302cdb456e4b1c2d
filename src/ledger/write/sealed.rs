//! Erases payloads in sealed segments. The entry that records it is in another file, and so in
//! another commit.
//!
//! A mark in `data/` is durable before that entry, and is removed when the rows are empty. At an
//! opening it gives the first entry that may record an erasure that a crash interrupted.

use crate::ledger::entry::{Header, Kind};
use crate::ledger::files::Files;
use crate::ledger::read::{ReadError, Reader};
use crate::store::{self, StoreError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

fn mark(files: &Files) -> PathBuf {
    files.data.join("erasing")
}

/// Marks durably that entries from `size` on may record erasures that are not done yet.
pub(super) fn begin(files: &Files, size: u64) -> std::io::Result<()> {
    let path = mark(files);
    if path.exists() {
        // An earlier mark covers this one too.
        return Ok(());
    }
    let mut file =
        std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(format!("{size}\n").as_bytes())?;
    file.sync_all()?;
    File::open(&files.data)?.sync_all()
}

/// Empties the payload rows of sealed segments that redactions since the mark name, and removes the
/// mark. This includes what an earlier try could not do; emptying a row twice does no harm.
pub(super) fn finish(files: &Files, reader: &Reader) -> Result<(), ReadError> {
    let Ok(text) = std::fs::read_to_string(mark(files)) else { return Ok(()) };
    let size = reader.size()?;
    // A mark that a crash left incomplete has no number, so all entries are read.
    let from = text.trim_end().parse().unwrap_or(0_u64).min(size);
    let mut seqs = Vec::new();
    let wants = |header: &Header| {
        seqs.extend(header.u64("ref").filter(|_| header.is(Kind::Redaction)));
        false
    };
    reader.walk(from..size, wants, |_| ())?;
    let mut by_segment: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    {
        let segments = reader.segments();
        let written = segments.first_of(u64::MAX);
        for seq in seqs.into_iter().filter(|seq| *seq < written) {
            by_segment.entry(segments.first_of(seq)).or_default().push(seq);
        }
    }
    for (first, seqs) in by_segment {
        empty(&files.segment(first), &seqs).and_then(|()| reader.settle(first)).map_err(ReadError::Store)?;
    }
    std::fs::remove_file(mark(files)).map_err(|e| ReadError::Store(StoreError::File(mark(files), e)))
}

fn empty(path: &Path, seqs: &[u64]) -> Result<(), StoreError> {
    let db = store::open_sealed(path)?;
    let erase = || -> Result<(), rusqlite::Error> {
        let change = db.unchecked_transaction()?;
        for seq in seqs {
            change
                .prepare_cached("UPDATE payload SET salt = NULL, body = NULL WHERE seq = ?1")?
                .execute([i64::try_from(*seq).unwrap_or(i64::MAX)])?;
        }
        change.commit()
    };
    erase().map_err(|e| StoreError::Sqlite(path.to_owned(), e))
}
