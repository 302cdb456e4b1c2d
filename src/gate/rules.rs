//! The rules in force, and their exchange while calls are under way.
//!
//! A call is decided under one set of rules from its first step to its decision. If the rules are
//! exchanged in between, the decision is a deny that says so: once a `policy.load` is durable, no
//! decision uses earlier rules.

use super::stops::{StopInForce, Stops};
use crate::ledger::payload::{NameChanges, RulesDifference};
use crate::policy::Bundle;
use crate::tools::Catalog;
use crate::types::Stoppable;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The reason of a deny if the rules changed while the call was under way.
pub(super) const STALE: &str = "the rules changed while this call was decided";

/// Tools and policies that were loaded together.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The tools.
    pub catalog: Arc<Catalog>,
    /// The policies over them.
    pub bundle: Arc<Bundle>,
}

/// The rules in force. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    now: Arc<RwLock<Rules>>,
    /// Read-locked while decisions and answers are made durable, write-locked while the rules are
    /// exchanged.
    pub(super) turn: Arc<tokio::sync::RwLock<()>>,
    /// The current generation of permits.
    generation: Arc<AtomicU64>,
    pub(super) stops: Stops,
}

/// The generation that a permit belongs to. Each exchange of the rules starts another one.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    own: u64,
    current: Arc<AtomicU64>,
    stops: Stops,
}

/// Why what was permitted may not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lapse {
    /// It came to begin too late.
    #[error("the permit had expired")]
    Expired,
    /// The rules were exchanged after the decision.
    #[error("the rules changed before the call began")]
    Overtaken,
    /// A person stopped it after the decision.
    #[error("{0}")]
    Stopped(Box<StopInForce>),
}

impl Generation {
    /// A generation that stays current, for tests.
    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        Self { own: 0, current: Arc::default(), stops: Stops::none() }
    }

    /// What has happened since that keeps `what` from beginning, if anything.
    pub(super) fn lapse(&self, what: &Stoppable<'_>) -> Option<Lapse> {
        if self.current.load(Ordering::SeqCst) != self.own {
            return Some(Lapse::Overtaken);
        }
        self.stops.find(what).map(|stop| Lapse::Stopped(Box::new(stop)))
    }
}

impl InForce {
    pub(super) fn new(rules: Rules, stops: Stops) -> Self {
        let now = Arc::new(RwLock::new(rules));
        Self { now, turn: Arc::default(), generation: Arc::default(), stops }
    }

    /// The current generation.
    pub(super) fn generation(&self) -> Generation {
        let (current, stops) = (self.generation.clone(), self.stops.clone());
        Generation { own: current.load(Ordering::SeqCst), current, stops }
    }

    pub(super) fn now(&self) -> Rules {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts `rules` in force. Calls that were permitted under earlier ones may not begin any more.
    pub(super) fn set(&self, rules: Rules) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = rules;
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl Rules {
    /// What differs in `next`: names of policies, tools and runbooks that were added, removed or
    /// changed, and whether groups and labels changed.
    #[must_use]
    pub fn difference(&self, next: &Self) -> RulesDifference {
        let policies = |rules: &Self| {
            rules.bundle.policies().map(|(id, _)| (id.to_owned(), rules.bundle.text(id))).collect()
        };
        let tools = |rules: &Self| {
            rules.catalog.manifests().map(|m| (m.name.clone(), Some(m.digest.hex()))).collect()
        };
        let runbooks = |rules: &Self| {
            rules.bundle.runbooks().iter().map(|book| (book.name.clone(), Some(book.sha256.hex()))).collect()
        };
        let runbooks = changes(&runbooks(self), &runbooks(next));
        RulesDifference {
            policies: changes(&policies(self), &policies(next)),
            tools: changes(&tools(self), &tools(next)),
            groups: self.bundle.groups() != next.bundle.groups(),
            labels: self.bundle.labels() != next.bundle.labels(),
            runbooks: Some(runbooks).filter(|changes| *changes != NameChanges::default()),
        }
    }

    /// Each tool's name with its manifest's digest, sorted.
    pub fn tools(&self) -> impl Iterator<Item = (&str, String)> {
        self.catalog.manifests().map(|manifest| (manifest.name.as_str(), manifest.digest.hex()))
    }
}

type Texts = BTreeMap<String, Option<String>>;

fn changes(old: &Texts, new: &Texts) -> NameChanges {
    let missing_from = |from: &Texts, those: &Texts| {
        those.keys().filter(|name| !from.contains_key(*name)).cloned().collect::<Vec<_>>()
    };
    let changed = new.iter().filter(|(name, text)| old.get(*name).is_some_and(|old| old != *text));
    NameChanges {
        added: missing_from(old, new),
        removed: missing_from(new, old),
        changed: changed.map(|(name, _)| name.clone()).collect(),
    }
}
