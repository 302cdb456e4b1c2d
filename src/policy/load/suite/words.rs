//! Values that all kinds of cases share: lists, roles with groups, times.

use super::case::Who;
use crate::auth::Role;
use crate::policy::request::groups::Groups;
use crate::types::limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(in crate::policy) fn moment(words: &str) -> Result<u64, String> {
    let at: Option<jiff::Timestamp> = words.parse().ok();
    at.and_then(|at| u64::try_from(at.as_microsecond()).ok())
        .ok_or_else(|| format!("`now`: `{words}` is not a time, expected the form 2030-01-01T00:00:00Z"))
}

pub(in crate::policy) type RawGroups = BTreeMap<String, Vec<String>>;

/// One value, or a list whose members each make a case.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(in crate::policy) enum Many {
    One(String),
    Each(Vec<String>),
}

impl Many {
    pub(in crate::policy) fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Each(words) => words,
        }
    }
}

/// An error if a case expands to more combinations of its lists than a bundle may have: lists
/// multiply.
pub(in crate::policy) fn check_combinations(lists: &[usize]) -> Result<(), String> {
    let count = lists.iter().fold(1_usize, |count, list| count.saturating_mul(*list));
    if count <= limits::POLICY_CASES_MAX {
        return Ok(());
    }
    Err(format!("its lists make {count} cases, more than {}", limits::POLICY_CASES_MAX))
}

/// `who` with each of `roles`, in the file's groups and its own.
pub(in crate::policy) fn each(
    roles: &Many,
    who: &Who,
    own: &[String],
    groups: &RawGroups,
) -> Result<Vec<Who>, String> {
    let mut groups = groups.clone();
    for group in own {
        let user = who.user.clone().ok_or("`groups` lists the groups of a `user`: name one")?;
        groups.entry(group.clone()).or_default().push(user);
    }
    if roles.words().is_empty() {
        return Err("`role` is empty, so the case asks nothing".to_owned());
    }
    let groups = Arc::new(Groups::new(groups));
    let roles = roles.words().iter().map(|word| {
        let role = Role::parse(word).ok_or_else(|| {
            format!("unknown role `{word}`, expected one of {}", Role::ALL.map(Role::as_str).join(", "))
        })?;
        Ok(Who { role, groups: groups.clone(), ..who.clone() })
    });
    roles.collect()
}
