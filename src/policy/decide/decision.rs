//! Decides calls. A deny is a value; an error is a deny.

use super::ruling::{Obligation, Ruling};
use super::shadow::Shadow;
use crate::policy::load::bundle::Bundle;
use crate::policy::request::build;
use crate::policy::request::cedar::Built;
use crate::policy::request::error::RequestError;
use crate::policy::request::groups::Groups;
use crate::policy::request::lower;
use crate::policy::request::question::{Approved, Question};
use cedar_policy::{Authorizer, Decision, PolicyId, Response};
use serde_json::{Value, json};

/// The answer to a question, with the whole request that led to it.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The answer.
    pub answer: Ruling,
    /// The complete Cedar request: the same bundle answers it the same way.
    pub request: Value,
    /// What policies in shadow mode would have changed. Only reported.
    pub shadow: Option<Shadow>,
}

/// The policies that a request is evaluated against: those that decide, or those in shadow mode
/// too.
type Ask = fn(&Bundle, &Built) -> Result<Response, RequestError>;

impl Bundle {
    /// Decides a call. Arguments that cannot be lowered, a request that does not match the schema
    /// and an error in any policy are a deny: Cedar itself would skip a policy that errors, even a
    /// `forbid`.
    #[must_use]
    pub fn decide(&self, question: &Question<'_>) -> Evaluation {
        self.decide_among(question, &self.groups)
    }

    /// Does what [`Bundle::decide`] does, with other groups than the bundle's.
    pub(in crate::policy) fn decide_among(&self, question: &Question<'_>, groups: &Groups) -> Evaluation {
        match lower::record(&question.manifest.input, question.arguments) {
            Ok(input) => {
                let built = build::build(question, groups, &self.labels, input);
                let (answer, shadow) = self.answers_whole(&built, groups);
                Evaluation { answer, request: built.json(), shadow }
            }
            Err(error) => {
                Evaluation { answer: refuse_error(vec![error.to_string()]), request: json!({}), shadow: None }
            }
        }
    }

    /// Does what [`Bundle::answers`] does for a request that was just built: an incomplete one is
    /// refused.
    pub(in crate::policy) fn answers_whole(
        &self,
        built: &Built,
        groups: &Groups,
    ) -> (Ruling, Option<Shadow>) {
        match built.check_complete(groups, &self.labels) {
            Ok(()) => self.answers(built),
            Err(error) => (refuse_error(vec![error.to_string()]), None),
        }
    }

    /// The answer, and what the policies in shadow mode would have changed. Calls and replays are
    /// both decided by this function.
    pub(in crate::policy) fn answers(&self, built: &Built) -> (Ruling, Option<Shadow>) {
        let answer = self.answer(Self::ask, built);
        let shadowed = self.with_shadow.as_ref().map(|_| self.answer(Self::ask_with_shadow, built));
        let shadow = shadowed.and_then(|shadowed| Shadow::from_rulings(&answer, &shadowed));
        (answer, shadow)
    }

    fn answer(&self, ask: Ask, built: &Built) -> Ruling {
        match ask(self, built) {
            Err(error) => refuse_error(vec![error.to_string()]),
            Ok(response) => {
                let errors: Vec<String> = response.diagnostics().errors().map(ToString::to_string).collect();
                let policies = sorted(response.diagnostics().reason());
                match response.decision() {
                    _ if !errors.is_empty() => refuse_error(errors),
                    Decision::Allow => Ruling::Allow { policies },
                    Decision::Deny => self.refuse(ask, built, policies),
                }
            }
        }
    }

    pub(in crate::policy) fn ask(&self, built: &Built) -> Result<Response, RequestError> {
        let (request, entities) = built.cedar(&self.schema, &self.actions)?;
        let slice = self.slices.slice(&self.set, built.action(), built.uids())?;
        Ok(Authorizer::new().is_authorized(&request, slice.as_deref().unwrap_or(&self.set), &entities))
    }

    /// Does what [`Bundle::ask`] does, with the policies in shadow mode too.
    fn ask_with_shadow(&self, built: &Built) -> Result<Response, RequestError> {
        let Some((set, slices)) = &self.with_shadow else { return self.ask(built) };
        let (request, entities) = built.cedar(&self.schema, &self.actions)?;
        let slice = slices.slice(set, built.action(), built.uids())?;
        Ok(Authorizer::new().is_authorized(&request, slice.as_deref().unwrap_or(set), &entities))
    }

    /// Does what [`Bundle::ask`] does, with all policies, and with every entity checked against the
    /// schema.
    pub(in crate::policy) fn ask_slowly(&self, built: &Built) -> Result<Response, RequestError> {
        let (request, entities) = built.cedar_checked(&self.schema)?;
        Ok(Authorizer::new().is_authorized(&request, &self.set, &entities))
    }

    /// A deny, or a request for approval: that only if every determining `forbid` asks for
    /// approval, and the same call with that approval would be allowed.
    ///
    /// A deny never names a `forbid` that asks for an approval which would not help: the reason is
    /// then the one that would deny the approved call. Bundles of the first format named them, and
    /// are repeated as they decided.
    fn refuse(&self, ask: Ask, built: &Built, mut policies: Vec<String>) -> Ruling {
        let (is_unasked, names_gates) = (built.is_unasked(), self.recipe.built_in.is_none());
        let gates: Vec<Obligation> = policies.iter().filter_map(|id| self.gate(id)).collect();
        if !gates.is_empty() && gates.len() == policies.len() && is_unasked {
            let needs_other = gates.iter().any(|gate| matches!(gate, Obligation::Approval { .. }));
            // Without a user: the approver is not known yet, and the approval counts without one.
            let approved =
                if needs_other { Approved::Approved { by: None } } else { Approved::Confirmed { by: None } };
            match self.answer(ask, &built.with_approval(approved)) {
                Ruling::Allow { .. } => return Ruling::NeedsApproval { policies, gates },
                denied if !names_gates => return denied,
                _ => {}
            }
        }
        if is_unasked && !names_gates {
            policies.retain(|id| self.gate(id).is_none());
        }
        // Advice on how to get an approval helps only if one has been given.
        let helps = |id: &&String| !is_unasked || self.gate(id).is_none();
        let advice = policies.iter().filter(helps).filter_map(|id| self.annotation(id, "advice")).collect();
        let reason = match policies.as_slice() {
            [] => "no policy permits it".to_owned(),
            some if some.iter().any(|id| id == "par.outside") => "not permitted or not found".to_owned(),
            some => format!("forbidden by {}", some.join(", ")),
        };
        Ruling::Deny { policies, reason, advice, errors: Vec::new() }
    }

    fn gate(&self, policy: &str) -> Option<Obligation> {
        match self.annotation(policy, "require_approval") {
            Some(group) => Some(Obligation::Approval { group }),
            None => self.annotation(policy, "require_confirm").map(|_| Obligation::Confirm),
        }
    }

    fn annotation(&self, policy: &str, name: &str) -> Option<String> {
        self.policy(policy)?.annotation(name).map(str::to_owned)
    }
}

pub(in crate::policy) fn refuse_error(errors: Vec<String>) -> Ruling {
    let reason = "the policy could not be evaluated".to_owned();
    Ruling::Deny { policies: Vec::new(), reason, advice: Vec::new(), errors }
}

pub(in crate::policy) fn sorted<'a>(ids: impl Iterator<Item = &'a PolicyId>) -> Vec<String> {
    let mut ids: Vec<String> = ids.map(ToString::to_string).collect();
    ids.sort();
    ids
}
