//! The paths and units that policies name.

use super::error::{PolicyError, SourceFile, near, placed};
use super::origin::Origin;
use crate::tools::is_unit_name;
use crate::types::nearest;
use cedar_policy::PolicySet;
use std::collections::{BTreeMap, BTreeSet};

/// The absolute, plain paths that policies name, and the faults of others: only a known `@name` may
/// be written in place of a path.
pub(in crate::policy) fn named_paths(
    set: &PolicySet,
    names: &BTreeSet<String>,
    origins: &BTreeMap<String, Origin>,
    sources: &[SourceFile],
) -> (Vec<String>, Vec<PolicyError>) {
    let mut named = BTreeSet::new();
    let mut errors = Vec::new();
    for policy in set.policies() {
        for uid in policy.entity_literals().iter().filter(|uid| uid.type_name().to_string() == "PAR::Path") {
            let path = uid.id().unescaped().to_owned();
            let known = path.strip_prefix('@').is_some_and(|name| names.contains(name));
            if is_plain(&path) {
                named.insert(path);
            } else if !known {
                let reason =
                    format!("`Path::\"{path}\"` is neither a plain absolute path nor a name of `[paths]`");
                let mend = mend(&path, names);
                let id: &str = policy.id().as_ref();
                let at = near(id, &format!("Path::\"{path}\""), origins, sources);
                errors.push(placed(id, at, reason, origins, sources).mended(mend));
            }
        }
    }
    (named.into_iter().collect(), errors)
}

/// What to write in place of a path that names nothing.
fn mend(path: &str, names: &BTreeSet<String>) -> String {
    let known = names.iter().map(|name| format!("`@{name}`")).collect::<Vec<_>>().join(", ");
    let Some(name) = path.strip_prefix('@') else {
        return format!("write it without `.`, `..` and a trailing `/`; the names are {known}");
    };
    match name.split_once('/').filter(|(name, _)| names.contains(*name)) {
        Some((name, _)) => format!(
            "`@{name}` is the whole folder: write the absolute path of the part, or give the part a name of its \
             own in `[paths]` of par.toml"
        ),
        None => {
            let meant = nearest(name, names.iter().map(String::as_str));
            let meant = meant.map(|meant| format!(": did you mean `@{meant}`?"));
            format!("the names of `[paths]` are {known}{}", meant.unwrap_or_default())
        }
    }
}

/// The units that policies name.
pub(in crate::policy) fn named_units(set: &PolicySet) -> BTreeSet<String> {
    let literals = set.policies().flat_map(cedar_policy::Policy::entity_literals);
    let units = literals.filter(|uid| uid.type_name().to_string() == "PAR::Service");
    units.map(|uid| uid.id().unescaped().to_owned()).filter(|name| is_unit_name(name)).collect()
}

/// Whether `path` is absolute, without `.`, `..`, empty names and a trailing `/`.
pub(in crate::policy) fn is_plain(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_name))
}
