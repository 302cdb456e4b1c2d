//! The permit that was nearest to matching a call that no policy permits.
//!
//! For people only: a model that read it would learn what to ask for. It costs less than a second
//! evaluation. Scopes are compared as they are filed, and only one permit is evaluated part by
//! part.

use super::parts;
use crate::policy::load::bundle::Bundle;
use crate::policy::load::offer_index::PermitScope;
use crate::policy::request::build;
use crate::policy::request::cedar::Uid;
use crate::policy::request::lower;
use crate::policy::request::question::Question;
use crate::tools::{Catalog, Manifest};
use cedar_policy::{Effect, PolicyId};
use std::collections::HashSet;
use std::sync::Arc;

/// Permits that are compared with a call; the first by their ids.
const PERMITS_MAX: usize = 256;

/// A permit that does not match a call, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestPermit {
    /// Its id.
    pub policy: String,
    /// `file:line`.
    pub origin: Option<String>,
    /// What it is for, or what does not hold: continues "the nearest rule is X, which …".
    pub why: String,
}

impl Bundle {
    /// The tools of `catalog` that no permit covers, whoever calls them: every call is denied.
    #[must_use]
    pub fn unpermitted(&self, catalog: &Catalog) -> Vec<String> {
        let is_bare = |manifest: &&Arc<Manifest>| {
            let mut rules = self.offer_index.rules(&manifest.name).iter();
            !rules.any(|rule| rule.effect == Effect::Permit)
        };
        catalog.manifests().filter(is_bare).map(|manifest| manifest.name.clone()).collect()
    }

    /// The permit of the tool that has the fewest scopes which do not match `question`; the first
    /// by its id of several. `None` if the tool has no permit.
    #[must_use]
    pub fn nearest(&self, question: &Question<'_>) -> Option<NearestPermit> {
        let permits = self.offer_index.permits(&question.manifest.name);
        let input = lower::record(&question.manifest.input, question.arguments).ok()?;
        let built = build::build(question, &self.groups, &self.labels, input);
        let uids: HashSet<&Uid> = built.uids().collect();
        let is_in = |uid: &Option<Uid>| uid.as_ref().is_none_or(|uid| uids.contains(uid));
        let apart = |one: &&PermitScope| u8::from(!is_in(&one.principal)) + u8::from(!is_in(&one.resource));
        let nearest = permits.iter().take(PERMITS_MAX).min_by_key(apart)?;
        let why = match (&nearest.resource, &nearest.principal) {
            (Some(uid), _) if !uids.contains(uid) => format!("is for {}", named(uid)),
            (_, Some(uid)) if !uids.contains(uid) => format!("is for {}", named(uid)),
            _ => {
                let policy = self.set.policy(&PolicyId::new(&nearest.id))?;
                let (request, entities) = built.cedar(&self.schema, &self.actions).ok()?;
                let failing = parts::failing(policy, &request, &entities);
                let words: Vec<&str> = failing.iter().map(|part| part.words.as_str()).collect();
                format!("does not apply: {}", words.join(" and "))
            }
        };
        Some(NearestPermit { origin: self.origin(&nearest.id), policy: nearest.id.clone(), why })
    }
}

/// An entity of a scope, for people.
fn named(uid: &Uid) -> String {
    let Uid(kind, id) = uid;
    match *kind {
        "Role" => format!("the role `{id}`"),
        "Group" => format!("the group `{id}`"),
        "User" => format!("the user `{id}`"),
        "ApiKey" => format!("the key `{id}`"),
        _ => format!("`{id}`"),
    }
}
