//! A full disk under the ledger: the reserve, and what waits for space.
//!
//! What has already happened must be written: results of calls that ran, replies of runs that
//! ended. Such appends are *owed*. If a commit finds no space, all other appends are refused, the
//! reserve is freed, and the owed ones are tried again with its space. If there is still no space,
//! they wait in memory, keep their slots of the queue, and are tried again each second. The runs
//! under way bound how many they are. The fault lasts, and no new run is accepted, until all of
//! them are written, state.db has followed and the reserve is allocated again.

use super::error::AppendError;
use super::queue::Append;
use super::writer::Writer;

impl Writer {
    /// Whether only owed appends may be written: the disk was full, and the reserve cannot be
    /// allocated again.
    pub(super) fn is_short(&mut self) -> bool {
        self.shared.is_full()
            && !self.reserve.is_there
            && !(self.reserve.has_room() && self.reserve.make().is_ok())
    }

    /// Handles appends that were not written because of `error`. On a full disk, owed ones are
    /// tried again or wait; all others get the error.
    pub(super) fn refuse(&mut self, appends: Vec<Append>, error: &AppendError) {
        let is_full = *error == AppendError::Full;
        if is_full && !self.shared.is_full() {
            tracing::error!("the disk under the ledger is full: no new run is accepted until there is space");
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
            // At most once: the reserve is free now.
            self.serve(owed, None);
        } else {
            tracing::warn!(appends = owed.len(), "results wait in memory for space under the ledger");
            self.waiting.extend(owed);
        }
    }

    /// After a full disk, tries again to write what waits and to bring state.db up to date.
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

    /// Ends the fault of a full disk, once nothing waits, state.db has followed and the reserve is
    /// allocated.
    pub(super) fn ease(&mut self) {
        let is_over = self.shared.is_full() && self.waiting.is_empty() && !self.lags;
        if is_over && self.reserve.has_room() && self.reserve.make().is_ok() {
            self.shared.ease();
            tracing::info!("there is space under the ledger again");
        }
    }
}
