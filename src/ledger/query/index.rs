//! index.db: filter columns and words of the entries, followed behind the ledger by a thread of its own. No append waits
//! for it, and nothing but queries reads it.
//!
//! It proves nothing. What it covers is told. Before a line of a block of 256 keeps an entry out of an answer, all that it says
//! of its header was compared with the ledger's, and its words with the block's digest; where something does not fit, the block
//! is not believed ([`IndexFile::is_sound`]). No digest is made over lines that were not looked at before. It can be deleted and is
//! made anew.

use super::index_file::{IndexError, IndexFile};
use super::index_row::BLOCK_ENTRIES;
use crate::ledger::files::Files;
use crate::ledger::handle::Ledger;
use crate::ledger::read::Reader;
use crate::store;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Transactions between two moves of the write-ahead log into the file.
const BATCHES_BETWEEN_MOVES: u32 = 64;

/// The index of a ledger. Many may ask it; who follows and who asks wait for each other, never a writer of the ledger.
#[derive(Debug)]
pub struct Index {
    files: Files,
    ledger: Arc<Reader>,
    inner: Mutex<IndexFile>,
}

/// How an index stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Coverage {
    /// Entries that it has followed, from the first on.
    pub covered: u64,
    /// Blocks of 256 entries that did not fit and were read from the ledger instead, by their number.
    pub unsound: Vec<u64>,
}

impl Index {
    /// Opens the index of a ledger that is there, and makes it where it is not; a file that is no index is made anew.
    pub fn open(files: &Files) -> Result<Self, IndexError> {
        let reader = Reader::open(&files.ledger()).map_err(IndexError::Store)?;
        Self::beside(files, Arc::new(reader))
    }

    /// Opens an index that is there only to ask it: nothing is made or changed. Fails where it is none.
    pub fn reading(files: &Files) -> Result<Self, IndexError> {
        let ledger = Arc::new(Reader::open(&files.ledger()).map_err(IndexError::Store)?);
        let db = store::open_reader(&files.index()).map_err(IndexError::Store)?;
        Ok(Self { files: files.clone(), ledger, inner: Mutex::new(IndexFile::with(db, files)?) })
    }

    /// Makes the index anew from an empty file, also beside a server, which goes over to that one. To empty the file
    /// that is there would hold in memory what it had.
    pub fn anew(files: &Files) -> Result<Self, IndexError> {
        remove(files);
        Self::open(files)
    }

    /// As [`Index::open`], through a reader that learns of new segments.
    fn beside(files: &Files, ledger: Arc<Reader>) -> Result<Self, IndexError> {
        let inner = match IndexFile::open(files) {
            Err(error) => {
                tracing::warn!(%error, "index.db is made anew");
                remove(files);
                IndexFile::open(files)?
            }
            opened => opened?,
        };
        Ok(Self { files: files.clone(), ledger, inner: Mutex::new(inner) })
    }

    /// The reader behind it.
    pub(in crate::ledger) fn ledger(&self) -> &Reader {
        &self.ledger
    }

    pub(in crate::ledger) fn inner(&self) -> MutexGuard<'_, IndexFile> {
        // A panic under this lock rolls its transaction back.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the ledger by one transaction, or makes a block anew that was found unsound. Returns how many entries
    /// that were: none where there is nothing to do. Blocking.
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
            // Where somebody reads by it, the next turn tries again.
            store::empty_log_within(&inner.db, Duration::ZERO)?;
        } else if moved {
            inner.batches = 0;
            store::checkpoint(&inner.db)?;
        }
        done
    }

    /// Forgets everything; it is followed from the first entry on again.
    pub fn clear(&self) -> Result<(), IndexError> {
        Ok(self.inner().clear()?)
    }

    /// Follows to the end, looks at every block, and makes those anew that do not fit; they are told. Blocking.
    pub fn complete(&self) -> Result<Coverage, IndexError> {
        let mut unsound: Vec<u64> = self.inner().unsound.iter().copied().collect();
        while self.follow()? > 0 {}
        let (mut covered, mut id) = (u64::MAX, 0);
        // One at a time: a server may be following too.
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
        Ok(Coverage { covered, unsound })
    }
}

impl Ledger {
    /// The index beside it.
    pub fn index(&self) -> Result<Index, IndexError> {
        Index::beside(self.files(), self.shared_reader())
    }
}

/// Removes an index. One that somebody has open is made anew there too.
fn remove(files: &Files) {
    for end in ["", "-wal", "-shm"] {
        let mut path = files.index().into_os_string();
        path.push(end);
        // What is not there needs no removal; what stays is met again at opening.
        let _gone = std::fs::remove_file(path);
    }
}
