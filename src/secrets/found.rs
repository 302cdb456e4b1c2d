//! Counts of replacements, by name.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How often each secret was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretCounts(BTreeMap<String, u64>);

impl SecretCounts {
    pub(super) fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    /// Adds the counts of another value.
    pub fn add_all(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            *self.0.entry(name.clone()).or_default() += count;
        }
    }

    /// Whether nothing was replaced.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The counts, for an entry's payload; `None` if nothing was replaced.
    #[must_use]
    pub fn counts(&self) -> Option<BTreeMap<String, u64>> {
        (!self.is_none()).then(|| self.0.clone())
    }

    /// Puts the counts into an entry's payload as `secrets`, unless nothing was replaced.
    pub fn put(&self, payload: &mut Map<String, Value>) {
        if !self.is_none() {
            payload.insert("secrets".to_owned(), json!(self.0));
        }
    }
}
