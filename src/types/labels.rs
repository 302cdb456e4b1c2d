//! Labels of data: where what an entry stores comes from.

use std::collections::BTreeSet;

/// The label of text that others may have chosen.
pub const UNTRUSTED: &str = "untrusted";

/// The labels of what an entry stores, in its header as `taint` and `seen`. What is composed of
/// several pieces has the labels of all of them, and nothing removes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataLabels {
    /// Sources that are not trusted. Each of them adds [`UNTRUSTED`] too, so that a rule that knows
    /// no other label covers all.
    pub taint: BTreeSet<String>,
    /// Named classes of data that a rule gave it. No rule gives any in this version.
    pub seen: BTreeSet<String>,
}

impl DataLabels {
    /// The labels of text that others may have chosen, and of every entry without labels.
    #[must_use]
    pub fn untrusted() -> Self {
        Self { taint: BTreeSet::from([UNTRUSTED.to_owned()]), seen: BTreeSet::new() }
    }

    /// Labels with this `taint` and nothing seen.
    #[must_use]
    pub fn tainted(taint: &BTreeSet<String>) -> Self {
        Self { taint: taint.clone(), seen: BTreeSet::new() }
    }

    /// Whether something in it is not trusted.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        !self.taint.is_empty()
    }
}
