//! Named secrets: what is replaced before anything else sees it.
//!
//! What comes from outside (a message, a model's answer, a tool's output, a log line) passes [`Secrets::clean`] once,
//! at the door that it comes in by. Model, caller, page and ledger get the same replaced bytes, in which
//! `[secret:NAME:9f3c2a1b]` stands for the value: its name, and four bytes of an HMAC under a key of the home.
//!
//! Architecture invariant: a [`Clean`] value is made here and nowhere else, so that what demands one cannot be
//! given what was not looked through:
//! ```compile_fail,E0451
//! fn forge(clean: par::secrets::Clean<String>) -> par::secrets::Clean<String> {
//!     par::secrets::Clean { ..clean }
//! }
//! ```
//! nor can another crate say of a type of its own how it is looked through:
//! ```compile_fail,E0277
//! struct Mine(String);
//! impl par::secrets::Hold for Mine {
//!     fn passed(self, _: &mut par::secrets::Pass<'_>) -> Self {
//!         self
//!     }
//! }
//! ```

mod execution;
mod finder;
mod forms;
mod known;
#[cfg(test)]
mod tests;

pub use finder::Finder;
pub use known::{Named, Pattern, Refused};

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

/// The secrets that are known now. Clones share them; a reload exchanges them for all.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Arc<Finder>>>);

impl Secrets {
    /// Knows what `finder` knows.
    #[must_use]
    pub fn new(finder: Finder) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(finder))))
    }

    /// From here on knows what `finder` knows.
    pub fn exchange(&self, finder: Finder) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(finder);
    }

    /// What is known now.
    #[must_use]
    pub fn now(&self) -> Arc<Finder> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `held` with every secret in it replaced.
    pub fn clean<T: Hold>(&self, held: T) -> Clean<T> {
        clean_by(&self.now(), held)
    }

    /// The same where it was made under what `began` knows, which may have been exchanged since: neither what was
    /// known then nor what is now stands in it.
    pub fn clean_since<T: Hold>(&self, began: &Arc<Finder>, held: T) -> Clean<T> {
        let now = self.now();
        if Arc::ptr_eq(&now, began) {
            return clean_by(&now, held);
        }
        let Clean { kept, found: before } = clean_by(began, held);
        let mut clean = clean_by(&now, kept);
        clean.found.add_all(&before);
        clean
    }
}

fn clean_by<T: Hold>(finder: &Finder, held: T) -> Clean<T> {
    let mut pass = Pass { finder, found: Found::default() };
    let kept = held.passed(&mut pass);
    Clean { kept, found: pass.found }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.now().names().count())
    }
}

/// Keeps [`Hold`] to this crate: no other can name it.
pub(crate) mod sealed {
    /// A type of this crate, or one whose `Hold` stands here.
    pub trait Sealed {}
}

/// What may hold secrets. An implementation takes itself apart whole, so that no new part is forgotten.
pub trait Hold: sealed::Sealed + Sized {
    /// Itself, each text and each byte of it passed.
    #[must_use]
    fn passed(self, pass: &mut Pass<'_>) -> Self;
}

impl sealed::Sealed for String {}

impl Hold for String {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        pass.text(self)
    }
}

impl sealed::Sealed for Vec<u8> {}

impl Hold for Vec<u8> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        pass.bytes(self)
    }
}

impl<T: Hold> sealed::Sealed for Option<T> {}

impl<T: Hold> Hold for Option<T> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        self.map(|held| held.passed(pass))
    }
}

impl sealed::Sealed for Value {}

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

impl sealed::Sealed for Map<String, Value> {}

impl Hold for Map<String, Value> {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        match Value::Object(self).passed(pass) {
            Value::Object(members) => members,
            other => Self::from_iter([("value".to_owned(), other)]),
        }
    }
}

/// One value on its way through.
#[derive(Debug)]
pub struct Pass<'a> {
    finder: &'a Finder,
    found: Found,
}

impl Pass<'_> {
    /// A text without secrets.
    #[must_use]
    pub fn text(&mut self, text: String) -> String {
        match self.finder.replaced(text.as_bytes(), false, &mut self.found) {
            None => text,
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Bytes without secrets.
    #[must_use]
    pub fn bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.finder.replaced(&bytes, false, &mut self.found).unwrap_or(bytes)
    }

    /// The same of bytes that were cut somewhere: what could be the beginning of a secret at an end goes too.
    #[must_use]
    pub fn cut_bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.finder.replaced(&bytes, true, &mut self.found).unwrap_or(bytes)
    }

    /// Counts what was replaced before.
    pub fn count(&mut self, before: &Found) {
        self.found.add_all(before);
    }
}

/// How often which secret was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found(BTreeMap<String, u64>);

impl Found {
    fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    fn add_all(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            *self.0.entry(name.clone()).or_default() += count;
        }
    }

    /// Whether nothing was replaced.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The counts, for an entry's payload; `None` where nothing was replaced.
    #[must_use]
    pub fn counts(&self) -> Option<BTreeMap<String, u64>> {
        (!self.is_none()).then(|| self.0.clone())
    }

    /// Puts the counts into an entry's payload, as `secrets`; nothing where there are none.
    pub fn put(&self, payload: &mut Map<String, Value>) {
        if !self.is_none() {
            payload.insert("secrets".to_owned(), json!(self.0));
        }
    }
}

/// A value that was looked through: no known secret stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clean<T> {
    kept: T,
    found: Found,
}

impl<T> Clean<T> {
    /// What was replaced in it.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The value alone.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.kept
    }
}

impl<T> Deref for Clean<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.kept
    }
}
