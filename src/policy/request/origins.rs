//! Where the sensitive arguments of a call were found, as policies see it: `context.from`, with a
//! member for each, and `context.from_all`.

use super::cedar::Value;
use crate::provenance::ArgumentOrigins;
use crate::tools::Manifest;
use crate::types::FoundIn;
use std::collections::{BTreeMap, BTreeSet};

/// The record with a member for each sensitive argument.
pub(in crate::policy) const FROM: &str = "from";
/// The least safe of them.
pub(in crate::policy) const FROM_ALL: &str = "from_all";
/// Whether a person limited the run to some tools and named this one.
pub(in crate::policy) const CHOSEN: &str = "chosen";

/// Both members of the context. Without `found`, and for a tool that names no sensitive argument,
/// what cannot be known is the least safe value.
pub(super) fn members(manifest: &Manifest, found: Option<&ArgumentOrigins>) -> [(String, Value); 2] {
    let of = |name: &str| found.map_or(FoundIn::Untrusted, |found| found.of(name));
    described(manifest.sensitive.iter().map(|one| (one.name.clone(), of(&one.name))).collect())
}

fn described(found: BTreeMap<String, FoundIn>) -> [(String, Value); 2] {
    let text = |one: FoundIn| Value::String(one.as_str().to_owned());
    let all = found.values().copied().max().unwrap_or(FoundIn::Untrusted);
    let each = found.into_iter().map(|(name, one)| (name, text(one))).collect();
    [(FROM.to_owned(), Value::Record(each)), (FROM_ALL.to_owned(), text(all))]
}

/// Whether a recorded context has exactly the arguments `names`.
pub(super) fn is_of(context: &BTreeMap<String, Value>, names: &BTreeSet<String>) -> bool {
    let Some(Value::Record(members)) = context.get(FROM) else { return false };
    members.keys().eq(names)
}

/// Gives a recorded context the arguments `names`: as recorded, or else as not known. Whether a
/// person named the tool is not known either in a record without it.
pub(super) fn fill(context: &mut BTreeMap<String, Value>, names: &BTreeSet<String>) {
    let recorded = match context.get(FROM) {
        Some(Value::Record(members)) => members.clone(),
        _ => BTreeMap::new(),
    };
    let of = |name: &String| match recorded.get(name) {
        Some(Value::String(word)) => FoundIn::parse(word).unwrap_or(FoundIn::Untrusted),
        _ => FoundIn::Untrusted,
    };
    context.extend(described(names.iter().map(|name| (name.clone(), of(name))).collect()));
    if let Some(Value::Record(call)) = context.get_mut("call") {
        call.entry(CHOSEN.to_owned()).or_insert(Value::Bool(false));
    }
}
