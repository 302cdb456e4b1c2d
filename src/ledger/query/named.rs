//! Queries for a key, a user or a principal that does not exist: an empty result would hide the
//! mistake.

use super::error::{QueryError, WordError};
use super::filter::Filter;
use super::term::{Criterion, Want};
use super::told::KeyNames;
use crate::types::{limits, nearest, text};

/// Known words that an error lists at most.
const LISTED_MAX: usize = 20;

/// How a query names a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysBy {
    /// A query of entries: by its id.
    Id,
    /// A search of runs: by its id or its name.
    Name,
}

impl Filter {
    /// The error of a query that names a key, a user or a principal which nothing in the ledger
    /// has. `has_entry` says whether any entry matches a query; it is asked only about users of the
    /// host.
    pub fn unknown_name<E>(
        &self,
        names: &KeyNames,
        keys: KeysBy,
        has_entry: impl Fn(&Self) -> Result<bool, E>,
    ) -> Result<Option<QueryError>, E> {
        for term in self.terms.iter().filter(|term| !term.is_negated) {
            let Criterion::Field { name, want } = &term.ask else { continue };
            let Want { value, is_start: false } = want else { continue };
            let has_os = |name: &str| has_entry(&Self::field("principal", name));
            let why = match (*name, value.strip_prefix("key:")) {
                ("key", _) => unknown_key(value, names, keys),
                ("principal", Some(id)) => unknown_key(id, names, KeysBy::Id),
                ("principal", None) if !has_os(value)? => {
                    Some(format!("no entry is by `{}`{}", shown(value), meant(value, ["os:root"])))
                }
                ("user", _)
                    if names.ids_of_user(value).next().is_none() && !has_os(&format!("os:{value}"))? =>
                {
                    Some(unknown("user", value, &names.users().collect::<Vec<_>>()))
                }
                _ => None,
            };
            if let Some(why) = why {
                return Ok(Some(WordError::from(why).at(&term.to_string())));
            }
        }
        Ok(None)
    }
}

fn unknown_key(word: &str, names: &KeyNames, keys: KeysBy) -> Option<String> {
    if names.has_id(word) {
        return None;
    }
    let ids: Vec<&str> = names.ids(word).collect();
    match (keys, ids.first()) {
        (KeysBy::Name, Some(_)) => None,
        (KeysBy::Id, Some(id)) => Some(format!("a query of entries names a key by its id: `key:{id}`")),
        (KeysBy::Id, None) => Some(unknown("key", word, &names.all_ids().collect::<Vec<_>>())),
        (KeysBy::Name, None) => Some(unknown("key", word, &names.all_names().collect::<Vec<_>>())),
    }
}

fn unknown(kind: &str, word: &str, known: &[&str]) -> String {
    let mut all = known.to_vec();
    all.sort_unstable();
    all.dedup();
    let more = all.len().saturating_sub(LISTED_MAX);
    all.truncate(LISTED_MAX);
    let listed = match (all.is_empty(), more) {
        (true, _) => format!("; there is no {kind}"),
        (false, 0) => format!("; expected one of {}", all.join(", ")),
        (false, more) => format!("; expected one of {} and {more} more", all.join(", ")),
    };
    let meant = meant(word, known.iter().copied());
    text::visible_line(&format!("unknown {kind} `{}`{meant}{listed}", shown(word)))
}

fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |close| format!(", did you mean `{close}`?"))
}

fn shown(word: &str) -> String {
    text::visible_line(text::prefix(word, limits::SHOWN_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::{Filter, KeyNames, KeysBy};

    #[test]
    fn an_unknown_key_user_or_principal_is_refused_with_the_known_ones() {
        let key = |id: &str, name: &str, user: Option<&str>| {
            (id.to_owned(), name.to_owned(), user.map(ToOwned::to_owned))
        };
        let names =
            KeyNames::new([key("ZcTr354w", "ops-ci", Some("ben")), key("Ab3dEf9h", "cron", Some("anna"))]);
        let has = |filter: &Filter| Ok::<bool, ()>(filter.to_string() == "principal:os:root");
        let told = |filter: Filter, keys| {
            filter.unknown_name(&names, keys, has).expect("read").map(|why| why.to_string())
        };
        let entries = |query: &str| told(Filter::parse(query).expect("a query"), KeysBy::Id);
        let runs = |query: &str| told(Filter::of_runs(query).expect("a query"), KeysBy::Name);
        let check = |told: Option<String>, expect: &str| {
            let told = told.unwrap_or_default();
            assert!(told.ends_with(expect), "{told}");
        };
        check(entries("key:nosuch"), "unknown key `nosuch`; expected one of Ab3dEf9h, ZcTr354w");
        check(entries("key:cron"), "a query of entries names a key by its id: `key:Ab3dEf9h`");
        check(entries("principal:os:rot"), "no entry is by `os:rot`, did you mean `os:root`?");
        check(runs("key:corn"), "unknown key `corn`, did you mean `cron`?; expected one of cron, ops-ci");
        check(runs("user:ana"), "unknown user `ana`, did you mean `anna`?; expected one of anna, ben");
        for known in
            ["key:ZcTr354w", "principal:os:root", "principal:key:Ab3dEf9h", "key:Zz*", "-key:nosuch", "words"]
        {
            assert_eq!(entries(known), None, "{known}");
        }
        for known in ["key:cron", "user:ben", "user:root", "key:ZcTr354w"] {
            assert_eq!(runs(known), None, "{known}");
        }
    }
}
