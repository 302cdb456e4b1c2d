//! The decision. A deny is a value; an error is a deny.

use crate::policy::load::bundle::Bundle;
use crate::policy::request::cedar::Built;
use super::explain::{self, Part};
use crate::policy::request::groups::Groups;
use crate::policy::request::lower;
use crate::policy::request::question::{Approved, Question};
use crate::policy::request::build;
use super::shadow::Shadow;
use crate::tools::{Class, Manifest};
use cedar_policy::{Authorizer, Decision, Effect, Entities, Policy, PolicyId, PolicySet, Request, Response};
use serde_json::{Value, json};

/// The answer to a question, with the whole request that led to it.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// The Cedar request, complete: the same bundle answers it the same way.
    pub request: Value,
    /// What policies in shadow mode would have changed. Nothing hangs on it.
    pub shadow: Option<Shadow>,
}

/// What the policies say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may run.
    Allow {
        /// The permits that say so.
        policies: Vec<String>,
    },
    /// It may not run.
    Deny {
        /// The forbids that say so; empty where no permit matched.
        policies: Vec<String>,
        /// For the caller and the model; names no rule's text.
        reason: String,
        /// What the determining policies advise (`@advice`).
        advice: Vec<String>,
        /// Errors in the evaluation; any one of them is a deny.
        errors: Vec<String>,
    },
    /// It may run once a person said yes.
    NeedsApproval {
        /// The forbids that ask for it.
        policies: Vec<String>,
        /// Who is asked.
        gates: Vec<Gate>,
    },
}

/// Whom a forbid asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Another user, of this group: `@require_approval("group")`.
    Approval {
        /// The group.
        group: String,
    },
    /// The same user, at a terminal of one's own: `@require_confirm`.
    Confirm,
}

impl Answer {
    /// The word on the ledger and in the API.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Allow { .. } => "allow",
            Self::Deny { .. } => "deny",
            Self::NeedsApproval { .. } => "needs_approval",
        }
    }

    /// The determining policies.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        match self {
            Self::Allow { policies } | Self::Deny { policies, .. } | Self::NeedsApproval { policies, .. } => {
                policies
            }
        }
    }

    /// Errors in the evaluation; any one of them made it a deny.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        match self {
            Self::Deny { errors, .. } => errors,
            Self::Allow { .. } | Self::NeedsApproval { .. } => &[],
        }
    }
}

/// A policy that was looked at, for `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Its id.
    pub policy: String,
    /// Whether it permits.
    pub permits: bool,
    /// Whether it matched.
    pub matched: bool,
    /// The scope or the condition that did not hold first, in its own words.
    pub failed: Option<String>,
    /// `file:line` of that.
    pub failed_at: Option<String>,
    /// Every part that did not hold, in the order of the text.
    pub failing: Vec<Part>,
    /// Why it could not be evaluated, which denies the call.
    pub error: Option<String>,
    /// `file:line`.
    pub origin: Option<String>,
}

impl Considered {
    /// What did not hold, in one line.
    #[must_use]
    pub fn failing(&self) -> String {
        self.failing.iter().map(|part| part.words.as_str()).collect::<Vec<_>>().join("; ")
    }
}

/// The permit that has the fewest parts that do not hold; of equals the first. `None` where one matched.
#[must_use]
pub fn nearest(considered: &[Considered]) -> Option<&Considered> {
    let permits = || considered.iter().filter(|one| one.permits && one.error.is_none());
    if permits().any(|one| one.matched) {
        return None;
    }
    permits().min_by_key(|one| one.failing.len())
}
/// How a request is put to policies: to those that decide, or to those in shadow mode too.
type Ask = fn(&Bundle, &Built) -> Result<Response, String>;

impl Bundle {
    /// Decides. Arguments that cannot be lowered, a request that does not fit the schema and any error
    /// among the policies are a deny: Cedar itself would skip a policy that errors, also a forbid.
    #[must_use]
    pub fn decide(&self, question: &Question<'_>) -> Verdict {
        self.decide_among(question, &self.groups)
    }

    /// As [`Bundle::decide`], with other groups than the bundle's.
    pub(in crate::policy) fn decide_among(&self, question: &Question<'_>, groups: &Groups) -> Verdict {
        match lower::record(&question.manifest.input, question.arguments) {
            Ok(input) => {
                let built = build::build(question, groups, &self.labels, input);
                let (answer, shadow) = self.answers_whole(&built, groups);
                Verdict { answer, request: built.json(), shadow }
            }
            Err(error) => Verdict { answer: refuse_error(vec![error]), request: json!({}), shadow: None },
        }
    }

    /// Looks at every permit for the tool, and says of each that did not match why.
    #[must_use]
    pub fn explain(&self, question: &Question<'_>) -> Vec<Considered> {
        self.explain_among(question, &self.groups)
    }

    /// As [`Bundle::explain`], with other groups than the bundle's.
    pub(in crate::policy) fn explain_among(&self, question: &Question<'_>, groups: &Groups) -> Vec<Considered> {
        let input = lower::record(&question.manifest.input, question.arguments).unwrap_or_default();
        let built = build::build(question, groups, &self.labels, input);
        let Manifest { name, class, .. } = question.manifest;
        self.consider_each(name, *class, built.cedar(&self.schema, &self.actions))
    }

    /// Each policy in reach of `tool`, alone.
    pub(in crate::policy) fn consider_each(
        &self,
        tool: &str,
        class: Class,
        asked: Result<(Request, Entities), String>,
    ) -> Vec<Considered> {
        let in_reach = |policy: &&Policy| super::visibility::fits_action(policy, tool, class);
        self.set.policies().filter(in_reach).map(|policy| self.consider(policy, asked.as_ref())).collect()
    }

    pub(in crate::policy) fn consider(
        &self,
        policy: &Policy,
        asked: Result<&(Request, Entities), &String>,
    ) -> Considered {
        let id = policy.id().to_string();
        let (mut matched, mut failing) = (false, Vec::new());
        let error = match (asked, PolicySet::from_policies([policy.clone()])) {
            (Ok((request, entities)), Ok(alone)) => {
                let response = Authorizer::new().is_authorized(request, &alone, entities);
                let error = response.diagnostics().errors().next().map(ToString::to_string);
                matched = response.diagnostics().reason().next().is_some();
                if !matched && error.is_none() {
                    failing = explain::failing(policy, request, entities);
                }
                error
            }
            (Err(e), _) => Some(e.clone()),
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

    /// As [`Bundle::answers`], of a request that was just built: one that lacks anything is refused.
    pub(in crate::policy) fn answers_whole(&self, built: &Built, groups: &Groups) -> (Answer, Option<Shadow>) {
        match built.check_complete(groups, &self.labels) {
            Ok(()) => self.answers(built),
            Err(error) => (refuse_error(vec![error]), None),
        }
    }

    /// The answer, and beside it what the policies in shadow mode would have made of it: the one thing that
    /// both a call and its replay are decided by.
    pub(in crate::policy) fn answers(&self, built: &Built) -> (Answer, Option<Shadow>) {
        let answer = self.answer(Self::ask, built);
        let beside = self.with_shadow.as_ref().map(|_| self.answer(Self::ask_beside, built));
        let shadow = beside.and_then(|beside| Shadow::of(&answer, &beside));
        (answer, shadow)
    }

    fn answer(&self, ask: Ask, built: &Built) -> Answer {
        match ask(self, built) {
            Err(error) => refuse_error(vec![error]),
            Ok(response) => {
                let errors: Vec<String> = response.diagnostics().errors().map(ToString::to_string).collect();
                let policies = sorted(response.diagnostics().reason());
                match response.decision() {
                    _ if !errors.is_empty() => refuse_error(errors),
                    Decision::Allow => Answer::Allow { policies },
                    Decision::Deny => self.refuse(ask, built, policies),
                }
            }
        }
    }

    pub(in crate::policy) fn ask(&self, built: &Built) -> Result<Response, String> {
        let (request, entities) = built.cedar(&self.schema, &self.actions)?;
        let slice = self.slices.slice(&self.set, built.action(), built.uids())?;
        Ok(Authorizer::new().is_authorized(&request, slice.as_deref().unwrap_or(&self.set), &entities))
    }

    /// As [`Bundle::ask`], the policies in shadow mode too.
    fn ask_beside(&self, built: &Built) -> Result<Response, String> {
        let Some((set, slices)) = &self.with_shadow else { return self.ask(built) };
        let (request, entities) = built.cedar(&self.schema, &self.actions)?;
        let slice = slices.slice(set, built.action(), built.uids())?;
        Ok(Authorizer::new().is_authorized(&request, slice.as_deref().unwrap_or(set), &entities))
    }

    /// As [`Bundle::ask`], with all policies, and every entity checked against the schema.
    pub(in crate::policy) fn ask_slowly(&self, built: &Built) -> Result<Response, String> {
        let (request, entities) = built.cedar_checked(&self.schema)?;
        Ok(Authorizer::new().is_authorized(&request, &self.set, &entities))
    }

    /// A deny, or a question to a person: that only where every determining forbid asks for one, and
    /// the same call with the yes would be allowed.
    fn refuse(&self, ask: Ask, built: &Built, policies: Vec<String>) -> Answer {
        let gates: Vec<Gate> = policies.iter().filter_map(|id| self.gate(id)).collect();
        if !gates.is_empty() && gates.len() == policies.len() && built.is_unasked() {
            let needs_other = gates.iter().any(|gate| matches!(gate, Gate::Approval { .. }));
            // In no user's name: who will answer is not known, and need not be for the answer to count.
            let approved =
                if needs_other { Approved::Approved { by: None } } else { Approved::Confirmed { by: None } };
            if matches!(self.answer(ask, &built.with_yes(approved)), Answer::Allow { .. }) {
                return Answer::NeedsApproval { policies, gates };
            }
        }
        // Nobody is sent to a person whose yes would not help.
        let helps = |id: &&String| !built.is_unasked() || self.gate(id).is_none();
        let advice = policies.iter().filter(helps).filter_map(|id| self.annotation(id, "advice")).collect();
        let reason = match policies.as_slice() {
            [] => "default: no policy permits it".to_owned(),
            some if some.iter().any(|id| id == "par.outside") => "not permitted or not found".to_owned(),
            some => format!("forbidden by {}", some.join(", ")),
        };
        Answer::Deny { policies, reason, advice, errors: Vec::new() }
    }

    fn gate(&self, policy: &str) -> Option<Gate> {
        match self.annotation(policy, "require_approval") {
            Some(group) => Some(Gate::Approval { group }),
            None => self.annotation(policy, "require_confirm").map(|_| Gate::Confirm),
        }
    }

    fn annotation(&self, policy: &str, name: &str) -> Option<String> {
        self.policy(policy)?.annotation(name).map(str::to_owned)
    }
}

pub(in crate::policy) fn refuse_error(errors: Vec<String>) -> Answer {
    let reason = "the policy could not be evaluated".to_owned();
    Answer::Deny { policies: Vec::new(), reason, advice: Vec::new(), errors }
}

pub(in crate::policy) fn sorted<'a>(ids: impl Iterator<Item = &'a PolicyId>) -> Vec<String> {
    let mut ids: Vec<String> = ids.map(ToString::to_string).collect();
    ids.sort();
    ids
}
