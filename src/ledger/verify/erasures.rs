//! Payloads that are not there, and the entries that say why: each needs the other.

use super::report::{Verdict, Verification};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a walk met of both.
#[derive(Clone, Debug, Default)]
pub(super) struct Erasures {
    /// Redactions: the entry that each names, and its own number.
    redacted: BTreeMap<u64, u64>,
    /// Entries whose payloads went with their age, by the entries that say so.
    dropped: Vec<Range<u64>>,
    /// Entries whose payloads are not there, rising.
    erased: Vec<Range<u64>>,
}

impl Erasures {
    /// Entry `by` says that the payload of `target` was erased.
    pub(in crate::ledger) fn redact(&mut self, target: u64, by: u64) {
        self.redacted.insert(target, by);
    }

    /// An entry says that these payloads went with their age.
    pub(super) fn drop_by_age(&mut self, range: Range<u64>) {
        self.dropped.push(range);
    }

    /// The payload of entry `seq` is not there. Numbers rise.
    pub(in crate::ledger) fn lack(&mut self, seq: u64) {
        match self.erased.last_mut().filter(|range| range.end == seq) {
            Some(range) => range.end = seq + 1,
            None => self.erased.push(seq..seq + 1),
        }
    }

    /// Holds the ones against the others, at the end of a walk that read the entries from `report.from` on. `segment` is
    /// the first entry of the newest segment: in a sealed one an erasure is another commit than its entry.
    pub(in crate::ledger) fn compare(mut self, segment: u64, report: &mut Verification) {
        for seq in self.erased.into_iter().flatten() {
            if self.redacted.remove(&seq).is_some() {
                report.redacted += 1;
            } else if self.dropped.iter().any(|range| range.contains(&seq)) {
                report.dropped += 1;
            } else {
                let what = "the payload is gone, and no redaction names it";
                report.find(Some(seq), Verdict::Invalid, what);
            }
        }
        for (target, redaction) in self.redacted.split_off(&report.from) {
            let what = format!("entry {redaction} says that the payload was erased, and it is still there");
            if target < segment {
                report.warnings.push(format!("seq {target}: {what}: the next start erases it"));
            } else {
                report.find(Some(target), Verdict::Invalid, what);
            }
        }
    }
}
