//! What was found of the arguments of one call.

use super::texts::SourceTexts;
use crate::types::{FoundIn, limits};
use serde_json::Value;
use std::collections::BTreeMap;

/// Where each sensitive argument of one call was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentOrigins(BTreeMap<String, FoundIn>);

impl ArgumentOrigins {
    /// Looks up the `sensitive` arguments, given as name and JSON pointer. An argument that is not
    /// given is in no text. An argument of several values is the least safe of them.
    #[must_use]
    pub fn find<'a>(
        texts: &SourceTexts,
        sensitive: impl IntoIterator<Item = (&'a str, &'a str)>,
        arguments: &Value,
    ) -> Self {
        let mut left = limits::PROVENANCE_VALUES_MAX;
        let of = |(name, pointer): (&str, &str)| {
            let found = arguments.pointer(pointer).map(|value| of_value(texts, value, &mut left));
            (name.to_owned(), found.flatten().unwrap_or(FoundIn::Nowhere))
        };
        Self(sensitive.into_iter().map(of).collect())
    }

    /// The given values, by name.
    #[must_use]
    pub fn given(found: BTreeMap<String, FoundIn>) -> Self {
        Self(found)
    }

    /// Where the argument `name` was found. An argument that was not looked up cannot be known.
    #[must_use]
    pub fn of(&self, name: &str) -> FoundIn {
        self.0.get(name).copied().unwrap_or(FoundIn::Untrusted)
    }

    /// Each argument that was looked up, by name.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<String, FoundIn> {
        &self.0
    }
}

/// The least safe of the values in `value`, where a name of a member is a value too; `None` if it
/// has none. Beyond the bound of values nothing is known.
fn of_value(texts: &SourceTexts, value: &Value, left: &mut usize) -> Option<FoundIn> {
    let mut take = |found: &dyn Fn() -> FoundIn| {
        let Some(less) = left.checked_sub(1) else { return FoundIn::Untrusted };
        *left = less;
        found()
    };
    match value {
        Value::Null => None,
        // It is in no text by itself.
        Value::Bool(_) => Some(FoundIn::Nowhere),
        Value::Number(number) => Some(take(&|| texts.number(number))),
        Value::String(text) => Some(take(&|| texts.text(text))),
        Value::Array(items) => items.iter().filter_map(|item| of_value(texts, item, left)).max(),
        Value::Object(members) => {
            let mut all = Vec::new();
            for (name, value) in members {
                all.extend(of_value(texts, &Value::from(name.as_str()), left));
                all.extend(of_value(texts, value, left));
            }
            all.into_iter().max()
        }
    }
}
