//! What carries which label. `policies/entities.toml` says so; [`Labels::parse`] reads it.

use super::cedar::Uid;
use crate::types::Digest;
use std::collections::{BTreeMap, BTreeSet};

/// Labels of paths, projects, services, hosts and jobs. None, unless a file says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    digest: Option<Digest>,
    of: BTreeMap<Uid, Carried>,
}

/// What an entity carries, and the line that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::policy) struct Carried {
    pub(in crate::policy) labels: BTreeSet<String>,
    pub(in crate::policy) origin: String,
}

/// A label, and where it is given: `secret`, `policies/entities.toml:4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labelled {
    /// The label, or the path that carries one.
    pub name: String,
    /// `file:line`.
    pub origin: String,
}

impl Labels {
    /// What a file with this digest says.
    pub(in crate::policy) fn new(digest: Digest, of: BTreeMap<Uid, Carried>) -> Self {
        Self { digest: Some(digest), of }
    }

    /// Labels of which only the file's digest is known, for requests that have them already.
    pub(in crate::policy) fn known_by(digest: Option<Digest>) -> Self {
        Self { digest, of: BTreeMap::new() }
    }

    /// SHA-256 of the file's text, for the bundle's digest; none without a file.
    pub(in crate::policy) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The labelled paths, absolute ones, for prepare to compare with the object.
    pub fn paths(&self) -> impl Iterator<Item = Labelled> {
        let paths = self.of.iter().filter(|(uid, _)| uid.0 == "Path" && uid.1.starts_with('/'));
        paths.map(|(uid, carried)| Labelled { name: uid.1.clone(), origin: carried.origin.clone() })
    }

    /// Every label, with the first line that gives it.
    pub fn given(&self) -> impl Iterator<Item = Labelled> {
        let mut first: BTreeMap<&String, &String> = BTreeMap::new();
        for carried in self.of.values() {
            for label in &carried.labels {
                first.entry(label).or_insert(&carried.origin);
            }
        }
        first.into_iter().map(|(name, origin)| Labelled { name: name.clone(), origin: origin.clone() })
    }

    /// What the entity itself carries.
    pub(in crate::policy) fn get(&self, kind: &'static str, id: &str) -> impl Iterator<Item = &str> {
        // Nothing is looked up where nothing is labelled, which is most of the time.
        let carried = if self.of.is_empty() { None } else { self.of.get(&Uid(kind, id.to_owned())) };
        carried.into_iter().flat_map(|carried| carried.labels.iter().map(String::as_str))
    }
}
