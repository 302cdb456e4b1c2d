//! Seals a segment and begins the next one.
//!
//! The seal is an ordinary entry, the last of its file, signed in its own commit. The next file is
//! made under a temporary name and gets its name when it is complete. If a crash comes between the
//! two, the next opening finishes the change.

use super::error::AppendError;
use super::segment::{Segment, SegmentFile};
use super::writer::Writer;
use crate::ledger::entry::Draft;
use crate::ledger::payload::SegmentSealPayload;
use crate::store;
use crate::types::clock;

impl Writer {
    /// Seals the segment if it is full, or if a reader keeps its long write-ahead log from being
    /// truncated, and begins the next one.
    pub(super) fn rotate(&mut self) {
        let size = self.chain.frontier.size();
        // A segment must hold more than its seal, and no seal overtakes appends that wait for
        // space.
        let is_over = self.logs.is_held || self.segment.is_full(&self.files, clock::Wall::now().0);
        let is_due = size > self.segment.first + 1 && is_over;
        let may_seal = self.shared.is_well() && self.shared.damage().is_none();
        if is_due && !self.segment.is_sealed && may_seal {
            let first = self.segment.first;
            self.serve_own(Draft::new(SegmentSealPayload { first, next: size + 1 }), None);
        }
        if let Err(error) = self.turn() {
            self.shared.fail(&error);
        }
    }

    /// If the segment is sealed, switches to the next file and creates it if necessary.
    pub(super) fn turn(&mut self) -> Result<(), AppendError> {
        if !self.segment.is_sealed {
            return Ok(());
        }
        let first = self.chain.frontier.size();
        let path = self.files.segment(first);
        let open = || store::make(&path, store::Database::Ledger);
        let db = open().map_err(|e| AppendError::from_store(&e))?;
        let at = path.display().to_string();
        self.file = SegmentFile::new(db, path).map_err(|e| AppendError::Poisoned(format!("{at}: {e}")))?;
        self.logs.is_held = false;
        self.segment = Segment { first, bytes: 0, began_us: None, is_sealed: false };
        let mut segments = self.reader.segments();
        // The previous file gets no more appends, so readers open it again as it is now.
        let before = segments.first_of(first);
        segments.close(before);
        segments.add(first);
        self.shared.set_segment(first);
        Ok(())
    }
}
