//! The segments of a ledger: each is a database with the entries from its first one on.
//!
//! All segments form one log: numbers, chain and tree continue from file to file. Only the newest
//! segment gets appends. The others end with a `segment.seal` and only lose erased payloads.

use super::error::ReadError;
use crate::ledger::files::{firsts, path_of};
use crate::store::{self, StoreError};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum number of open connections to sealed segments.
const OPEN_MAX: usize = 8;

/// Read-only connections to the segments, opened when one of their entries is needed.
#[derive(Debug)]
pub(in crate::ledger) struct OpenSegments {
    data: PathBuf,
    /// In rising order and never empty. A file in this list may still be missing; then its entries
    /// are missing too.
    firsts: Vec<u64>,
    open: BTreeMap<u64, Connection>,
    /// Whether each connection keeps its file as it was when it was opened.
    is_snapshot: bool,
}

impl OpenSegments {
    /// The segments in the folder of `path`, which is the file of the first one.
    pub(in crate::ledger) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::with(path, false)
    }

    /// As [`OpenSegments::open`], with each file fixed as it is now, whatever is written meanwhile.
    /// The newest is opened last, since it records all that was erased in those before it.
    pub(in crate::ledger) fn snapshot(path: &Path) -> Result<Self, StoreError> {
        Self::with(path, true)
    }

    fn with(path: &Path, is_snapshot: bool) -> Result<Self, StoreError> {
        let at = |e| StoreError::File(path.to_owned(), e);
        let data = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut firsts = firsts(&data).map_err(at)?;
        if firsts.is_empty() {
            // Opening the first file reports why it is missing.
            firsts.push(0);
        }
        let asked = if is_snapshot { firsts.clone() } else { firsts.last().copied().into_iter().collect() };
        let mut segments = Self { data, firsts, open: BTreeMap::new(), is_snapshot };
        for first in asked {
            segments.segment(first)?;
        }
        Ok(segments)
    }

    /// The first entries of the segments.
    pub(in crate::ledger) fn firsts(&self) -> &[u64] {
        &self.firsts
    }

    /// The file of the segment that begins with `first`.
    pub(in crate::ledger) fn path(&self, first: u64) -> PathBuf {
        path_of(&self.data, first)
    }

    /// Adds a new segment if it is not known yet.
    pub(in crate::ledger) fn add(&mut self, first: u64) {
        if let Err(at) = self.firsts.binary_search(&first) {
            self.firsts.insert(at, first);
        }
    }

    /// Closes the connection to a segment whose file is about to be replaced.
    pub(in crate::ledger) fn close(&mut self, first: u64) {
        self.open.remove(&first);
    }

    /// The first entry of the segment that would hold `seq`.
    pub(in crate::ledger) fn first_of(&self, seq: u64) -> u64 {
        let next = self.firsts.partition_point(|first| *first <= seq);
        self.firsts.get(next.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// The connection to the segment that would hold entry `seq`.
    pub(in crate::ledger) fn connection(&mut self, seq: u64) -> Result<&Connection, ReadError> {
        let first = self.first_of(seq);
        self.segment(first).map_err(ReadError::Store)
    }

    /// The connection to the segment that begins with `first`.
    pub(in crate::ledger) fn segment(&mut self, first: u64) -> Result<&Connection, StoreError> {
        if !self.open.contains_key(&first) {
            let newest = self.firsts.last().copied();
            let sealed = self.open.keys().copied().find(|open| Some(*open) != newest);
            if let Some(oldest) = sealed.filter(|_| self.open.len() >= OPEN_MAX && !self.is_snapshot) {
                self.open.remove(&oldest);
            }
            let path = path_of(&self.data, first);
            let connection = store::open_reader(&path)?;
            if self.is_snapshot {
                let begin = "BEGIN; SELECT count(*) FROM sqlite_master;";
                connection.execute_batch(begin).map_err(|e| StoreError::Sqlite(path, e))?;
            }
            self.open.insert(first, connection);
        }
        let gone = || StoreError::File(path_of(&self.data, first), ErrorKind::NotFound.into());
        self.open.get(&first).ok_or_else(gone)
    }

    /// The connection to the newest segment.
    pub(in crate::ledger) fn newest(&mut self) -> Result<&Connection, ReadError> {
        self.connection(u64::MAX)
    }

    /// Splits a range of entries at the segments' ends, in rising order.
    pub(in crate::ledger) fn parts(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut from = range.start;
        while from < range.end {
            let next = self.firsts.iter().copied().find(|first| *first > from).unwrap_or(u64::MAX);
            let until = next.min(range.end);
            parts.push(from..until);
            from = until;
        }
        parts
    }
}
