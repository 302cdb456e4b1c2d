//! The query grammar for the command line, the API and the dashboard. Pure except for
//! [`Filter::parse`], which reads the clock.
//!
//! A query is a list of terms separated by spaces, and an entry must match all of them:
//!
//! * `field:value` is a field of the header. A `*` at the end matches any rest. Several terms
//!   with the same field are alternatives. A `kind`, `decision` or `status` must be one that
//!   exists.
//! * `user:NAME`, only in a search of runs, is the user who asked, with any key or on the host.
//! * `seq:7`, `seq:7-9` and `seq:7-` are sequence numbers.
//! * `since:` and `until:` take a date (`2026-11-01`, its beginning in UTC), a time of RFC 3339 or
//!   a span before now (`24h`). `since` includes that time and `until` excludes it.
//! * Anything else is free text: words that follow each other in a payload that may be shown.
//! * A leading `-` negates a term. Quotes hold values with spaces, and make `*`, `:` and `-`
//!   literal.

use super::error::{QueryError, WordError};
use super::term::{Criterion, FIELDS, Term, Want};
use super::tokens::{any_text, has};
use crate::ledger::entry::Header;
use crate::types::clock::Wall;
use crate::types::limits;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// Why the field `user` is not accepted in a query of entries.
const ONLY_RUNS: &str = "only a search of runs has the field `user`; here name a key with `key:ID` or a user of the \
                         host with `principal:os:NAME`";

fn now_us() -> i64 {
    i64::try_from(Wall::now().0).unwrap_or(i64::MAX)
}

/// A query: every term must match. An empty one matches all entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub(super) terms: Vec<Term>,
    /// If set, only entries of runs, recorded under one of these principals. Not a part of the
    /// grammar: no query can lift it.
    within: Option<BTreeSet<String>>,
}

impl Filter {
    /// The header fields that a query may name. There are also `key`, a principal that is a key, by
    /// its id, and `seq`, `since` and `until`.
    pub const FIELDS: [&'static str; 9] = FIELDS;

    /// Parses a query. An error names the wrong term and what is expected. Spans of time end now.
    pub fn parse(query: &str) -> Result<Self, QueryError> {
        Self::parse_at(query, now_us())
    }

    /// As [`Filter::parse`], for a search of runs, which also has the field `user`.
    pub fn of_runs(query: &str) -> Result<Self, QueryError> {
        Self::checked(query, now_us())
    }

    /// As [`Filter::parse`], with the current time given in microseconds since 1970.
    pub fn parse_at(query: &str, now_us: i64) -> Result<Self, QueryError> {
        let filter = Self::checked(query, now_us)?;
        match filter.terms.iter().find(|term| term.ask.is_of_runs()) {
            Some(term) => Err(WordError::from(ONLY_RUNS).at(&term.to_string())),
            None => Ok(filter),
        }
    }

    fn checked(query: &str, now_us: i64) -> Result<Self, QueryError> {
        let filter = Self::read(query, now_us)?;
        // It is recorded as it is printed, and what was recorded has to be read again.
        let count = filter.to_string().len();
        if count > limits::QUERY_BYTES_MAX {
            let (unit, max) = ("bytes once its times and quotes are written out", limits::QUERY_BYTES_MAX);
            return Err(QueryError::TooLong { count, unit, max });
        }
        let unknown = filter.terms.iter().find_map(|term| term.ask.unknown());
        unknown.map_or(Ok(filter), Err)
    }

    /// Parses a recorded query, perhaps by another version: it may name a `kind`, `decision` or
    /// `status` that this version does not know.
    pub(in crate::ledger) fn read(query: &str, now_us: i64) -> Result<Self, QueryError> {
        let split = split(query)?;
        if split.len() > limits::QUERY_WORDS_MAX {
            return Err(QueryError::TooLong {
                count: split.len(),
                unit: "words",
                max: limits::QUERY_WORDS_MAX,
            });
        }
        let term = |word: &&str| Term::parse(word, now_us).map_err(|why| why.at(word));
        Ok(Self { terms: split.iter().map(term).collect::<Result<_, _>>()?, within: None })
    }

    /// The range from the lowest to the highest number that the query asks for; all numbers if it
    /// names none.
    pub(super) fn seqs(&self) -> Range<u64> {
        let asked = self.terms.iter().filter(|term| !term.is_negated).filter_map(|term| match term.ask {
            Criterion::Seq(first, last) => Some(first..last.saturating_add(1)),
            _ => None,
        });
        asked.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)).unwrap_or(0..u64::MAX)
    }

    /// The entries whose field `name`, one of [`Filter::FIELDS`], is `value`.
    #[must_use]
    pub fn field(name: &'static str, value: &str) -> Self {
        let want = Want { value: value.to_owned(), is_start: false };
        Self { terms: vec![Term { is_negated: false, ask: Criterion::Field { name, want } }], within: None }
    }

    /// The same query, over the entries of runs that are recorded under one of `principals` alone.
    #[must_use]
    pub fn in_runs_of(self, principals: BTreeSet<String>) -> Self {
        Self { within: Some(principals), ..self }
    }

    /// The runs that an entry must be of one of; `None` if the query does not name them exactly.
    #[must_use]
    pub fn runs(&self) -> Option<Vec<&str>> {
        let named = self.terms.iter().filter(|term| !term.is_negated).filter_map(|term| match &term.ask {
            Criterion::Field { name: "run", want } => Some(want),
            _ => None,
        });
        let exact = named.map(|want| (!want.is_start).then_some(want.value.as_str()));
        exact.collect::<Option<Vec<_>>>().filter(|runs| !runs.is_empty())
    }

    /// Whether the query asks for a tool.
    #[must_use]
    pub fn names_tool(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.ask, Criterion::Field { name: "tool", .. }))
    }

    /// The error of a query for a tool that is not in `known` and that no entry names: an empty
    /// result would hide the mistake. A tool that was removed has entries. `has_entry` says whether
    /// any entry matches a query.
    pub fn unknown_tool<E>(
        &self,
        known: &[String],
        has_entry: impl Fn(&Self) -> Result<bool, E>,
    ) -> Result<Option<QueryError>, E> {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for term in &self.terms {
            let Criterion::Field { name: "tool", want } = &term.ask else { continue };
            let Some(error) = want.unlisted("tool", &known) else { continue };
            let alone = Term { is_negated: false, ask: term.ask.clone() };
            if !has_entry(&Self { terms: vec![alone], within: self.within.clone() })? {
                return Ok(Some(error));
            }
        }
        Ok(None)
    }

    /// Whether the header is of an entry that the query is confined to.
    fn is_within(&self, header: &Header) -> bool {
        self.within.as_ref().is_none_or(|principals| {
            let is_theirs = header.str("principal").is_some_and(|by| principals.contains(by));
            is_theirs && header.str("run").is_some()
        })
    }

    /// Whether every entry matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.within.is_none()
    }

    /// Whether the query searches payloads.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.ask, Criterion::Text { .. }))
    }

    /// Whether the header matches all conditions on headers. For payloads see
    /// [`Filter::matches_text`].
    #[must_use]
    pub fn matches(&self, header: &Header) -> bool {
        let mut headers = self.terms.iter().filter(|term| !matches!(term.ask, Criterion::Text { .. }));
        self.is_within(header)
            && headers.all(|term| {
                if term.is_negated {
                    return !term.ask.holds(header);
                }
                let mut same =
                    self.terms.iter().filter(|other| !other.is_negated && other.ask.is_like(&term.ask));
                same.any(|other| other.ask.holds(header))
            })
    }

    /// Whether the payload matches all free text. A payload that was erased or may not be shown has
    /// no words.
    #[must_use]
    pub fn matches_text(&self, header: &Header, body: Option<&[u8]>) -> bool {
        if !self.has_text() {
            return true;
        }
        let shown = body.filter(|_| header.shows_payload());
        let payload: Value = shown.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
        self.terms.iter().all(|term| match &term.ask {
            Criterion::Text { want, words } => {
                any_text(&payload, &mut |text| has(text, words, want.is_start)) != term.is_negated
            }
            _ => true,
        })
    }
}

impl fmt::Display for Filter {
    /// In the form that [`Filter::parse`] parses again; spans of time have become times.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { " " })?;
            term.fmt(f)?;
        }
        Ok(())
    }
}

/// The term `name:value`, for a query that is made by a click. `None` if no field has this name or
/// the value is empty.
#[must_use]
pub fn word(name: &str, value: &str) -> Option<String> {
    let name = Criterion::names().find(|known| *known == name).filter(|_| !value.is_empty())?;
    Some(Filter::field(name, value).to_string())
}

/// Splits a query into its terms, as they are written.
pub fn split(query: &str) -> Result<Vec<&str>, QueryError> {
    if query.len() > limits::QUERY_BYTES_MAX {
        let (count, max) = (query.len(), limits::QUERY_BYTES_MAX);
        return Err(QueryError::TooLong { count, unit: "bytes", max });
    }
    let (mut found, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), None, false, false);
    for (at, c) in query.char_indices() {
        if c.is_whitespace() && !is_quoted {
            found.extend(start.take().and_then(|from: usize| query.get(from..at)));
            continue;
        }
        start.get_or_insert(at);
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = is_quoted && c == '\\' && !is_escaped;
    }
    found.extend(start.and_then(|from| query.get(from..)));
    match found.last() {
        Some(last) if is_quoted => Err(WordError::from("the closing quote is missing").at(last)),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, split, word};

    const NOW_US: i64 = 1_790_000_000_000_000;

    fn printed(query: &str) -> String {
        match Filter::parse_at(query, NOW_US) {
            Ok(filter) => filter.to_string(),
            Err(why) => format!("! {why}"),
        }
    }

    #[test]
    fn a_query_is_parsed_or_the_wrong_term_is_named() {
        let no_time = "expected a date (`2026-11-01`), a time (`2026-11-01T08:30:00Z`) or a span before now \
                       (`90s`, `30m`, `24h`, `7d`, `2w`)";
        for (query, expect) in [
            ("", ""),
            ("  decision:deny\ttool:read_* ", "decision:deny tool:read_*"),
            ("principal:key:Ab3dEf9h -key:x", "principal:key:Ab3dEf9h -key:x"),
            ("tool:\"a b\" tool:\"a*\" tool:\"a b\"*", "tool:\"a b\" tool:\"a*\" tool:\"a b\"*"),
            ("tool:\"plain\"", "tool:plain"),
            ("nginx -\"connection refused\" \"a:b\" ngin*", "nginx -\"connection refused\" \"a:b\" ngin*"),
            (r#""say \"hi\" \\o""#, r#""say \"hi\" \\o""#),
            ("seq:7 seq:7-9 seq:7-", "seq:7 seq:7-9 seq:7-"),
            (
                "since:2026-11-01 until:2026-11-01T08:30:00Z",
                "since:2026-11-01T00:00:00Z until:2026-11-01T08:30:00Z",
            ),
            ("since:2026-11-01T08:30:00.5+02:00", "since:2026-11-01T06:30:00.5Z"),
            ("since:24h", "since:2026-09-20T14:13:20Z"),
            (
                "nope:1",
                "! `nope:1`: unknown field `nope`, expected one of kind, run, session, call, principal, decision, status, \
                        tool, policy, key, seq, since and until; put text that contains a colon in quotes",
            ),
            ("kind:anchor kind:call.* -status:err*", "kind:anchor kind:call.* -status:err*"),
            ("kind:", "! `kind:`: a value is missing after `kind:`"),
            ("\u{7f}:", "! `\\u{7f}:`: a value is missing after `\\u{7f}:`"),
            ("a -", "! `-`: a word is missing after `-`"),
            ("--", "! `--`: it has no letter or digit to search for"),
            ("tool:a*b", "! `tool:a*b`: a `*` must be at the end; to search for a `*`, put it in quotes"),
            ("tool:a\"b\"", "! `tool:a\"b\"`: a quote must begin a value; within quotes, write `\\\"`"),
            ("\"a\"b", "! `\"a\"b`: a closing quote must be followed by a space or `*`"),
            ("\"\"", "! `\"\"`: there is nothing between the quotes"),
            ("x \"a b", "! `\"a b`: the closing quote is missing"),
            ("seq:9-7", "! `seq:9-7`: expected a number (`7`) or a range (`7-9`, `7-`)"),
            ("seq:-7", "! `seq:-7`: expected a number (`7`) or a range (`7-9`, `7-`)"),
            ("since:yesterday", &format!("! `since:yesterday`: {no_time}")),
            ("since:2026-13-01", &format!("! `since:2026-13-01`: {no_time}")),
            ("until:9999999w", &format!("! `until:9999999w`: {no_time}")),
            (
                "\u{202e}:x",
                "! `\\u{202e}:x`: unknown field `\\u{202e}`, expected one of kind, run, session, call, principal, \
                            decision, status, tool, policy, key, seq, since and until; put text that contains a colon in \
                            quotes",
            ),
        ] {
            assert_eq!(printed(query), expect, "{query}");
        }
        assert!(printed(&"a ".repeat(65)).contains("65 words"));
        assert!(printed(&format!("since:1s {}", "a".repeat(4_087))).contains("4114 bytes once"));
        assert!(printed(&format!("--{}", "a".repeat(4_094))).contains("4098 bytes once"));
        assert!(printed(&"a".repeat(5_000)).contains("5000 bytes"));
    }

    /// The attack: a query whose terms name other principals, or negate one's own.
    #[test]
    fn no_query_leaves_the_runs_that_it_is_confined_to() {
        let header = |principal: &str, run: Option<&str>| {
            let zero = "0".repeat(64);
            let mut fields = serde_json::json!({
                "t": "par/entry/1", "boot": "b", "wall_us": 1, "mono_us": 1, "log": "l", "seq": 7,
                "kind": "run.request", "payload": zero, "payload_len": 0, "principal": principal
            });
            if let Some(run) = run {
                fields["run"] = run.into();
            }
            super::Header::parse_any(fields.to_string().as_bytes()).expect("a header")
        };
        let own = || std::collections::BTreeSet::from(["key:own".to_owned()]);
        for query in
            ["", "principal:key:other", "principal:key:*", "-principal:key:own", "key:other", "seq:7"]
        {
            let filter = Filter::parse_at(query, NOW_US).expect("a query").in_runs_of(own());
            assert!(!filter.is_empty());
            assert!(!filter.matches(&header("key:other", Some("run_1"))), "{query}");
            assert!(!filter.matches(&header("key:own", None)), "{query}: no entry of a run");
        }
        let all = Filter::default().in_runs_of(own());
        assert!(all.matches(&header("key:own", Some("run_1"))));
    }

    /// No entry could match, and an empty result would hide the mistake.
    #[test]
    fn a_value_that_no_entry_can_have_is_refused() {
        for (query, expect) in [
            (
                "decision:denied",
                "! `decision:denied`: unknown decision `denied`, did you mean `deny`? expected one of allow, deny, needs_approval, invalid",
            ),
            (
                "-decision:x*",
                "! `decision:x*`: unknown decision `x*`, expected one of allow, deny, needs_approval, invalid",
            ),
        ] {
            assert_eq!(printed(query), expect);
        }
        assert!(
            printed("kind:call.decison").contains("did you mean `call.decision`? expected one of genesis, "),
            "{}",
            printed("kind:call.decison")
        );
        assert!(printed("status:fine").contains("expected one of ok, error, "), "{}", printed("status:fine"));
        // A query that another version recorded is parsed all the same.
        assert!(Filter::read("kind:later.on decision:maybe", NOW_US).is_ok());
    }

    /// A misspelled tool is refused, and one that was removed is still found.
    #[test]
    fn a_tool_that_nothing_names_is_refused() {
        let known = ["deploy", "read_file"].map(str::to_owned);
        let told = |query: &str| {
            let filter = Filter::parse_at(query, NOW_US).expect("a query");
            let has = |alone: &Filter| Ok::<bool, ()>(alone.to_string() == "tool:removed");
            filter.unknown_tool(&known, has).expect("no error").map(|error| error.to_string())
        };
        let deply =
            "`tool:deply`: unknown tool `deply`, did you mean `deploy`? expected one of deploy, read_file";
        for (query, expect) in [
            ("tool:deply", Some(deply)),
            ("tool:read_file -tool:deply", Some(deply)),
            ("tool:deploy tool:read_* tool:removed kind:anchor deply", None),
            ("", None),
        ] {
            assert_eq!(told(query).as_deref(), expect, "{query}");
        }
        assert!(told("tool:x*").is_some_and(|why| why.starts_with("`tool:x*`: unknown tool `x*`")));
    }

    #[test]
    fn terms_are_split_as_they_are_written() {
        assert_eq!(split(r#" a  -"b c" tool:"d \" e"* "#), Ok(vec!["a", r#"-"b c""#, r#"tool:"d \" e"*"#]));
        assert_eq!(word("tool", "a b").as_deref(), Some("tool:\"a b\""));
        assert_eq!((word("payload", "a"), word("tool", "")), (None, None));
    }
}
