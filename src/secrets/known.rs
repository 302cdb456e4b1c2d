//! What is looked for: values by name, and patterns.

use crate::types::limits;
use regex::bytes::{Regex, RegexBuilder};
use std::fmt;
use zeroize::Zeroizing;

/// A value that is replaced wherever it stands. Not shown, overwritten in memory when dropped.
#[derive(Clone)]
pub struct Named {
    pub(super) name: String,
    pub(super) value: Zeroizing<Vec<u8>>,
}

impl Named {
    /// The secret `value` called `name`. One that is shorter than [`limits::SECRET_BYTES_MIN`] occurs by
    /// chance, and is refused.
    pub fn new(name: &str, value: Zeroizing<Vec<u8>>) -> Result<Self, SecretRefused> {
        check_name(name)?;
        match value.len() {
            short if short < limits::SECRET_BYTES_MIN => {
                Err(SecretRefused::new(name, SecretFault::ValueTooShort))
            }
            long if long > limits::SECRET_BYTES_MAX => {
                Err(SecretRefused::new(name, SecretFault::ValueTooLong))
            }
            _ => Ok(Self { name: name.to_owned(), value }),
        }
    }

    /// The value, and of one with several lines each long line too: tools tell files by lines. Lines such as
    /// `-----BEGIN …-----` are no secret.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let is_part = |line: &&[u8]| line.len() >= LINE_BYTES_MIN && !line.starts_with(b"-----");
        std::iter::once(self.value.as_slice()).chain(lines.filter(is_part))
    }
}

/// Shorter lines of a value with several are not looked for alone, in bytes.
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
    /// What a match must also be.
    pub(super) holds: fn(&[u8]) -> bool,
    /// The beginning of a match, at the end of something that was cut.
    pub(super) tail: Option<Regex>,
}

impl Pattern {
    /// The pattern `expression` called `name`. One that is too big, or that matches no text at all, is
    /// refused.
    pub fn new(name: &str, expression: &str) -> Result<Self, SecretRefused> {
        check_name(name)?;
        if expression.len() > limits::SECRET_PATTERN_BYTES_MAX {
            return Err(SecretRefused::new(name, SecretFault::PatternTooLong));
        }
        let regex = compile(expression).map_err(|e| SecretRefused::new(name, e))?;
        // `\b` does not match the empty text, and yet nothing in others.
        let is_empty =
            ["", " a "].iter().any(|text| regex.find_iter(text.as_bytes()).any(|found| found.is_empty()));
        if is_empty {
            return Err(SecretRefused::new(name, SecretFault::PatternEmpty));
        }
        Ok(Self { name: name.to_owned(), regex, holds: |_| true, tail: None })
    }

    /// As [`Pattern::new`]; a match counts only where it `holds`, and `tail` is how the beginning of one ends
    /// a text.
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

fn compile(expression: &str) -> Result<Regex, SecretFault> {
    let mut builder = RegexBuilder::new(expression);
    builder.size_limit(limits::SECRET_PATTERN_SIZE_MAX).build().map_err(|e| match e {
        regex::Error::CompiledTooBig(_) => SecretFault::PatternTooBig,
        other => SecretFault::Pattern(other),
    })
}

/// Why a secret is not taken.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the secret `{name}`: {reason}")]
pub struct SecretRefused {
    /// Its name.
    pub name: String,
    /// The reason, without the value.
    #[source]
    pub reason: SecretFault,
}

/// What is wrong with a secret, or with all of them. No text holds a value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SecretFault {
    /// A name has other characters, or too many.
    #[error("a name has 1 to {} of `A-Z a-z 0-9 . _ -`", limits::ID_BYTES_MAX)]
    Name,
    /// The value occurs by chance.
    #[error("the value has less than {} bytes", limits::SECRET_BYTES_MIN)]
    ValueTooShort,
    /// The value is over its bound.
    #[error("the value has more than {} bytes", limits::SECRET_BYTES_MAX)]
    ValueTooLong,
    /// Replacing the value would never come to an end.
    #[error("the value is part of a replacement")]
    ValueInReplacement,
    /// The pattern's text is over its bound.
    #[error("the pattern is over {} bytes", limits::SECRET_PATTERN_BYTES_MAX)]
    PatternTooLong,
    /// The pattern needs more memory than it may.
    #[error("the pattern is too big")]
    PatternTooBig,
    /// The pattern is no regular expression; on one line.
    #[error("{}", .0.to_string().replace('\n', " "))]
    Pattern(#[source] regex::Error),
    /// The pattern matches where nothing is.
    #[error("the pattern matches the empty text")]
    PatternEmpty,
    /// More patterns than may be.
    #[error("there are too many patterns")]
    TooManyPatterns,
    /// More values than may be, or longer ones together.
    #[error("there are too many or too long ones")]
    TooManyValues,
    /// No automaton can be built of all values.
    #[error(transparent)]
    Values(aho_corasick::BuildError),
    /// No expression can be built of all names.
    #[error(transparent)]
    Names(regex::Error),
}

impl SecretRefused {
    pub(super) fn new(name: &str, reason: SecretFault) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

/// A name stands in every replacement: `[A-Za-z0-9._-]{1,64}`.
fn check_name(name: &str) -> Result<(), SecretRefused> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=limits::ID_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(SecretRefused::new(name, SecretFault::Name))
}
