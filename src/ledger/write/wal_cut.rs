//! Bounds the write-ahead logs, whatever the load and the readers.
//!
//! A thread copies each log into its file while the writer appends ([`super::wal`]). But SQLite
//! restarts a log only when all of it is copied and no reader uses it, which under load never
//! happens by itself. So the writer makes that moment, since no append runs meanwhile: it copies
//! the rest, truncates the log and waits a short time for readers. A reader that holds a snapshot
//! for longer, such as a verification, keeps the log. Then the segment is sealed, and appends
//! continue in the next file, whose log has no reader.

use super::writer::Writer;
use crate::store;
use crate::types::limits;
use std::time::Duration;

/// Commits between two copies of the write-ahead logs into their files.
const COMMITS_BETWEEN_MOVES: u32 = 500;
/// A copy is requested each time the logs have grown by this fraction of their maximum.
const MOVES_WITHIN: u64 = 8;

impl Writer {
    /// After each commit: requests a copy and truncates long logs. `is_moved` says that the logs
    /// are almost fully copied.
    pub(super) fn bound_logs(&mut self, is_moved: bool) {
        let max = self.files.wal_bytes_max;
        let (ledger, state) = (store::log_bytes(self.file.path()), store::log_bytes(&self.files.state()));
        if ledger >= max || is_moved && ledger >= max / 2 {
            let is_cut = self.cut_ledger(ledger >= max);
            self.logs.is_held = !is_cut && ledger >= max;
        }
        if is_moved && state >= max / 2 || state >= max.max(self.logs.state) {
            self.cut_state(state);
        }
        self.logs.commits += 1;
        let (all, step) = (ledger + state, max / MOVES_WITHIN);
        if all >= self.logs.moved.saturating_add(step) || self.logs.commits >= COMMITS_BETWEEN_MOVES {
            (self.logs.commits, self.logs.moved) = (0, all);
            // If a copy is still running, it is enough.
            let _under_way = self.moves.try_send(());
        }
        self.logs.moved = self.logs.moved.min(all);
    }

    /// Truncates the segment's log. Returns whether it is empty now.
    fn cut_ledger(&mut self, is_last_try: bool) -> bool {
        let shared = self.shared.clone();
        // A running copy ends soon and is not a reader.
        let copying = match is_last_try {
            true => Some(shared.copying()),
            false => shared.try_copying(),
        };
        if copying.is_none() {
            return false;
        }
        let wait_ms = if is_last_try { limits::WAL_WAIT_MS_MAX } else { 0 };
        let is_cut = store::empty_log_within(self.file.db(), Duration::from_millis(wait_ms));
        let is_cut = is_cut
            .inspect_err(|e| tracing::warn!(error = %e, "cannot truncate the ledger's write-ahead log"));
        let is_cut = is_cut.unwrap_or(false);
        self.owes &= !is_cut;
        is_cut
    }

    /// If a reader holds state.db for long, its log is tried again after it has grown by a step.
    fn cut_state(&mut self, bytes: u64) {
        match store::empty_log_within(&self.projector.state, Duration::ZERO) {
            Ok(true) => self.logs.state = 0,
            Ok(false) => self.logs.state = bytes.saturating_add(self.files.wal_bytes_max / MOVES_WITHIN),
            Err(e) => tracing::warn!(error = %e, "cannot truncate the write-ahead log of state.db"),
        }
    }
}
