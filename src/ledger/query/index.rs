//! index.db: header columns and words of the entries. A thread keeps it up to date; no append waits
//! for it, and only queries read it.
//!
//! The index proves nothing, and its coverage is reported. A line of a block of 256 may exclude an
//! entry from a result only after all its header columns were compared with the ledger, and its
//! words with the block's digest. If anything differs, the block is not used
//! ([`IndexFile::is_sound`]). No digest is made over lines that were not checked before. The file
//! can be deleted and is then rebuilt.

use super::counts::{self, CountedEntries};
use super::filter::Filter;
use super::index_file::{IndexError, IndexFile};
use super::index_row::BLOCK_ENTRIES;
use super::run_lines::{self, RunLine};
use super::told::KeyNames;
use crate::ledger::files::Files;
use crate::ledger::handle::Ledger;
use crate::ledger::read::Reader;
use crate::store;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Transactions between two copies of the write-ahead log into the file.
const BATCHES_BETWEEN_MOVES: u32 = 64;
/// Transactions in which a query of counts or runs first indexes what is new.
const CATCH_UP_STEPS: usize = 4;

/// The index of a ledger, shared by its users. Searches and the indexing thread wait for each
/// other, but never for the ledger's writer.
#[derive(Debug)]
pub struct Index {
    files: Files,
    ledger: Arc<Reader>,
    inner: Mutex<IndexFile>,
}

/// The coverage of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Coverage {
    /// Number of entries in the index, from the first on.
    pub covered: u64,
    /// Numbers of the blocks of 256 entries that did not match and were read from the ledger
    /// instead.
    pub unsound: Vec<u64>,
}

impl Index {
    /// Opens the index of an existing ledger. Creates it if it is missing, and rebuilds a file that
    /// is not a valid index.
    pub fn open(files: &Files) -> Result<Self, IndexError> {
        let reader = Reader::open(&files.ledger()).map_err(IndexError::Store)?;
        Self::with_reader(files, Arc::new(reader))
    }

    /// Opens an existing index for reading only: nothing is created or changed. Fails if it is
    /// missing.
    pub fn reading(files: &Files) -> Result<Self, IndexError> {
        let ledger = Arc::new(Reader::open(&files.ledger()).map_err(IndexError::Store)?);
        let db = store::open_reader(&files.index()).map_err(IndexError::Store)?;
        Ok(Self { files: files.clone(), ledger, inner: Mutex::new(IndexFile::with(db, files)?) })
    }

    /// Rebuilds the index from an empty file. A running server switches to the new file. Emptying
    /// the existing file instead would hold its content in memory.
    pub fn rebuild(files: &Files) -> Result<Self, IndexError> {
        remove(files);
        Self::open(files)
    }

    /// As [`Index::open`], with a reader that learns of new segments.
    fn with_reader(files: &Files, ledger: Arc<Reader>) -> Result<Self, IndexError> {
        let inner = match IndexFile::open(files) {
            Err(error) => {
                tracing::warn!(%error, "index.db cannot be used and is rebuilt");
                remove(files);
                IndexFile::open(files)?
            }
            opened => opened?,
        };
        Ok(Self { files: files.clone(), ledger, inner: Mutex::new(inner) })
    }

    /// The first entry that a search met and that does not verify.
    #[must_use]
    pub fn met_damage(&self) -> Option<u64> {
        self.ledger.met_damage()
    }

    /// The reader of the indexed ledger.
    pub(in crate::ledger) fn ledger(&self) -> &Reader {
        &self.ledger
    }

    pub(in crate::ledger) fn inner(&self) -> MutexGuard<'_, IndexFile> {
        // A panic under this lock rolls its transaction back.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Indexes the next entries in one transaction, or rebuilds a block that was found unsound.
    /// Returns the number of entries; 0 means that nothing is left to do. Blocking.
    pub fn follow(&self) -> Result<u64, IndexError> {
        if self.files.free_bytes().is_some_and(|free| free < self.files.free_bytes_min) {
            return Err(IndexError::Space);
        }
        let mut inner = self.inner();
        if store::identity(&self.files.index()).ok() != Some(inner.identity) {
            *inner = IndexFile::open(&self.files)?;
        }
        inner.refresh()?;
        let done = inner.advance(&self.ledger);
        let moved = match done {
            Ok(0) => inner.batches > 0,
            _ => inner.batches >= BATCHES_BETWEEN_MOVES,
        };
        if store::log_bytes(&self.files.index()) >= self.files.wal_bytes_max / 2 {
            // If a reader uses it, the next round tries again.
            store::empty_log_within(&inner.db, Duration::ZERO)?;
        } else if moved {
            inner.batches = 0;
            store::checkpoint(&inner.db)?;
        }
        done
    }

    /// Removes everything; indexing begins again with the first entry.
    pub fn clear(&self) -> Result<(), IndexError> {
        Ok(self.inner().clear()?)
    }

    /// Indexes to the end, checks every block, and rebuilds those that do not match. Returns them.
    /// Blocking.
    pub fn complete(&self) -> Result<Coverage, IndexError> {
        let mut unsound: Vec<u64> = self.inner().unsound.iter().copied().collect();
        while self.follow()? > 0 {}
        let (mut covered, mut id) = (u64::MAX, 0);
        // One block at a time: a server may be indexing too.
        while id < covered.div_ceil(BLOCK_ENTRIES) {
            let is_sound = self.inner().still(|inner| {
                covered = inner.covered(&self.ledger)?;
                inner.is_sound(&self.ledger, id, covered, true)
            })?;
            if !is_sound {
                unsound.push(id);
            }
            id += 1;
        }
        while self.follow()? > 0 {}
        let inner = self.inner();
        let change = inner.db.unchecked_transaction()?;
        if inner.derive_again()? {
            tracing::error!("index.db: counts or runs did not match its lines and were made again");
        }
        change.commit()?;
        Ok(Coverage { covered, unsound })
    }

    /// Indexes what was appended last, in a few steps at most, so that a page counts what was
    /// recorded just now.
    fn catch_up(&self) {
        for _ in 0..CATCH_UP_STEPS {
            match self.follow() {
                Ok(0) => return,
                Ok(_) => {}
                // The indexing thread reports the reason; the coverage says how far the index goes.
                Err(_) => return,
            }
        }
    }

    /// The entries by time from span `from` on, in units of [`SPAN_US`](super::SPAN_US), and the
    /// number of entries that are counted. Blocking.
    pub fn counts(&self, from: u64) -> Result<(Vec<CountedEntries>, u64), IndexError> {
        self.catch_up();
        self.inner().still(|inner| Ok((counts::since(&inner.db, from)?, inner.covered(&self.ledger)?)))
    }

    /// Up to `limit` runs that match `filter`, newest first and older than the run `before`, and
    /// the number of entries that were searched. Names of keys and users are words too. Blocking.
    pub fn runs(
        &self,
        filter: &Filter,
        names: &KeyNames,
        before: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<RunLine>, u64), IndexError> {
        self.catch_up();
        self.inner().still(|inner| {
            let found = run_lines::matching(&inner.db, filter, names, before, limit)?;
            Ok((found, inner.covered(&self.ledger)?))
        })
    }

    /// The lines of these runs, as far as they are indexed. Blocking.
    pub fn run_lines<'a>(&self, runs: impl Iterator<Item = &'a str>) -> Result<Vec<RunLine>, IndexError> {
        self.catch_up();
        let runs: Vec<&str> = runs.collect();
        self.inner().still(|inner| {
            let found = runs.iter().filter_map(|run| run_lines::one(&inner.db, run).transpose());
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}

impl Ledger {
    /// The index of this ledger.
    pub fn index(&self) -> Result<Index, IndexError> {
        Index::with_reader(self.files(), self.shared_reader())
    }
}

/// Removes an index. A process that has it open rebuilds it too.
fn remove(files: &Files) {
    for end in ["", "-wal", "-shm"] {
        let mut path = files.index().into_os_string();
        path.push(end);
        // A missing file needs no removal; one that stays is found again at opening.
        let _gone = std::fs::remove_file(path);
    }
}
