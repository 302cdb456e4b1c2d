//! What every step of one call carries along, and what may be told of the call.

use crate::ledger::Stored;
use crate::ledger::payload::CallDecisionPayload;
use crate::types::{CallId, Decision, Digest, RunId, SessionId, StepStatus};
use serde_json::Value;

/// What every step of one call carries along.
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
    /// The object's canonical name, where it was decided on.
    pub(super) resource: Option<String>,
    /// Whether the manifest vouches for what the tool prints.
    pub(super) is_trusted: bool,
    /// Whether success is one JSON object on standard output, as builtins print it and `output =
    /// "json"` promises it.
    pub(super) structured: bool,
}

/// Why an entry is not taken for the decision of a call that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecisionUnread {
    /// This field of its header is missing, or is not of its form.
    #[error("a decision has no {0}")]
    Lacks(&'static str),
    /// It is another entry, or it decided otherwise.
    #[error("the entry does not allow a call")]
    NotAllowed,
}

impl Facts {
    /// What a `call.decision` says of its call.
    pub(super) fn read(stored: &Stored) -> Result<Self, DecisionUnread> {
        let header = &stored.header;
        let payload: CallDecisionPayload = stored.payload().unwrap_or_default();
        let text = |name: &str| header.str(name).unwrap_or_default();
        let lacks = DecisionUnread::Lacks;
        Ok(Self {
            run: RunId::parse(text("run")).ok_or(lacks("run"))?,
            session: SessionId::parse(text("session")).ok_or(lacks("session"))?,
            call: CallId::parse(text("call")).ok_or(lacks("call"))?,
            principal: text("principal").to_owned(),
            resource: resource_of(&payload),
            proposed_id: payload.proposed_id,
            tool: text("tool").to_owned(),
            arguments: payload.arguments.unwrap_or_default(),
            manifest: Digest::from_hex(text("manifest")),
            policy: Digest::from_hex(text("policy")).ok_or(lacks("policy"))?,
            policies: header.policies(),
            is_trusted: false,
            structured: false,
        })
    }

    /// Whether a result of this `status` taints the session that sees it: all do but the structured object of a success
    /// that the manifest vouches for. The reason of a refusal, and what a program printed before it failed, may hold
    /// names that somebody else chose.
    pub(super) fn taints(&self, status: StepStatus) -> bool {
        !(self.is_trusted && self.structured && status == StepStatus::Ok)
    }
}

/// A call as it may be told: every word of it is on the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The call.
    pub call: CallId,
    /// The model's own name of the call.
    pub proposed_id: String,
    /// The tool, as proposed.
    pub tool: String,
    /// The object's canonical name, such as a path, where it was decided on.
    pub resource: Option<String>,
    /// The arguments; of an invalid call their raw text.
    pub arguments: Value,
    /// What was decided.
    pub decision: Decision,
    /// The determining policies.
    pub policies: Vec<String>,
    /// What came of it.
    pub status: StepStatus,
    /// The result, or the reason why there is none.
    pub result: Value,
    /// Whether the output was cut.
    pub truncated: bool,
    /// Whether the result taints the session that sees it.
    pub taints: bool,
    /// The decision's number on the ledger.
    pub decision_seq: u64,
    /// The result's number, where the call was allowed.
    pub result_seq: Option<u64>,
}

/// The id of the resource in a decision's payload.
pub(super) fn resource_of(payload: &CallDecisionPayload) -> Option<String> {
    payload.request.as_ref()?.pointer("/resource/id")?.as_str().map(str::to_owned)
}

impl CallRecord {
    /// A call without a result of its own.
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
            taints: false,
            decision_seq,
            result_seq: None,
        }
    }
}
