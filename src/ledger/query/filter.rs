//! The query grammar, one for the command line, the API and the dashboard. Pure but for [`Filter::parse`], which asks
//! what time it is.
//!
//! Words with spaces between them, and an entry has to meet all of them:
//!
//! * `field:value`, a field of the header; a `*` at the end stands for any rest. Several words of one field are "or". A
//!   `kind`, `decision` or `status` has to be one that there is.
//! * `seq:7`, `seq:7-9`, `seq:7-`: numbers.
//! * `since:` and `until:` a date (`2026-11-01`, its beginning in UTC), a time of RFC 3339 or a span before now (`24h`).
//!   What is of that very time is since it, and not until it.
//! * anything else is free text: words that stand side by side in a payload that may be shown.
//! * `-` in front turns a word round. Quotes hold what has spaces, and take `*`, `:` and `-` by themselves.

use super::error::{QueryError, WordError};
use super::term::{Criterion, FIELDS, Term, Want};
use super::tokens::{any_text, has};
use crate::ledger::entry::Header;
use crate::types::clock::Wall;
use crate::types::limits;
use serde_json::Value;
use std::fmt;
use std::ops::Range;

/// What entries are asked for; every word must hold. An empty one is met by all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub(super) terms: Vec<Term>,
}

impl Filter {
    /// Fields of the header that may be asked for. Beside them there are `key`, a principal that is a key, by its id,
    /// and `seq`, `since` and `until`.
    pub const FIELDS: [&'static str; 9] = FIELDS;

    /// Reads a query; an error names the word and says what would be right. Spans of time end now.
    pub fn parse(query: &str) -> Result<Self, QueryError> {
        Self::parse_at(query, i64::try_from(Wall::now().0).unwrap_or(i64::MAX))
    }

    /// As [`Filter::parse`], at another time in microseconds since 1970.
    pub fn parse_at(query: &str, now_us: i64) -> Result<Self, QueryError> {
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

    /// Reads a query that was recorded, perhaps by another version: it may ask for a `kind`, `decision` or `status` that this
    /// one does not know.
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
        Ok(Self { terms: split.iter().map(term).collect::<Result<_, _>>()? })
    }

    /// The numbers from the lowest to behind the highest that are asked for by number; all where none is.
    pub(super) fn seqs(&self) -> Range<u64> {
        let asked = self.terms.iter().filter(|term| !term.is_negated).filter_map(|term| match term.ask {
            Criterion::Seq(first, last) => Some(first..last.saturating_add(1)),
            _ => None,
        });
        asked.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)).unwrap_or(0..u64::MAX)
    }

    /// The entries whose field, one of [`Filter::FIELDS`], is `value`.
    #[must_use]
    pub fn field(name: &'static str, value: &str) -> Self {
        let want = Want { value: value.to_owned(), is_start: false };
        Self { terms: vec![Term { is_negated: false, ask: Criterion::Field { name, want } }] }
    }

    /// Whether every entry meets it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it looks into payloads.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.ask, Criterion::Text { .. }))
    }

    /// Whether the header meets all that is asked of it. Of the payload see [`Filter::matches_text`].
    #[must_use]
    pub fn matches(&self, header: &Header) -> bool {
        self.terms.iter().filter(|term| !matches!(term.ask, Criterion::Text { .. })).all(|term| {
            if term.is_negated {
                return !term.ask.holds(header);
            }
            let mut same =
                self.terms.iter().filter(|other| !other.is_negated && other.ask.is_like(&term.ask));
            same.any(|other| other.ask.holds(header))
        })
    }

    /// Whether the payload meets all that is asked of it. One that was erased or may not be shown has no words.
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
    /// As [`Filter::parse`] reads it again; spans of time have become times.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { " " })?;
            term.fmt(f)?;
        }
        Ok(())
    }
}

/// The word `name:value`, for a query that is made by a click. None where no field has this name, or no value is there.
#[must_use]
pub fn word(name: &str, value: &str) -> Option<String> {
    let name = Criterion::names().find(|known| *known == name).filter(|_| !value.is_empty())?;
    Some(Filter::field(name, value).to_string())
}

/// Cuts a query into its words, as they are written.
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
    fn a_query_is_read_or_the_wrong_word_is_named() {
        let no_time = "it is neither a date (`2026-11-01`), a time (`2026-11-01T08:30:00Z`) nor a span before now \
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
                "! `nope:1`: `nope` is none of the fields kind, run, session, call, principal, decision, status, \
                        tool, policy, key, seq, since and until; a text with a colon stands in quotes",
            ),
            ("kind:anchor kind:call.* -status:err*", "kind:anchor kind:call.* -status:err*"),
            ("kind:", "! `kind:`: a value is missing behind `kind:`"),
            ("\u{7f}:", "! `\\u{7f}:`: a value is missing behind `\\u{7f}:`"),
            ("a -", "! `-`: a word is missing behind `-`"),
            ("--", "! `--`: there is no letter or digit to look for"),
            ("tool:a*b", "! `tool:a*b`: a `*` stands at the end, or in quotes where it is meant itself"),
            ("tool:a\"b\"", "! `tool:a\"b\"`: a quote begins a value; within quotes it is `\\\"`"),
            ("\"a\"b", "! `\"a\"b`: behind a closing quote comes a space or `*`"),
            ("\"\"", "! `\"\"`: there is nothing between the quotes"),
            ("x \"a b", "! `\"a b`: the closing quote is missing"),
            ("seq:9-7", "! `seq:9-7`: it is neither a number (`7`) nor a range (`7-9`, `7-`)"),
            ("seq:-7", "! `seq:-7`: it is neither a number (`7`) nor a range (`7-9`, `7-`)"),
            ("since:yesterday", &format!("! `since:yesterday`: {no_time}")),
            ("since:2026-13-01", &format!("! `since:2026-13-01`: {no_time}")),
            ("until:9999999w", &format!("! `until:9999999w`: {no_time}")),
            (
                "\u{202e}:x",
                "! `\\u{202e}:x`: `\\u{202e}` is none of the fields kind, run, session, call, principal, \
                            decision, status, tool, policy, key, seq, since and until; a text with a colon stands in \
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

    /// Nothing could meet it, and an empty answer would say that there is none.
    #[test]
    fn a_value_that_no_entry_can_have_is_refused() {
        for (query, expect) in [
            (
                "decision:denied",
                "! `decision:denied`: no decision is `denied`: there are allow, deny, needs_approval, invalid",
            ),
            (
                "-decision:x*",
                "! `decision:x*`: no decision is `x*`: there are allow, deny, needs_approval, invalid",
            ),
        ] {
            assert_eq!(printed(query), expect);
        }
        assert!(
            printed("kind:call.decison").contains("there are genesis, start, "),
            "{}",
            printed("kind:call.decison")
        );
        assert!(printed("status:fine").contains("there are ok, error, "), "{}", printed("status:fine"));
        // What another version recorded is read all the same.
        assert!(Filter::read("kind:later.on decision:maybe", NOW_US).is_ok());
    }

    #[test]
    fn words_are_cut_as_they_are_written() {
        assert_eq!(split(r#" a  -"b c" tool:"d \" e"* "#), Ok(vec!["a", r#"-"b c""#, r#"tool:"d \" e"*"#]));
        assert_eq!(word("tool", "a b").as_deref(), Some("tool:\"a b\""));
        assert_eq!((word("payload", "a"), word("tool", "")), (None, None));
    }
}
