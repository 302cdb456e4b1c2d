//! Queries for a key, a user or a principal that does not exist: an empty result would hide the
//! mistake.

use super::error::{QueryError, WordError};
use super::filter::Filter;
use super::term::{Criterion, Term, Want};
use super::told::KeyNames;
use crate::types::{limits, nearest, text};

/// Known words that an error lists at most.
const LISTED_MAX: usize = 20;

impl Filter {
    /// Whether the query names a key, a user or a principal.
    #[must_use]
    pub fn names_caller(&self) -> bool {
        let is_caller = |name: &str| ["key", "user", "principal"].contains(&name);
        self.terms.iter().any(|term| matches!(term.ask, Criterion::Field { name, .. } if is_caller(name)))
    }

    /// The same query, in which keys are named by their ids, as entries name them: `key:ops-ci`
    /// stands for each key of that name or of that user.
    #[must_use]
    pub fn by_ids(mut self, names: &KeyNames) -> Self {
        for term in std::mem::take(&mut self.terms) {
            let ids: Vec<String> = match &term.ask {
                Criterion::Field { name: "key", want } if !want.is_start && !names.has_id(&want.value) => {
                    names.ids(&want.value).map(ToOwned::to_owned).collect()
                }
                _ => Vec::new(),
            };
            if ids.is_empty() {
                self.terms.push(term);
                continue;
            }
            self.terms.extend(ids.into_iter().map(|value| {
                let ask = Criterion::Field { name: "key", want: Want { value, is_start: false } };
                Term { is_negated: term.is_negated, ask }
            }));
        }
        self
    }

    /// The error of a query that names a key, a user or a principal which nothing in the ledger
    /// has. `has_entry` says whether any entry matches a query; it is asked only about users of the
    /// host.
    pub fn unknown_name<E>(
        &self,
        names: &KeyNames,
        has_entry: impl Fn(&Self) -> Result<bool, E>,
    ) -> Result<Option<QueryError>, E> {
        for term in self.terms.iter().filter(|term| !term.is_negated) {
            let Criterion::Field { name, want } = &term.ask else { continue };
            let Want { value, is_start: false } = want else { continue };
            let has_os = |name: &str| has_entry(&Self::field("principal", name));
            let why = match (*name, value.strip_prefix("key:")) {
                ("key", _) => unknown_key(value, names),
                ("principal", Some(id)) => unknown_id(id, names),
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

fn unknown_key(word: &str, names: &KeyNames) -> Option<String> {
    let is_known = names.has_id(word) || names.ids(word).next().is_some();
    (!is_known).then(|| unknown("key", word, &names.all_names().collect::<Vec<_>>()))
}

/// A principal has the id of a key.
fn unknown_id(word: &str, names: &KeyNames) -> Option<String> {
    match names.ids(word).next() {
        _ if names.has_id(word) => None,
        Some(_) => Some(format!("a principal has the id of a key; its name is found by `key:{word}`")),
        None => Some(unknown("key", word, &names.all_ids().collect::<Vec<_>>())),
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
    use super::{Filter, KeyNames};

    #[test]
    fn an_unknown_key_user_or_principal_is_refused_with_the_known_ones() {
        let key = |id: &str, name: &str, user: Option<&str>| {
            (id.to_owned(), name.to_owned(), user.map(ToOwned::to_owned))
        };
        let names =
            KeyNames::new([key("ZcTr354w", "ops-ci", Some("ben")), key("Ab3dEf9h", "cron", Some("anna"))]);
        let has = |filter: &Filter| Ok::<bool, ()>(filter.to_string() == "principal:os:root");
        let told =
            |filter: Filter| filter.unknown_name(&names, has).expect("read").map(|why| why.to_string());
        let entries = |query: &str| told(Filter::parse(query).expect("a query"));
        let runs = |query: &str| told(Filter::of_runs(query).expect("a query"));
        let check = |told: Option<String>, expect: &str| {
            let told = told.unwrap_or_default();
            assert!(told.ends_with(expect), "{told}");
        };
        check(entries("key:nosuch"), "unknown key `nosuch`; expected one of cron, ops-ci");
        check(entries("principal:key:cron"), "its name is found by `key:cron`");
        check(entries("principal:os:rot"), "no entry is by `os:rot`, did you mean `os:root`?");
        check(runs("key:corn"), "unknown key `corn`, did you mean `cron`?; expected one of cron, ops-ci");
        check(runs("user:ana"), "unknown user `ana`, did you mean `anna`?; expected one of anna, ben");
        for known in [
            "key:ZcTr354w",
            "principal:os:root",
            "principal:key:Ab3dEf9h",
            "key:Zz*",
            "-key:nosuch",
            "words",
            "key:cron",
        ] {
            assert_eq!(entries(known), None, "{known}");
        }
        for known in ["key:cron", "user:ben", "user:root", "key:ZcTr354w"] {
            assert_eq!(runs(known), None, "{known}");
        }
    }

    /// Issue 15, finding 12: a query knew the id of the key that was named, and refused the name.
    #[test]
    fn a_query_of_entries_names_a_key_by_its_name_or_its_user() {
        let key = |id: &str, name: &str, user: Option<&str>| {
            (id.to_owned(), name.to_owned(), user.map(ToOwned::to_owned))
        };
        let names = KeyNames::new([
            key("ZcTr354w", "ops-ci", Some("ben")),
            key("Ab3dEf9h", "cron", None),
            key("Bb3dEf9h", "ben", Some("ben")),
        ]);
        for (asked, meant) in [
            ("key:cron", "key:Ab3dEf9h"),
            ("key:ben tool:x", "key:Bb3dEf9h key:ZcTr354w tool:x"),
            ("-key:ops-ci", "-key:ZcTr354w"),
            ("key:Ab3dEf9h", "key:Ab3dEf9h"),
            ("key:cro*", "key:cro*"),
            ("key:nosuch", "key:nosuch"),
        ] {
            let filter = Filter::parse(asked).expect("a query");
            assert!(filter.names_caller(), "{asked}");
            assert_eq!(filter.by_ids(&names).to_string(), meant, "{asked}");
        }
    }
}
