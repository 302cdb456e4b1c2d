//! How values are searched: the only module that implements [`Hold`].

use super::finder::Finder;
use super::found::SecretCounts;
use crate::call::{Connection, Connections, End, Execution};
use crate::types::Digest;
use sealed::Sealed;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

mod sealed {
    /// Seals [`Hold`](super::Hold) to the types of this module.
    pub trait Sealed {}
}

/// A value that can contain secrets and is searched as it is. Sealed: only this module implements
/// it.
pub trait Hold: Sealed + Sized {
    /// The value after each of its texts and bytes went through `pass`.
    #[must_use]
    fn passed(self, pass: &mut Pass<'_>) -> Self;
}

impl Sealed for String {}

impl Hold for String {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        pass.text(self)
    }
}

impl Sealed for Vec<u8> {}

impl Hold for Vec<u8> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        pass.bytes(self)
    }
}

/// Text or bytes that end too early, so that a secret at the end may be incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutShort<T>(
    /// The value.
    pub T,
);

impl Sealed for CutShort<String> {}

impl Hold for CutShort<String> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        let Self(text) = self;
        let bytes = pass.cut_bytes(text.into_bytes());
        Self(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }
}

impl Sealed for CutShort<Vec<u8>> {}

impl Hold for CutShort<Vec<u8>> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        Self(pass.cut_bytes(self.0))
    }
}

impl<T: Hold> Sealed for Option<T> {}

impl<T: Hold> Hold for Option<T> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        self.map(|held| held.passed(pass))
    }
}

impl Sealed for Value {}

impl Hold for Value {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        match pass.finder.replaced(self.to_string().as_bytes(), false, &mut pass.found) {
            None => self,
            Some(bytes) => {
                let told = || Self::from(String::from_utf8_lossy(&bytes));
                serde_json::from_slice(&bytes).unwrap_or_else(|_| told())
            }
        }
    }
}

impl Sealed for Map<String, Value> {}

impl Hold for Map<String, Value> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        match Value::Object(self).passed(pass) {
            Value::Object(members) => members,
            other => Self::from_iter([("value".to_owned(), other)]),
        }
    }
}

impl<T: Hold> Sealed for Vec<T> {}

impl<T: Hold> Hold for Vec<T> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        self.into_iter().map(|held| held.passed(pass)).collect()
    }
}

impl<A: Hold, B: Hold> Sealed for (A, B) {}

impl<A: Hold, B: Hold> Hold for (A, B) {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        (self.0.passed(pass), self.1.passed(pass))
    }
}

impl<A: Hold, B: Hold, C: Hold> Sealed for (A, B, C) {}

impl<A: Hold, B: Hold, C: Hold> Hold for (A, B, C) {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        (self.0.passed(pass), self.1.passed(pass), self.2.passed(pass))
    }
}

/// A function pointer captures nothing, so it contains no secret.
impl<A, B> Sealed for fn(A) -> B {}

impl<A, B> Hold for fn(A) -> B {
    fn passed(self, _: &mut Pass<'_>) -> Self {
        self
    }
}

impl Sealed for SecretCounts {}

/// Earlier replacements are counted too.
impl Hold for SecretCounts {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        pass.found.add_all(&self);
        Self::default()
    }
}

impl Sealed for u64 {}

impl Hold for u64 {
    fn passed(self, _: &mut Pass<'_>) -> Self {
        self
    }
}

impl Sealed for u16 {}

impl Hold for u16 {
    fn passed(self, _: &mut Pass<'_>) -> Self {
        self
    }
}

impl Sealed for Duration {}

impl Hold for Duration {
    fn passed(self, _: &mut Pass<'_>) -> Self {
        self
    }
}

impl Sealed for Digest {}

impl Hold for Digest {
    fn passed(self, _: &mut Pass<'_>) -> Self {
        self
    }
}

impl Sealed for Execution {}

impl Hold for Execution {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        let Self { end, stdout, stderr, layers, level, protections, connections, given, repeats, wall_us } =
            self;
        let told = |one: Connection| Connection { to: one.to.passed(pass), ..one };
        let connections =
            Connections { told: connections.told.into_iter().map(told).collect(), ..connections };
        // Whatever ended the program early may have split a secret; a builtin reports truncation
        // itself.
        let is_cut = !matches!(end, End::Exit { .. }) || says_cut(&stdout);
        let mut output = |bytes| if is_cut { pass.cut_bytes(bytes) } else { pass.bytes(bytes) };
        let (stdout, stderr) = (output(stdout), output(stderr));
        Self {
            end: end.passed(pass),
            stdout,
            stderr,
            layers,
            level,
            protections,
            connections,
            given,
            repeats,
            wall_us,
        }
    }
}

impl Sealed for End {}

impl Hold for End {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        match self {
            Self::Refused { reason } => Self::Refused { reason: reason.passed(pass) },
            plain => plain,
        }
    }
}

fn says_cut(stdout: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Says {
        truncated: bool,
    }
    serde_json::from_slice(stdout).is_ok_and(|says: Says| says.truncated)
}

/// One pass over a value.
#[derive(Debug)]
pub struct Pass<'a> {
    finder: &'a Finder,
    found: SecretCounts,
}

impl<'a> Pass<'a> {
    pub(super) fn new(finder: &'a Finder) -> Self {
        Self { finder, found: SecretCounts::default() }
    }

    /// The secrets that were replaced.
    pub(super) fn into_found(self) -> SecretCounts {
        self.found
    }

    /// Replaces the secrets in a text.
    fn text(&mut self, text: String) -> String {
        match self.finder.replaced(text.as_bytes(), false, &mut self.found) {
            None => text,
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Replaces the secrets in bytes.
    fn bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.finder.replaced(&bytes, false, &mut self.found).unwrap_or(bytes)
    }

    /// The same for truncated bytes: an end that may be the beginning of a secret is replaced too.
    fn cut_bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.finder.replaced(&bytes, true, &mut self.found).unwrap_or(bytes)
    }
}
