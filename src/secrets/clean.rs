//! What may hold secrets, and what was looked through for them: the only maker of a [`Clean`].

use super::finder::Finder;
use super::found::SecretCounts;
use super::sealed::Sealed;
use serde_json::{Map, Value};
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
    let mut pass = Pass { finder, found: SecretCounts::default() };
    let kept = held.passed(&mut pass);
    Clean { kept, found: pass.found }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.now().names().count())
    }
}

/// What may hold secrets. An implementation takes itself apart whole, so that no new part is forgotten.
pub trait Hold: Sealed + Sized {
    /// Itself, each text and each byte of it passed.
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

/// One value on its way through.
#[derive(Debug)]
pub struct Pass<'a> {
    finder: &'a Finder,
    found: SecretCounts,
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
    pub fn count(&mut self, before: &SecretCounts) {
        self.found.add_all(before);
    }
}

/// A value that was looked through: no known secret stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clean<T> {
    kept: T,
    found: SecretCounts,
}

impl<T> Clean<T> {
    /// What was replaced in it.
    #[must_use]
    pub fn found(&self) -> &SecretCounts {
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
