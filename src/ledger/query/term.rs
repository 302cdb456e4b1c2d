//! One term of a query: its condition on an entry, and how it is parsed and written. Pure: no disk,
//! no clock.

use super::error::{QueryError, WordError};
use super::tokens::words;
use crate::ledger::entry::{Header, Kind};
use crate::types::{Decision, RefusalClass, RunStatus, StepStatus, limits, nearest, text};
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// Fields of the header that a query may name.
pub(super) const FIELDS: [&str; 9] =
    ["kind", "run", "session", "call", "principal", "decision", "status", "tool", "policy"];

/// A field that only a search of runs has: the user of the run, with any key or on the host.
const USER: &str = "user";

/// A term of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) is_negated: bool,
    pub(super) ask: Criterion,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Criterion {
    Field {
        name: &'static str,
        want: Want,
    },
    /// The first and the last number, both included.
    Seq(u64, u64),
    /// Microseconds since 1970.
    Since(i64),
    Until(i64),
    Text {
        want: Want,
        words: Vec<String>,
    },
}

/// The values of the field `status`: of results, of replies, of refused decisions, and of an
/// approval that expired.
fn statuses() -> Vec<&'static str> {
    let results = StepStatus::ALL.into_iter().filter(|status| status.is_recorded()).map(StepStatus::as_str);
    let replies = RunStatus::ALL.into_iter().filter(|status| status.is_recorded()).map(RunStatus::as_str);
    let classes = RefusalClass::ALL.into_iter().map(RefusalClass::as_str);
    let mut all: Vec<&str> = results.chain(replies).chain(classes).chain(["expired"]).collect();
    // `interrupted` and `refused` are statuses of both results and replies.
    let mut seen = BTreeSet::new();
    all.retain(|status| seen.insert(*status));
    all
}

/// A value or, with `is_start`, any value that begins with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) value: String,
    pub(super) is_start: bool,
}

/// Numbers above this are not written: a header cannot hold them.
const SEQ_MAX: u64 = i64::MAX as u64;

impl Term {
    pub(super) fn parse(word: &str, now_us: i64) -> Result<Self, WordError> {
        let (is_negated, rest) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
        let colon = rest.find(':').filter(|at| rest.find('"').is_none_or(|quote| *at < quote));
        let ask = match colon.and_then(|at| Some((rest.get(..at)?, rest.get(at + 1..)?))) {
            Some((name, value)) => Criterion::parse_field(name, value, now_us)?,
            None => Criterion::parse_text(Want::parse(rest)?)?,
        };
        Ok(Self { is_negated, ask })
    }
}

impl Criterion {
    fn parse_field(name: &str, value: &str, now_us: i64) -> Result<Self, WordError> {
        let shown = || text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
        if value.is_empty() {
            return Err(format!("a value is missing after `{}:`", shown()).into());
        }
        match name {
            "since" => return Ok(Self::Since(moment(value, now_us)?)),
            "until" => return Ok(Self::Until(moment(value, now_us)?)),
            "seq" => return seqs(value),
            _ => {}
        }
        let known = Self::names().chain([USER]).find(|known| *known == name).ok_or_else(|| {
            let meant = nearest(name, Self::names().chain(["seq", "since", "until"]));
            let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
            format!(
                "unknown field `{}`, {meant}expected one of {}, seq, since and until; put text that contains \
                 a colon in quotes",
                shown(),
                Self::names().collect::<Vec<_>>().join(", ")
            )
        })?;
        Ok(Self::Field { name: known, want: Want::parse(value)? })
    }

    /// Why no entry can match: the field has a closed list of values, and this is not one of them.
    pub(super) fn unknown(&self) -> Option<QueryError> {
        let Self::Field { name, want } = self else { return None };
        let known: Vec<&str> = match *name {
            "kind" => Kind::ALL.iter().map(|kind| kind.as_str()).collect(),
            "decision" => Decision::ALL.map(Decision::as_str).to_vec(),
            "status" => statuses(),
            "policy" => return want.unlike_digest(),
            _ => return None,
        };
        want.unlisted(name, &known)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        FIELDS.into_iter().chain(["key"])
    }

    /// Whether only a search of runs can ask this.
    pub(super) fn is_of_runs(&self) -> bool {
        matches!(self, Self::Field { name: USER, .. })
    }

    fn parse_text(want: Want) -> Result<Self, WordError> {
        let words: Vec<String> = words(&want.value).collect();
        if words.is_empty() {
            return Err("it has no letter or digit to search for".into());
        }
        Ok(Self::Text { want, words })
    }

    /// Whether both name the same field, so that one of them must match.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field { name, .. }, Self::Field { name: other, .. }) => name == other,
            (Self::Text { .. }, _) => false,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    pub(super) fn holds(&self, header: &Header) -> bool {
        let wall_us = || header.fields.get("wall_us").and_then(Value::as_i64).unwrap_or_default();
        match self {
            Self::Field { name: "key", want } => {
                header.str("principal").and_then(|by| by.strip_prefix("key:")).is_some_and(|id| want.is(id))
            }
            Self::Field { name, want } => header.str(name).is_some_and(|is| want.is(is)),
            Self::Seq(first, last) => (*first..=*last).contains(&header.seq),
            Self::Since(us) => wall_us() >= *us,
            Self::Until(us) => wall_us() < *us,
            Self::Text { .. } => true,
        }
    }
}

impl Want {
    pub(super) fn parse(word: &str) -> Result<Self, WordError> {
        let Some(quoted) = word.strip_prefix('"') else {
            let (value, is_start) = word.strip_suffix('*').map_or((word, false), |start| (start, true));
            return match value.find(['"', '*']) {
                None if word.is_empty() => Err("a word is missing after `-`".into()),
                None => Ok(Self { value: value.to_owned(), is_start }),
                Some(at) if value.get(at..).is_some_and(|rest| rest.starts_with('*')) => {
                    Err("a `*` must be at the end; to search for a `*`, put it in quotes".into())
                }
                Some(_) => Err("a quote must begin a value; within quotes, write `\\\"`".into()),
            };
        };
        let (mut value, mut rest) = (String::new(), quoted.chars());
        loop {
            match rest.next() {
                Some('"') => break,
                Some('\\') => value.extend(rest.next()),
                Some(c) => value.push(c),
                None => return Err("the closing quote is missing".into()),
            }
        }
        match rest.as_str() {
            _ if value.is_empty() => Err("there is nothing between the quotes".into()),
            "" => Ok(Self { value, is_start: false }),
            "*" => Ok(Self { value, is_start: true }),
            _ => Err("a closing quote must be followed by a space or `*`".into()),
        }
    }

    /// Why no entry can match if the field `name` has only the values `known`.
    pub(super) fn unlisted(&self, name: &str, known: &[&str]) -> Option<QueryError> {
        if known.iter().any(|known| self.is(known)) {
            return None;
        }
        let shown = text::visible_line(text::prefix(&self.value, limits::SHOWN_BYTES_MAX));
        let rest = if self.is_start { "*" } else { "" };
        let meant = nearest(&self.value, known.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
        let why = format!("unknown {name} `{shown}{rest}`, {meant}expected one of {}", known.join(", "));
        Some(QueryError::Word { word: format!("{name}:{shown}{rest}"), why: why.into() })
    }

    /// Why no entry can match: the field `policy` is the digest of a whole bundle of rules.
    fn unlike_digest(&self) -> Option<QueryError> {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let is_long = self.is_start || self.value.len() == 64;
        if is_long && self.value.len() <= 64 && self.value.bytes().all(is_hex) {
            return None;
        }
        let shown = text::visible_line(text::prefix(&self.value, limits::SHOWN_BYTES_MAX));
        let why = format!(
            "`policy` is the digest of all rules, 64 hexadecimal digits or its beginning with `*`; for what the \
             rule `{shown}` refused, search for \"forbidden by {shown}\""
        );
        let rest = if self.is_start { "*" } else { "" };
        Some(QueryError::Word { word: format!("policy:{shown}{rest}"), why: why.into() })
    }

    fn is(&self, value: &str) -> bool {
        if self.is_start { value.starts_with(&self.value) } else { value == self.value }
    }

    /// The value as it is written in a query. Quoted if it would otherwise be parsed as something
    /// else.
    fn write(&self, f: &mut fmt::Formatter<'_>, is_text: bool) -> fmt::Result {
        let is_plain = |c: char| !(c.is_whitespace() || "\"*".contains(c) || is_text && c == ':');
        let is_bare = self.value.chars().all(is_plain) && !(is_text && self.value.starts_with('-'));
        if is_bare {
            f.write_str(&self.value)?;
        } else {
            write!(f, "\"{}\"", self.value.replace('\\', "\\\\").replace('"', "\\\""))?;
        }
        f.write_str(if self.is_start { "*" } else { "" })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_negated { "-" } else { "" })?;
        let time = |us: i64| Timestamp::from_microsecond(us).map_err(|_| fmt::Error);
        match &self.ask {
            Criterion::Field { name, want } => {
                write!(f, "{name}:")?;
                want.write(f, false)
            }
            Criterion::Seq(first, last) if first == last => write!(f, "seq:{first}"),
            Criterion::Seq(first, SEQ_MAX) => write!(f, "seq:{first}-"),
            Criterion::Seq(first, last) => write!(f, "seq:{first}-{last}"),
            Criterion::Since(us) => write!(f, "since:{}", time(*us)?),
            Criterion::Until(us) => write!(f, "until:{}", time(*us)?),
            Criterion::Text { want, .. } => want.write(f, true),
        }
    }
}

fn seqs(value: &str) -> Result<Criterion, WordError> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|seq| *seq < SEQ_MAX);
    let ends = match value.split_once('-') {
        None => number(value).map(|seq| (seq, seq)),
        Some((first, "")) => number(first).map(|first| (first, SEQ_MAX)),
        Some((first, last)) => number(first).zip(number(last)),
    };
    let ends = ends.filter(|(first, last)| first <= last);
    let (first, last) = ends.ok_or("expected a number (`7`) or a range (`7-9`, `7-`)")?;
    Ok(Criterion::Seq(first, last))
}

/// A time, in microseconds since 1970.
fn moment(value: &str, now_us: i64) -> Result<i64, WordError> {
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let at = span(value).map(|us| now_us.saturating_sub(us)).or_else(|| {
        let day = || value.parse::<Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
        let is_day = value.len() == "2026-11-01".len();
        let at = if is_day { day()?.timestamp() } else { value.parse::<Timestamp>().ok()? };
        Some(at.as_microsecond())
    });
    // A time that cannot be formatted is not accepted.
    at.filter(|us| Timestamp::from_microsecond(*us).is_ok()).ok_or_else(|| {
        "expected a date (`2026-11-01`), a time (`2026-11-01T08:30:00Z`) or a span before now (`90s`, `30m`, \
         `24h`, `7d`, `2w`)"
            .into()
    })
}

/// Parses a number with a unit, in microseconds.
fn span(value: &str) -> Option<i64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds: i64 = match value.get(digits.len()..)? {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse::<i64>().ok().filter(|_| is_number)?.checked_mul(seconds)?.checked_mul(1_000_000)
}
