//! Matches missing payloads with the entries that record their erasure. Each needs the other.

use super::report::{Verdict, Verification};
use std::collections::BTreeMap;
use std::ops::Range;

/// The erased payloads and the records of erasures that a walk found.
#[derive(Clone, Debug, Default)]
pub(super) struct Erasures {
    /// Redactions: the number of the erased entry → the number of the redaction.
    redacted: BTreeMap<u64, u64>,
    /// Entries whose payloads were dropped for their age, from the entries that record it.
    dropped: Vec<Range<u64>>,
    /// Entries whose payloads are missing, in rising order.
    erased: Vec<Range<u64>>,
}

impl Erasures {
    /// Entry `by` records that the payload of `target` was erased.
    pub(in crate::ledger) fn redact(&mut self, target: u64, by: u64) {
        self.redacted.insert(target, by);
    }

    /// An entry records that these payloads were dropped for their age.
    pub(super) fn drop_by_age(&mut self, range: Range<u64>) {
        self.dropped.push(range);
    }

    /// The payload of entry `seq` is missing. Callers pass rising numbers.
    pub(in crate::ledger) fn missing(&mut self, seq: u64) {
        match self.erased.last_mut().filter(|range| range.end == seq) {
            Some(range) => range.end = seq + 1,
            None => self.erased.push(seq..seq + 1),
        }
    }

    /// Records as missing what was erased since the walk passed it: targets before `from` of
    /// redactions from `from` on, if `is_missing` confirms it.
    pub(in crate::ledger) fn settle<E>(
        &mut self,
        from: u64,
        mut is_missing: impl FnMut(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let since = self.redacted.iter().filter(|(target, by)| **target < from && **by >= from);
        for seq in since.map(|(target, _)| *target).collect::<Vec<_>>() {
            let is_known = self.erased.iter().any(|range| range.contains(&seq));
            if !is_known && is_missing(seq)? {
                self.erased.push(seq..seq + 1);
            }
        }
        Ok(())
    }

    /// Matches both at the end of a walk that read the entries from `report.from` on. `segment` is
    /// the first entry of the newest segment. In a sealed segment, an erasure is in another commit
    /// than its entry.
    pub(in crate::ledger) fn compare(mut self, segment: u64, report: &mut Verification) {
        for seq in self.erased.into_iter().flatten() {
            if self.redacted.remove(&seq).is_some() {
                report.redacted += 1;
            } else if self.dropped.iter().any(|range| range.contains(&seq)) {
                report.dropped += 1;
            } else {
                let what = "the payload is missing, and no redaction names it";
                report.find(Some(seq), Verdict::Invalid, what);
            }
        }
        for (target, redaction) in self.redacted.split_off(&report.from) {
            let what =
                format!("entry {redaction} records that the payload was erased, but it is still there");
            if target < segment {
                report.warnings.push(format!("seq {target}: {what}; the next start erases it"));
            } else {
                report.find(Some(target), Verdict::Invalid, what);
            }
        }
    }
}
