//! Ceilings: the only tools that a run may use.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The only tools that a run may use, by name, or no bound at all. Ceilings only narrow: see
/// [`Ceiling::and`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ceiling(Option<BTreeSet<String>>);

impl Ceiling {
    /// No bound.
    pub const OPEN: Self = Self(None);

    /// Only the tools of these names; none at all if there are no names.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self(Some(names.into_iter().collect()))
    }

    /// Whether it bounds nothing.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it lets the tool `name` be used.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }

    /// The names, unless it bounds nothing.
    #[must_use]
    pub fn names(&self) -> Option<&BTreeSet<String>> {
        self.0.as_ref()
    }

    /// The tools that both let be used.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Some(ours), Some(theirs)) => Self(Some(ours & theirs)),
            (ours, theirs) => Self(ours.as_ref().or(theirs.as_ref()).cloned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ceiling;
    use proptest::prelude::{Strategy, any, prop, proptest};

    fn ceiling() -> impl Strategy<Value = Ceiling> {
        prop::option::of(prop::collection::btree_set("[a-e]", 0..5)).prop_map(Ceiling)
    }

    proptest! {
        /// L4: powers only intersect.
        #[test]
        fn two_ceilings_let_use_what_each_of_them_does(a in ceiling(), b in ceiling(), tool in "[a-f]") {
            assert_eq!(a.and(&b).has(&tool), a.has(&tool) && b.has(&tool));
            assert_eq!(a.and(&b), b.and(&a));
        }

        #[test]
        fn a_ceiling_is_recorded_exactly(a in ceiling(), _n in any::<bool>()) {
            let text = serde_json::to_string(&a).expect("JSON");
            assert_eq!(serde_json::from_str::<Ceiling>(&text).expect("ceiling"), a);
        }
    }
}
