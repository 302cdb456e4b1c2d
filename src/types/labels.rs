//! Labels of data: where what an entry stores comes from, and values that carry them.

use std::collections::BTreeSet;
use std::ops::Deref;

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

    /// Whether something in it is not trusted.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        !self.taint.is_empty()
    }

    /// Adds the labels of what is put next to it.
    pub fn add(&mut self, other: &Self) {
        self.taint.extend(other.taint.iter().cloned());
        self.seen.extend(other.seen.iter().cloned());
    }

    /// Whether it has every label of `other`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.taint.is_superset(&other.taint) && self.seen.is_superset(&other.seen)
    }
}

/// A value together with the labels of everything that it is made of. What is composed of two has
/// the labels of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled<T> {
    value: T,
    labels: DataLabels,
}

impl<T> Labelled<T> {
    /// `value`, which comes from sources with `labels`.
    #[must_use]
    pub fn new(value: T, labels: DataLabels) -> Self {
        Self { value, labels }
    }

    /// A value that no other party has chosen: a person's own message, or text of this program.
    #[must_use]
    pub fn trusted(value: T) -> Self {
        Self::new(value, DataLabels::default())
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &DataLabels {
        &self.labels
    }

    /// What `compose` makes of both values, with the labels of both.
    #[must_use]
    pub fn with<U, V>(self, other: Labelled<U>, compose: impl FnOnce(T, U) -> V) -> Labelled<V> {
        let Self { value, mut labels } = self;
        labels.add(&other.labels);
        Labelled { value: compose(value, other.value), labels }
    }

    /// The value and its labels, for what stores both.
    #[must_use]
    pub fn into_parts(self) -> (T, DataLabels) {
        (self.value, self.labels)
    }
}

impl<T> Deref for Labelled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::{DataLabels, Labelled};
    use crate::types::laws::cases;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn words() -> impl Strategy<Value = BTreeSet<String>> {
        proptest::collection::btree_set("[a-d]", 0..4)
    }

    fn piece() -> impl Strategy<Value = Labelled<String>> {
        ("[xy]{0,3}", words(), words())
            .prop_map(|(text, taint, seen)| Labelled::new(text, DataLabels { taint, seen }))
    }

    proptest! {
        #![proptest_config(cases(256))]

        /// What is composed of pieces, in any grouping, has exactly the labels of all (L1).
        #[test]
        fn composed_text_has_the_labels_of_every_piece(
            pieces in proptest::collection::vec(piece(), 1..6),
        ) {
            let join = |a: String, b: String| a + &b;
            let mut expect = DataLabels::default();
            pieces.iter().for_each(|piece| expect.add(piece.labels()));
            let left = pieces.iter().cloned().reduce(|a, b| a.with(b, join)).expect("a piece");
            let right = pieces.iter().rev().cloned().reduce(|a, b| b.with(a, join)).expect("a piece");
            prop_assert_eq!(&left, &right);
            prop_assert_eq!(left.labels(), &expect);
            for piece in &pieces {
                prop_assert!(left.labels().covers(piece.labels()));
            }
        }
    }

    #[test]
    fn labels_cover_those_that_they_contain() {
        let untrusted = DataLabels::untrusted();
        assert!(untrusted.covers(&DataLabels::default()) && untrusted.covers(&untrusted));
        assert!(!DataLabels::default().covers(&untrusted));
        let seen = DataLabels { seen: ["payroll".to_owned()].into(), ..DataLabels::untrusted() };
        assert!(seen.covers(&untrusted) && !untrusted.covers(&seen));
    }
}
