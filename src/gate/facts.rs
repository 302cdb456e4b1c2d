//! What every step of one call carries, and what callers and the model may be shown of it.

use crate::ledger::Stored;
use crate::ledger::payload::{CallDecisionPayload, NearestRule, StepRefusal};
use crate::tools::OutputSchema;
use crate::types::{
    CallId, DataLabels, Decision, Digest, RefusalClass, RunId, SessionId, StepStatus, Stoppable,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What every step of one call carries.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) run: RunId,
    pub(super) session: SessionId,
    pub(super) call: CallId,
    pub(super) principal: String,
    pub(super) proposed_id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) manifest: Option<Digest>,
    pub(super) policy: Digest,
    pub(super) policies: Vec<String>,
    /// The object's canonical name, if the call was decided on one.
    pub(super) resource: Option<String>,
    /// The labels of what the session had read when the call was decided; `None` for a call that
    /// was read back.
    pub(super) labels: Option<DataLabels>,
    /// The schema of a trusted result, if the manifest declares the tool's output trusted.
    pub(super) trusted: Option<Arc<OutputSchema>>,
    /// Whether success is one JSON object on standard output, as builtins print it and `output =
    /// "json"` declares it.
    pub(super) structured: bool,
}

/// Why an entry is not the decision of a call that continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecisionUnread {
    /// This field of its header is missing or malformed.
    #[error("a decision has no {0}")]
    Missing(&'static str),
    /// It is another kind of entry, or another decision.
    #[error("the entry does not allow a call")]
    NotAllowed,
}

impl Facts {
    /// Reads the facts of a call from its `call.decision`.
    pub(super) fn read(stored: &Stored) -> Result<Self, DecisionUnread> {
        let header = &stored.header;
        let payload: CallDecisionPayload = stored.payload().unwrap_or_default();
        let text = |name: &str| header.str(name).unwrap_or_default();
        let missing = DecisionUnread::Missing;
        Ok(Self {
            run: RunId::parse(text("run")).ok_or(missing("run"))?,
            session: SessionId::parse(text("session")).ok_or(missing("session"))?,
            call: CallId::parse(text("call")).ok_or(missing("call"))?,
            principal: text("principal").to_owned(),
            resource: resource_of(&payload),
            proposed_id: payload.proposed_id,
            tool: text("tool").to_owned(),
            arguments: payload.arguments.unwrap_or_default(),
            manifest: Digest::from_hex(text("manifest")),
            policy: Digest::from_hex(text("policy")).ok_or(missing("policy"))?,
            policies: header.policies(),
            labels: None,
            trusted: None,
            structured: false,
        })
    }

    /// The call, as it is held against stops.
    pub(super) fn stoppable(&self) -> Stoppable<'_> {
        let Self { principal: caller, session, run, tool, .. } = self;
        Stoppable { caller, session, run, tool: Some(tool) }
    }

    /// Checks the JSON object of a success against the schema of trusted results. `None` if the
    /// manifest does not declare the tool's output trusted.
    pub(super) fn check_trusted(&self, object: &Map<String, Value>) -> Option<Result<(), String>> {
        self.trusted.as_ref().map(|schema| schema.check(object))
    }
}

/// A call in the form that callers and the model may see. All of it is on the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The call.
    pub call: CallId,
    /// The call's identifier from the model.
    pub proposed_id: String,
    /// The tool, as proposed.
    pub tool: String,
    /// The object's canonical name, such as a path, if the call was decided on one.
    pub resource: Option<String>,
    /// The arguments; for an invalid call their raw text.
    pub arguments: Value,
    /// What was decided.
    pub decision: Decision,
    /// The determining policies.
    pub policies: Vec<String>,
    /// The outcome.
    pub status: StepStatus,
    /// The result, or the reason for its absence.
    pub result: Value,
    /// Whether the output was cut.
    pub truncated: bool,
    /// Why it was refused, if it was.
    pub class: Option<RefusalClass>,
    /// The refusal, if `class` is [`RefusalClass::Person`].
    pub refused: Option<StepRefusal>,
    /// The permit that was nearest to matching, if no policy permits the call: for people.
    pub nearest: Option<NearestRule>,
    /// What the model reads in place of the result's `error`; `None` for the same words.
    pub(super) told: Option<&'static str>,
    /// What the result adds to the labels of the session that sees it.
    pub labels: DataLabels,
    /// The decision's entry on the ledger.
    pub decision_seq: u64,
    /// The result's entry on the ledger, if the call was allowed.
    pub result_seq: Option<u64>,
}

/// The id of the resource in a decision's payload.
pub(super) fn resource_of(payload: &CallDecisionPayload) -> Option<String> {
    payload.request.as_ref()?.pointer("/resource/id")?.as_str().map(str::to_owned)
}

impl CallRecord {
    /// A call that has only its decision as a result.
    pub(super) fn unsettled(
        facts: Facts,
        decision_seq: u64,
        decision: Decision,
        status: StepStatus,
        result: Value,
    ) -> Self {
        Self {
            call: facts.call,
            proposed_id: facts.proposed_id,
            tool: facts.tool,
            resource: facts.resource,
            arguments: facts.arguments,
            decision,
            policies: facts.policies,
            status,
            result,
            truncated: false,
            class: None,
            refused: None,
            nearest: None,
            told: None,
            labels: DataLabels::default(),
            decision_seq,
            result_seq: None,
        }
    }
}
