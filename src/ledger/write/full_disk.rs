//! When the disk under the ledger is full: a reserve, and what waits.
//!
//! What has happened already must be written: results of calls that ran, replies of runs that ended. Such appends
//! are *owed*. Where a commit finds no room, all others are refused, the reserve is freed and the owed ones are
//! tried again with its space; what finds none even then waits in memory, holding its places of the queue, and is
//! tried again each second. Until all of it is written, state.db has followed and the reserve is
//! there again, the fault stands, and no new run is taken.

use super::error::AppendError;
use super::queue::Append;
use super::writer::Writer;

impl Writer {
    /// Whether only what is owed may be written: the disk was full, and the reserve cannot be made again.
    pub(super) fn is_short(&mut self) -> bool {
        self.shared.is_full()
            && !self.reserve.is_there
            && !(self.reserve.has_room() && self.reserve.make().is_ok())
    }

    /// Nothing of these appends was written, for `error`. What is owed is tried again or waits on a full disk; all
    /// others are told.
    pub(super) fn refuse(&mut self, appends: Vec<Append>, error: &AppendError) {
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
    pub(super) fn mend(&mut self) {
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
    pub(super) fn ease(&mut self) {
        let is_over = self.shared.is_full() && self.waiting.is_empty() && !self.lags;
        if is_over && self.reserve.has_room() && self.reserve.make().is_ok() {
            self.shared.ease();
            tracing::info!("there is space under the ledger again");
        }
    }
}
