//! The secrets that are searched for: values by name, and patterns.

use crate::types::limits;
use regex::bytes::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A value that is replaced wherever it occurs. `Debug` hides it; its memory is overwritten on
/// drop.
#[derive(Clone)]
pub struct Named {
    pub(super) name: String,
    pub(super) value: Zeroizing<Vec<u8>>,
}

impl Named {
    /// The secret `value` called `name`. A value shorter than [`limits::SECRET_BYTES_MIN`] would
    /// match by chance, and is refused.
    pub fn new(name: &str, value: Zeroizing<Vec<u8>>) -> Result<Self, SecretRefused> {
        check_name(name)?;
        match value.len() {
            short if short < limits::SECRET_BYTES_MIN => {
                Err(SecretRefused::new(name, SecretError::ValueTooShort))
            }
            long if long > limits::SECRET_BYTES_MAX => {
                Err(SecretRefused::new(name, SecretError::ValueTooLong))
            }
            _ => Ok(Self { name: name.to_owned(), value }),
        }
    }

    /// The value, and each long line of a value with several lines, because tools output files by
    /// lines. Lines such as `-----BEGIN …-----` are not secret.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let is_part = |line: &&[u8]| line.len() >= LINE_BYTES_MIN && !line.starts_with(b"-----");
        std::iter::once(self.value.as_slice()).chain(lines.filter(is_part))
    }
}

/// Shortest line of such a value that is searched for separately, in bytes.
const LINE_BYTES_MIN: usize = 16;

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Named({})", self.name)
    }
}

/// A regular expression whose matches are replaced.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub(super) name: String,
    pub(super) regex: Regex,
    /// A further condition on a match.
    pub(super) holds: fn(&[u8]) -> bool,
    /// Matches the beginning of a match at the end of truncated text.
    pub(super) tail: Option<Regex>,
    /// Says where a match may have begun in text that is not complete.
    pub(super) begins: Begins,
}

/// Runs a pattern over text that is not complete.
#[derive(Clone)]
pub(super) struct Begins(Arc<DFA>);

impl Begins {
    fn new(expression: &str) -> Result<Self, SecretError> {
        let config = DFA::config().unicode_word_boundary(true).skip_cache_capacity_check(true);
        let nfa = thompson::Config::new().utf8(false).nfa_size_limit(Some(limits::SECRET_PATTERN_SIZE_MAX));
        let syntax = syntax::Config::new().utf8(false);
        let built = DFA::builder().configure(config).thompson(nfa).syntax(syntax).build(expression);
        built.map(|dfa| Self(Arc::new(dfa))).map_err(|e| SecretError::PatternBegins(Box::new(e)))
    }

    pub(super) fn create_cache(&self) -> Cache {
        self.0.create_cache()
    }

    /// Whether a match may begin at the start of `range` and go on beyond its end. In doubt it may.
    pub(super) fn may_match(&self, cache: &mut Cache, text: &[u8], range: Range<usize>) -> bool {
        let input = Input::new(text).range(range.clone()).anchored(Anchored::Yes);
        let Ok(mut state) = self.0.start_state_forward(cache, &input) else { return true };
        for byte in text.get(range).unwrap_or_default() {
            if state.is_tagged() && (state.is_dead() || state.is_quit()) {
                return state.is_quit();
            }
            match self.0.next_state(cache, state, *byte) {
                Ok(next) => state = next,
                Err(_) => return true,
            }
        }
        !state.is_dead()
    }
}

impl fmt::Debug for Begins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begins")
    }
}

impl Pattern {
    /// The pattern `expression` called `name`. A pattern that is too big, or that matches the empty
    /// text, is refused.
    pub fn new(name: &str, expression: &str) -> Result<Self, SecretRefused> {
        check_name(name)?;
        if expression.len() > limits::SECRET_PATTERN_BYTES_MAX {
            return Err(SecretRefused::new(name, SecretError::PatternTooLong));
        }
        let regex = compile(expression).map_err(|e| SecretRefused::new(name, e))?;
        // `\b` does not match the empty text, but matches nothing but empty text in others.
        let is_empty =
            ["", " a "].iter().any(|text| regex.find_iter(text.as_bytes()).any(|found| found.is_empty()));
        if is_empty {
            return Err(SecretRefused::new(name, SecretError::PatternEmpty));
        }
        let begins = Begins::new(expression).map_err(|e| SecretRefused::new(name, e))?;
        Ok(Self { name: name.to_owned(), regex, holds: |_| true, tail: None, begins })
    }

    /// Both ends of the first match in `text` from `from` on.
    pub(super) fn find(&self, text: &[u8], mut from: usize) -> Option<(usize, usize)> {
        while from <= text.len() {
            let hit = self.regex.find_at(text, from)?;
            if !hit.is_empty() && (self.holds)(hit.as_bytes()) {
                return Some((hit.start(), hit.end()));
            }
            from = hit.start() + 1;
        }
        None
    }

    /// Like [`Pattern::new`]; a match counts only if `holds` accepts it, and `tail` matches the
    /// beginning of one at the end of a text.
    pub fn checked(
        name: &str,
        expression: &str,
        holds: fn(&[u8]) -> bool,
        tail: &str,
    ) -> Result<Self, SecretRefused> {
        let tail = compile(&format!("(?:{tail})\\z")).map_err(|e| SecretRefused::new(name, e))?;
        Ok(Self { holds, tail: Some(tail), ..Self::new(name, expression)? })
    }
}

fn compile(expression: &str) -> Result<Regex, SecretError> {
    let mut builder = RegexBuilder::new(expression);
    builder.size_limit(limits::SECRET_PATTERN_SIZE_MAX).build().map_err(|e| match e {
        regex::Error::CompiledTooBig(_) => SecretError::PatternTooBig,
        other => SecretError::Pattern(other),
    })
}

/// Why a secret was refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the secret `{name}`: {reason}")]
pub struct SecretRefused {
    /// The name of the secret.
    pub name: String,
    /// The reason, without the value.
    #[source]
    pub reason: SecretError,
}

/// What is wrong with a secret, or with all of them. No message contains a value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SecretError {
    /// The name contains other characters, or too many.
    #[error("invalid name, expected 1 to {} of `A-Z a-z 0-9 . _ -`", limits::ID_BYTES_MAX)]
    Name,
    /// The value is so short that it would match by chance.
    #[error("the value is shorter than {} bytes", limits::SECRET_BYTES_MIN)]
    ValueTooShort,
    /// The value is longer than its limit.
    #[error("the value is longer than {} bytes", limits::SECRET_BYTES_MAX)]
    ValueTooLong,
    /// Replacing the value would never terminate.
    #[error("the value is part of a replacement")]
    ValueInReplacement,
    /// The pattern's text is longer than its limit.
    #[error("the pattern is longer than {} bytes", limits::SECRET_PATTERN_BYTES_MAX)]
    PatternTooLong,
    /// The compiled pattern needs more memory than allowed.
    #[error("the pattern is too big")]
    PatternTooBig,
    /// The pattern is not a valid regular expression; the message is on one line.
    #[error("{}", .0.to_string().replace('\n', " "))]
    Pattern(#[source] regex::Error),
    /// No automaton can be built from the pattern.
    #[error(transparent)]
    PatternBegins(Box<regex_automata::hybrid::BuildError>),
    /// The pattern matches the empty text.
    #[error("the pattern matches the empty text")]
    PatternEmpty,
    /// More patterns than allowed.
    #[error("too many patterns, expected at most {}", limits::SECRETS_MAX)]
    TooManyPatterns,
    /// More values than allowed, or more bytes in all of them.
    #[error(
        "too many values, expected at most {} of {} bytes in all",
        limits::SECRETS_MAX,
        limits::SECRETS_BYTES_MAX
    )]
    TooManyValues,
    /// No automaton can be built from the values.
    #[error(transparent)]
    Values(aho_corasick::BuildError),
    /// No expression can be built from the names.
    #[error(transparent)]
    Names(regex::Error),
}

impl SecretRefused {
    pub(super) fn new(name: &str, reason: SecretError) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

/// A name is part of every replacement: `[A-Za-z0-9._-]{1,64}`.
fn check_name(name: &str) -> Result<(), SecretRefused> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=limits::ID_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(SecretRefused::new(name, SecretError::Name))
}
