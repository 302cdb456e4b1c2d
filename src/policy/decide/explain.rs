//! Which policies were considered for a decision, and which of their parts did not hold.

use super::parts::{self, FailingPart};
use crate::policy::load::bundle::Bundle;
use crate::policy::load::scope::fits_action;
use crate::policy::request::build;
use crate::policy::request::error::RequestError;
use crate::policy::request::groups::Groups;
use crate::policy::request::lower;
use crate::policy::request::question::Question;
use crate::tools::{Class, Manifest};
use cedar_policy::{Authorizer, Effect, Entities, Policy, PolicySet, Request};

/// A policy that was considered, for `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Its id.
    pub policy: String,
    /// Whether it permits.
    pub permits: bool,
    /// Whether it matched.
    pub matched: bool,
    /// The first scope or condition that did not hold, as the policy writes it.
    pub failed: Option<String>,
    /// `file:line` of that part.
    pub failed_at: Option<String>,
    /// Every part that did not hold, in the order of the text.
    pub failing: Vec<FailingPart>,
    /// Why it could not be evaluated. Such an error denies the call.
    pub error: Option<String>,
    /// `file:line`.
    pub origin: Option<String>,
}

impl Considered {
    /// The parts that did not hold, in one line.
    #[must_use]
    pub fn failing_line(&self) -> String {
        self.failing.iter().map(|part| part.words.as_str()).collect::<Vec<_>>().join("; ")
    }
}

/// The permit with the fewest parts that do not hold; the first of several. `None` if a permit
/// matched.
#[must_use]
pub fn nearest(considered: &[Considered]) -> Option<&Considered> {
    let permits = || considered.iter().filter(|one| one.permits && one.error.is_none());
    if permits().any(|one| one.matched) {
        return None;
    }
    permits().min_by_key(|one| one.failing.len())
}

impl Bundle {
    /// Evaluates every policy that applies to the tool, and returns for each one that did not match
    /// the reason.
    #[must_use]
    pub fn explain(&self, question: &Question<'_>) -> Vec<Considered> {
        self.explain_among(question, &self.groups)
    }

    /// Does what [`Bundle::explain`] does, with other groups than the bundle's.
    pub(in crate::policy) fn explain_among(
        &self,
        question: &Question<'_>,
        groups: &Groups,
    ) -> Vec<Considered> {
        let input = lower::record(&question.manifest.input, question.arguments).unwrap_or_default();
        let built = build::build(question, groups, &self.labels, input);
        let Manifest { name, class, .. } = question.manifest;
        self.consider_each(name, *class, built.cedar(&self.schema, &self.actions))
    }

    /// Each policy that applies to `tool`, evaluated alone.
    pub(in crate::policy) fn consider_each(
        &self,
        tool: &str,
        class: Class,
        asked: Result<(Request, Entities), RequestError>,
    ) -> Vec<Considered> {
        let in_reach = |policy: &&Policy| fits_action(policy, tool, class);
        self.set.policies().filter(in_reach).map(|policy| self.consider(policy, asked.as_ref())).collect()
    }

    pub(in crate::policy) fn consider(
        &self,
        policy: &Policy,
        asked: Result<&(Request, Entities), &RequestError>,
    ) -> Considered {
        let id = policy.id().to_string();
        let (mut matched, mut failing) = (false, Vec::new());
        let error = match (asked, PolicySet::from_policies([policy.clone()])) {
            (Ok((request, entities)), Ok(alone)) => {
                let response = Authorizer::new().is_authorized(request, &alone, entities);
                let error = response.diagnostics().errors().next().map(ToString::to_string);
                matched = response.diagnostics().reason().next().is_some();
                if !matched && error.is_none() {
                    failing = parts::failing(policy, request, entities);
                }
                error
            }
            (Err(e), _) => Some(e.to_string()),
            (_, Err(e)) => Some(e.to_string()),
        };
        let origin = self.origins.get(&id);
        let at = |line: usize| origin.map(|origin| format!("{}:{line}", origin.file));
        let first = failing.first();
        Considered {
            permits: policy.effect() == Effect::Permit,
            matched,
            failed: first.map(|part| part.words.clone()),
            failed_at: first.and_then(|part| part.line).and_then(at),
            failing,
            error,
            origin: self.origin(&id),
            policy: id,
        }
    }
}
