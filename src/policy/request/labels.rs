//! Which entity carries which label. `policies/entities.toml` assigns them; [`Labels::parse`] reads
//! it.

use super::cedar::Uid;
use crate::types::Digest;
use std::collections::{BTreeMap, BTreeSet};

/// Labels of paths, projects, services, hosts and jobs. Empty without a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    digest: Option<Digest>,
    of: BTreeMap<Uid, Carried>,
}

/// The labels of an entity, and the line that assigns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::policy) struct Carried {
    pub(in crate::policy) labels: BTreeSet<String>,
    pub(in crate::policy) origin: String,
}

/// A label with the place that assigns it: `secret`, `policies/entities.toml:4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GivenLabel {
    /// The label, or the path that carries one.
    pub name: String,
    /// `file:line`.
    pub origin: String,
}

impl Labels {
    /// The labels from a file with this digest.
    pub(in crate::policy) fn new(digest: Digest, of: BTreeMap<Uid, Carried>) -> Self {
        Self { digest: Some(digest), of }
    }

    /// Labels whose file is known only by its digest, for recorded requests, which contain their
    /// labels.
    pub(in crate::policy) fn known_by(digest: Option<Digest>) -> Self {
        Self { digest, of: BTreeMap::new() }
    }

    /// SHA-256 of the file's text, for the bundle's digest; `None` without a file.
    pub(in crate::policy) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The labelled paths that are absolute, which prepare compares with the object.
    pub fn paths(&self) -> impl Iterator<Item = GivenLabel> {
        let paths = self.of.iter().filter(|(uid, _)| uid.0 == "Path" && uid.1.starts_with('/'));
        paths.map(|(uid, carried)| GivenLabel { name: uid.1.clone(), origin: carried.origin.clone() })
    }

    /// The labelled units.
    pub(in crate::policy) fn units(&self) -> impl Iterator<Item = String> {
        self.of.keys().filter(|uid| uid.0 == "Service").map(|uid| uid.1.clone())
    }

    /// Every label, with the first line that assigns it.
    pub fn given(&self) -> impl Iterator<Item = GivenLabel> {
        let mut first: BTreeMap<&String, &String> = BTreeMap::new();
        for carried in self.of.values() {
            for label in &carried.labels {
                first.entry(label).or_insert(&carried.origin);
            }
        }
        first.into_iter().map(|(name, origin)| GivenLabel { name: name.clone(), origin: origin.clone() })
    }

    /// The labels of the entity itself.
    pub(in crate::policy) fn get(&self, kind: &'static str, id: &str) -> impl Iterator<Item = &str> {
        // Skips the look-up if there are no labels, which is the usual case.
        let carried = if self.of.is_empty() { None } else { self.of.get(&Uid(kind, id.to_owned())) };
        carried.into_iter().flat_map(|carried| carried.labels.iter().map(String::as_str))
    }
}
