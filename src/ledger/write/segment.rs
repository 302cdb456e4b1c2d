//! The newest segment, which the writer appends to, and its file.

use super::error::AppendError;
use crate::ledger::entry::{Header, Kind};
use crate::ledger::files::Files;
use crate::ledger::read::{ReadError, Reader, header_bytes};
use crate::store;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// The newest segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Number of its first entry.
    pub(super) first: u64,
    /// Approximate length of its file, including entries not written yet.
    pub(super) bytes: u64,
    /// Time of its first entry, in microseconds since 1970; `None` if it has no entry yet.
    pub(super) began_us: Option<u64>,
    /// Whether its last entry is the seal: the next entry goes into another file.
    pub(super) is_sealed: bool,
}

impl Segment {
    /// The newest segment of a ledger with `size` entries, in the file at `path`.
    pub(super) fn resume(path: &Path, reader: &Reader, size: u64) -> Result<Self, ReadError> {
        let mut segments = reader.segments();
        let first = segments.first_of(u64::MAX);
        let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
        let mut segment = Self { first, bytes, began_us: None, is_sealed: false };
        if size > first {
            let mut header = |seq| {
                let bytes = header_bytes(&mut segments, seq)?;
                Header::parse(&bytes).map_err(ReadError::damaged(seq))
            };
            segment.began_us = header(first)?.u64("wall_us");
            segment.is_sealed = header(size - 1)?.is(Kind::SegmentSeal);
        }
        Ok(segment)
    }

    pub(super) fn is_full(&self, files: &Files, now_us: u64) -> bool {
        let rotation = files.rotation;
        let age_ms = self.began_us.map_or(0, |began| now_us.saturating_sub(began) / 1_000);
        self.bytes >= rotation.segment_bytes_max || rotation.segment_ms_max.is_some_and(|max| age_ms >= max)
    }
}

/// The file of the newest segment, with its identity when it was opened.
#[derive(Debug)]
pub(super) struct SegmentFile {
    db: Connection,
    path: PathBuf,
    identity: store::Identity,
}

impl SegmentFile {
    /// `db` is the writing connection to the file at `path`.
    pub(super) fn new(db: Connection, path: PathBuf) -> std::io::Result<Self> {
        let identity = store::identity(&path)?;
        Ok(Self { db, path, identity })
    }

    pub(super) fn db(&self) -> &Connection {
        &self.db
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the name still belongs to the open file.
    pub(super) fn check_identity(&self) -> Result<(), AppendError> {
        if store::identity(&self.path).ok() == Some(self.identity) {
            return Ok(());
        }
        let what = "ledger.db or its write-ahead log was deleted or replaced while the process was running";
        Err(AppendError::Poisoned(what.to_owned()))
    }
}
