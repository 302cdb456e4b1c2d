//! The write-ahead logs are bounded, whatever the load and whoever reads.
//!
//! Copying a log into its file goes on beside the appends ([`super::wal`]), but SQLite begins a log anew only at a moment
//! in which all of it stands in the file and nobody reads by it: under load there is none. So the writer, behind whom
//! nothing can be appended, makes one: it copies the rest and cuts the log to nothing, and waits a short time for readers.
//! Somebody who reads for longer, such as a verification, keeps a snapshot of the file that he began with: then the segment
//! is sealed, and the appends go on in the next file, whose log nobody holds.

use super::writer::Writer;
use crate::store;
use crate::types::limits;
use std::time::Duration;

/// Commits between two moves of the write-ahead logs into their files.
const COMMITS_BETWEEN_MOVES: u32 = 500;
/// A move is asked for each time that the logs have grown by this part of what they may have.
const MOVES_WITHIN: u64 = 8;

impl Writer {
    /// Behind each commit: asks for a move, cuts what is long; with `is_moved` nearly all of the logs stands in their files.
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
            // One that is still under way is as good.
            let _under_way = self.moves.try_send(());
        }
        self.logs.moved = self.logs.moved.min(all);
    }

    /// Whether the log of the segment is empty now.
    fn cut_ledger(&mut self, is_last_try: bool) -> bool {
        let shared = self.shared.clone();
        // A copy that is under way is soon over: it is no reader.
        let copying = match is_last_try {
            true => Some(shared.copying()),
            false => shared.try_copying(),
        };
        if copying.is_none() {
            return false;
        }
        let wait_ms = if is_last_try { limits::WAL_WAIT_MS_MAX } else { 0 };
        let is_cut = store::empty_log_within(self.file.db(), Duration::from_millis(wait_ms));
        let is_cut =
            is_cut.inspect_err(|e| tracing::warn!(error = %e, "the ledger's write-ahead log was not cut"));
        let is_cut = is_cut.unwrap_or(false);
        self.owes &= !is_cut;
        is_cut
    }

    /// Where somebody reads state.db for long, its log is tried again when it has grown by a step.
    fn cut_state(&mut self, bytes: u64) {
        match store::empty_log_within(&self.projector.state, Duration::ZERO) {
            Ok(true) => self.logs.state = 0,
            Ok(false) => self.logs.state = bytes.saturating_add(self.files.wal_bytes_max / MOVES_WITHIN),
            Err(e) => tracing::warn!(error = %e, "the write-ahead log of state.db was not cut"),
        }
    }
}
