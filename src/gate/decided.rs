//! A decision on its way to the ledger.

use super::counters::Counted;
use super::facts::Facts;
use super::mint::asked::Asked;
use super::refusal::refusal;
use super::rules::STALE;
use super::stops::Stops;
use crate::call::{Exclusion, Prepared};
use crate::ledger::payload::{ApprovalRequestPayload, CallDecisionPayload};
use crate::ledger::{Draft, Ref};
use crate::tools::ValidCall;
use crate::types::{Decision, Digest, HostPort, RefusalClass};
use serde_json::{Value, json};

/// A decision that is not durable yet. Nothing runs and nothing is shown because of it.
#[derive(Debug)]
#[must_use = "a decision counts once it is committed"]
pub struct Decided {
    pub(super) facts: Facts,
    pub(super) word: Decision,
    /// What refuses the call, if it is denied or invalid.
    pub(super) class: Option<RefusalClass>,
    pub(super) payload: CallDecisionPayload,
    pub(super) reason: Value,
    pub(super) next: Next,
    pub(super) again: Option<Asked>,
    /// Uncounted again if the call does not run.
    pub(super) counted: Option<Counted>,
}

/// The step after a decision is durable.
#[derive(Debug)]
pub(super) enum Next {
    Run { valid: Box<ValidCall>, prepared: Prepared, exclusions: Vec<Exclusion>, hosts: Vec<HostPort> },
    Ask { payload: Box<ApprovalRequestPayload> },
    Nothing,
}

impl Decided {
    /// The same decision if `rules` made it; otherwise a deny under `rules`, which ends its child.
    pub(super) fn under(mut self, rules: Digest) -> Self {
        if self.facts.policy == rules {
            return self;
        }
        self.payload = CallDecisionPayload {
            arguments: self.payload.arguments,
            arguments_raw: self.payload.arguments_raw,
            proposed_id: self.payload.proposed_id,
            request: Some(json!({})),
            reason: Some(STALE.to_owned()),
            errors: Some(vec![STALE.to_owned()]),
            ..CallDecisionPayload::default()
        };
        let facts = Facts { policy: rules, policies: Vec::new(), ..self.facts };
        let reason = refusal(STALE, &[]);
        let class = Some(RefusalClass::Policy);
        Self { facts, word: Decision::Deny, class, reason, next: Next::Nothing, counted: None, ..self }
    }

    /// The same decision if no stop covers the call; otherwise an allow or a question becomes a
    /// deny, which ends its child.
    pub(super) fn unless(self, stops: &Stops) -> Self {
        match stops.find(&self.facts.stoppable()) {
            Some(stop) if !matches!(self.next, Next::Nothing) => {
                self.not_asked(RefusalClass::Halt, &stop.to_string())
            }
            _ => self,
        }
    }

    /// A deny of this `class` in place of what was decided, with `why` as its reason.
    pub(super) fn not_asked(self, class: RefusalClass, why: &str) -> Self {
        let payload = CallDecisionPayload {
            request: Some(json!({})),
            reason: Some(why.to_owned()),
            errors: Some(vec![why.to_owned()]),
            beneath: None,
            exclusions: None,
            shadow: None,
            ..self.payload
        };
        let facts = Facts { policies: Vec::new(), ..self.facts };
        let (reason, class) = (refusal(why, &[]), Some(class));
        Self {
            facts,
            payload,
            word: Decision::Deny,
            class,
            reason,
            next: Next::Nothing,
            counted: None,
            ..self
        }
    }

    pub(super) fn draft(&self) -> Draft {
        Draft {
            run: Some(self.facts.run.clone()),
            session: Some(self.facts.session.clone()),
            call: Some(self.facts.call.clone()),
            principal: Some(self.facts.principal.clone()),
            policy: Some(self.facts.policy),
            manifest: self.facts.manifest,
            // For a call that a person was asked about: the answer that it spends or voids.
            answers: self.again.as_ref().map(|asked| Ref::Seq(asked.answered())),
            decision: Some(self.word.as_str()),
            policies: self.facts.policies.clone(),
            status: self.class.map(RefusalClass::as_str),
            tool: Some(self.facts.tool.clone()),
            labels: self.facts.labels.clone(),
            ..Draft::new(self.payload.clone())
        }
    }

    pub(super) fn approval_draft(&self, decision: usize, payload: ApprovalRequestPayload) -> Draft {
        Draft {
            body: payload.into(),
            answers: Some(Ref::Sibling(decision)),
            decision: None,
            policies: Vec::new(),
            status: None,
            ..self.draft()
        }
    }
}
