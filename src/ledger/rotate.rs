//! Sealing a segment and beginning the next one.
//!
//! The seal is an entry like any other, the last of its file, signed in its own commit. The next file is made beside
//! and comes to its name whole; a crash between the two is ended at the next opening.

use super::entry::{Draft, Header, Kind};
use super::payload::SegmentSealPayload;
use super::read::header_bytes;
use super::writer::Writer;
use super::{AppendError, Files, ReadError, Reader};
use crate::store;
use crate::types::clock;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The segment that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Number of its first entry.
    pub(super) first: u64,
    /// About as many bytes as its file has, or will have.
    pub(super) bytes: u64,
    /// Time of its first entry, in microseconds since 1970; none where it has no entry yet.
    pub(super) began_us: Option<u64>,
    /// Its last entry is the seal: what comes next goes into another file.
    pub(super) is_sealed: bool,
}

impl Segment {
    /// The newest segment of a ledger with `size` entries, in the file at `path`.
    pub(super) fn resume(path: &Path, reader: &Reader, size: u64) -> Result<Self, ReadError> {
        let mut shelf = reader.shelf();
        let first = shelf.first_of(u64::MAX);
        let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
        let mut segment = Self { first, bytes, began_us: None, is_sealed: false };
        if size > first {
            let mut header = |seq| {
                let bytes = header_bytes(&mut shelf, seq)?;
                Header::parse(&bytes).map_err(|what| ReadError::Damaged(seq, what))
            };
            segment.began_us = header(first)?.u64("wall_us");
            segment.is_sealed = header(size - 1)?.is(Kind::SegmentSeal);
        }
        Ok(segment)
    }

    fn is_full(&self, files: &Files, now_us: u64) -> bool {
        let rotation = files.rotation;
        let age_ms = self.began_us.map_or(0, |began| now_us.saturating_sub(began) / 1_000);
        self.bytes >= rotation.segment_bytes_max || rotation.segment_ms_max.is_some_and(|max| age_ms >= max)
    }
}

impl Writer {
    /// Seals the segment if it is full, or somebody reads by its write-ahead log that is, and begins the next one.
    pub(super) fn rotate(&mut self) {
        let size = self.chain.frontier.size();
        // A segment holds something beside its seal, and nothing that waits for space comes before that.
        let is_over = self.logs.is_held || self.segment.is_full(&self.files, clock::Wall::now().0);
        let is_due = size > self.segment.first + 1 && is_over;
        if is_due && !self.segment.is_sealed && self.shared.is_well() {
            let first = self.segment.first;
            self.serve_own(Draft::new(SegmentSealPayload { first, next: size + 1 }), None);
        }
        if let Err(error) = self.turn() {
            self.shared.fail(&error);
        }
    }

    /// Behind a seal goes over to the next file, made here where it is not there yet.
    pub(super) fn turn(&mut self) -> Result<(), AppendError> {
        if !self.segment.is_sealed {
            return Ok(());
        }
        let first = self.chain.frontier.size();
        let path = self.files.segment(first);
        let open = || store::make(&path, store::Kind::Ledger);
        let db = open().map_err(|e| AppendError::of_store(&e))?;
        let identity =
            store::identity(&path).map_err(|e| AppendError::Poisoned(format!("{}: {e}", path.display())))?;
        (self.db, self.path, self.identity) = (db, path, identity);
        self.logs.is_held = false;
        self.segment = Segment { first, bytes: 0, began_us: None, is_sealed: false };
        let mut shelf = self.reader.shelf();
        // The file before is no longer written: whoever reads it again opens it as it then is.
        let before = shelf.first_of(first);
        shelf.close(before);
        shelf.add(first);
        self.shared.segment.store(first, Ordering::Release);
        Ok(())
    }
}
