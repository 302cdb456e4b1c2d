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
    /// The secret `value` called `name`. One that is shorter than [`limits::SECRET_BYTES_MIN`] occurs by chance, and is
    /// refused.
    pub fn new(name: &str, value: Zeroizing<Vec<u8>>) -> Result<Self, SecretRefused> {
        check_name(name)?;
        let (least, most) = (limits::SECRET_BYTES_MIN, limits::SECRET_BYTES_MAX);
        match value.len() {
            short if short < least => {
                Err(SecretRefused::new(name, format!("the value has less than {least} bytes")))
            }
            long if long > most => {
                Err(SecretRefused::new(name, format!("the value has more than {most} bytes")))
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
    /// The pattern `expression` called `name`. One that is too big, or that matches no text at all, is refused.
    pub fn new(name: &str, expression: &str) -> Result<Self, SecretRefused> {
        check_name(name)?;
        if expression.len() > limits::SECRET_PATTERN_BYTES_MAX {
            let most = limits::SECRET_PATTERN_BYTES_MAX;
            return Err(SecretRefused::new(name, format!("the pattern is over {most} bytes")));
        }
        let regex = compile(expression).map_err(|e| SecretRefused::new(name, e))?;
        // `\b` does not match the empty text, and yet nothing in others.
        let is_empty =
            ["", " a "].iter().any(|text| regex.find_iter(text.as_bytes()).any(|found| found.is_empty()));
        if is_empty {
            return Err(SecretRefused::new(name, "the pattern matches the empty text".to_owned()));
        }
        Ok(Self { name: name.to_owned(), regex, holds: |_| true, tail: None })
    }

    /// As [`Pattern::new`]; a match counts only where it `holds`, and `tail` is how the beginning of one ends a text.
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

fn compile(expression: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(expression);
    builder.size_limit(limits::SECRET_PATTERN_SIZE_MAX).build().map_err(|e| match e {
        regex::Error::CompiledTooBig(_) => "the pattern is too big".to_owned(),
        other => other.to_string().replace('\n', " "),
    })
}

/// Why a secret is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRefused {
    /// Its name.
    pub name: String,
    /// The reason, without the value.
    pub reason: String,
}

impl SecretRefused {
    pub(super) fn new(name: &str, reason: String) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

impl fmt::Display for SecretRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the secret `{}`: {}", self.name, self.reason)
    }
}

impl std::error::Error for SecretRefused {}

/// A name stands in every replacement: `[A-Za-z0-9._-]{1,64}`.
fn check_name(name: &str) -> Result<(), SecretRefused> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=limits::ID_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(SecretRefused::new(name, format!("a name has 1 to {} of `A-Z a-z 0-9 . _ -`", limits::ID_BYTES_MAX)))
}
