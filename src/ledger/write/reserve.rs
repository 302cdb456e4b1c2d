//! When the disk under the ledger is full: a reserve, and what waits.
//!
//! What has happened already must be written: results of calls that ran, replies of runs that ended. Such appends
//! are *owed*. Where a commit finds no room, all others are refused, the reserve is freed and the owed ones are
//! tried again with its space; what finds none even then waits in memory, holding its places of the queue, and is
//! tried again each second. Until all of it is written, state.db has followed and the reserve is
//! there again, the fault stands, and no new run is taken.

use crate::ledger::handle::AppendError;
use super::open::Files;
use super::writer::{Append, Writer};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that does nothing but take up space on the ledger's disk.
#[derive(Debug)]
pub(in crate::ledger) struct Reserve {
    path: PathBuf,
    bytes: u64,
    is_there: bool,
}

impl Reserve {
    /// The reserve of `files`, which is still to be made.
    pub(in crate::ledger) fn of(files: &Files) -> Self {
        Self { path: files.reserve(), bytes: files.reserve_bytes, is_there: false }
    }

    /// Allocates what is not allocated yet, mode 0600. On an error nothing of it is left.
    pub(in crate::ledger) fn make(&mut self) -> io::Result<()> {
        if self.is_there || self.bytes == 0 {
            return Ok(());
        }
        let made = allocate(&self.path, self.bytes);
        if made.is_err() {
            drop(std::fs::remove_file(&self.path));
        }
        self.is_there = made.is_ok();
        made
    }

    /// Gives its space back; false where there was none to give.
    fn free(&mut self) -> bool {
        if !std::mem::take(&mut self.is_there) {
            return false;
        }
        std::fs::remove_file(&self.path)
            .inspect_err(|e| tracing::error!(error = %e, "the reserve was not freed"))
            .is_ok()
    }

    /// Whether there is room for it, and for as much again beside it.
    fn has_room(&self) -> bool {
        let wanted = if self.is_there { self.bytes } else { self.bytes.saturating_mul(2) };
        let folder = self.path.parent().unwrap_or(&self.path);
        Files::below(folder).free_bytes().is_none_or(|free| free >= wanted)
    }
}

fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let bytes = i64::try_from(bytes).map_err(io::Error::other)?;
    Ok(nix::fcntl::posix_fallocate(&file, 0, bytes)?)
}

impl Writer {
    /// Whether only what is owed may be written: the disk was full, and the reserve cannot be made again.
    pub(in crate::ledger) fn is_short(&mut self) -> bool {
        self.shared.is_full()
            && !self.reserve.is_there
            && !(self.reserve.has_room() && self.reserve.make().is_ok())
    }

    /// Nothing of these appends was written, for `error`. What is owed is tried again or waits on a full disk; all
    /// others are told.
    pub(in crate::ledger) fn refuse(&mut self, appends: Vec<Append>, error: &AppendError) {
        let is_full = *error == AppendError::Full;
        if is_full && !self.shared.is_full() {
            tracing::error!("the disk under the ledger is full: no new run is taken until there is space");
        }
        self.shared.fail(error);
        let (owed, others): (Vec<_>, Vec<_>) = appends.into_iter().partition(|one| is_full && one.is_owed);
        for mut append in others {
            append.answer(Err(error.clone()));
        }
        if owed.is_empty() {
            return;
        }
        if self.reserve.free() {
            // At most once: now there is no reserve to free.
            self.serve(owed, None);
        } else {
            tracing::warn!(appends = owed.len(), "results wait in memory for space under the ledger");
            self.waiting.extend(owed);
        }
    }

    /// Behind a full disk: what waits is tried again, and state.db.
    pub(in crate::ledger) fn mend(&mut self) {
        if self.waiting.is_empty() && !self.shared.is_full() {
            return;
        }
        self.serve(Vec::new(), None);
        if self.waiting.is_empty() && self.shared.is_full() {
            match self.follow() {
                Ok(()) => self.ease(),
                Err(error) => self.shared.fail(&error),
            }
        }
    }

    /// Ends the fault of a full disk, once nothing waits, state.db has followed and the reserve is there.
    pub(in crate::ledger) fn ease(&mut self) {
        let is_over = self.shared.is_full() && self.waiting.is_empty() && !self.lags;
        if is_over && self.reserve.has_room() && self.reserve.make().is_ok() {
            self.shared.ease();
            tracing::info!("there is space under the ledger again");
        }
    }
}
