//! Values whose secrets were replaced. Only this file makes a [`Clean`].

use super::finder::Finder;
use super::found::SecretCounts;
use super::hold::{Hold, Pass};
use super::passing::Passing;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

/// The secrets known at present. Clones share them; a reload replaces them for every clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Arc<Finder>>>);

impl Secrets {
    /// Starts with the secrets that `finder` knows.
    #[must_use]
    pub fn new(finder: Finder) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(finder))))
    }

    /// From here on uses `finder`.
    pub fn exchange(&self, finder: Finder) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(finder);
    }

    /// The finder in use.
    #[must_use]
    pub fn now(&self) -> Arc<Finder> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `held`, with every secret in it replaced.
    pub fn clean<T: Parted>(&self, held: T) -> Clean<T> {
        clean_by(&self.now(), held)
    }

    /// Begins a text that is shown while it comes.
    #[must_use]
    pub fn stream(&self) -> CleanStream {
        CleanStream { secrets: self.clone(), passing: Passing::new(self.now()) }
    }

    /// Like [`clean`](Self::clean), for a value that was produced under the finder `began`, which
    /// may have been replaced since: the result contains neither the secrets known then nor those
    /// known now.
    pub fn clean_since<T: Parted>(&self, began: &Arc<Finder>, held: T) -> Clean<T> {
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

fn clean_by<T: Parted>(finder: &Finder, held: T) -> Clean<T> {
    let mut pass = Pass::new(finder);
    let (parts, whole) = held.apart();
    let kept = whole(parts.passed(&mut pass));
    Clean { kept, found: pass.into_found() }
}

/// A text that is shown while it comes. A possible beginning of a secret is held back until the
/// text after it shows that it is something else.
///
/// The pieces make up the text as [`Secrets::clean`] returns it, or a beginning of that: after a
/// reload of the secrets, and where a secret might be hidden, the rest is not shown. Where matches
/// of two patterns overlap, another one of them may be replaced.
#[derive(Debug)]
pub struct CleanStream {
    secrets: Secrets,
    passing: Passing,
}

impl CleanStream {
    /// Takes the next piece. Returns what may be shown, which may be empty.
    pub fn push(&mut self, more: &str) -> Clean<String> {
        self.pass(more, false)
    }

    /// Takes the end of a text that is complete. Returns what was held back.
    #[must_use]
    pub fn finish(mut self) -> Clean<String> {
        self.pass("", true)
    }

    fn pass(&mut self, more: &str, is_last: bool) -> Clean<String> {
        if !Arc::ptr_eq(&self.secrets.now(), self.passing.finder()) {
            self.passing.stop();
        }
        let mut found = SecretCounts::default();
        let kept = self.passing.push(more, is_last, &mut found);
        Clean { kept, found }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.now().names().count())
    }
}

/// A value that is taken apart to be searched, such as a model's reply. Any room may implement it
/// for its own types, and no implementation can hold a part back: the function that reassembles the
/// value captures nothing.
pub trait Parted: Sized {
    /// Everything that the value contains.
    type Parts: Hold;

    /// The parts, and the function that makes the value from them again.
    fn apart(self) -> (Self::Parts, PutTogether<Self>);
}

/// The function that makes a value from its parts again.
pub type PutTogether<T> = fn(<T as Parted>::Parts) -> T;

impl<T: Hold> Parted for T {
    type Parts = Self;

    fn apart(self) -> (Self, fn(Self) -> Self) {
        (self, |whole| whole)
    }
}

/// A value that was searched: it contains no known secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clean<T> {
    kept: T,
    found: SecretCounts,
}

impl<T> Clean<T> {
    /// The secrets replaced in it.
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
