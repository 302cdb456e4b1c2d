//! Reads the calls of a run back from the ledger, as far as they are durable.
//!
//! Apart from the gate's commits this is the only maker of a [`ToolResult`]: a recalled one
//! contains what an entry of the ledger contains, as the original did.

use super::facts::{CallRecord, Facts};
use super::mint::asked::Asked;
use super::mint::told::ToolResult;
use super::point::Gate;
use super::refusal::told;
use super::requested::{State, refusal};
use crate::ledger::payload::{
    ApprovalRefusePayload, ApprovalRequestPayload, CallDecisionPayload, CallResultPayload, StepRefusal,
};
use crate::ledger::{Kind, ReadError, Stored};
use crate::types::{CallId, DataLabels, Decision, RefusalClass, RunId, StepStatus, limits, text};
use serde_json::{Map, Value, json};

/// A call of a run, read back.
#[derive(Debug)]
pub struct Recalled {
    /// The entry of its first decision: calls are in the order of their reply.
    pub decided: u64,
    /// What callers may see of it.
    pub record: CallRecord,
    /// The next step.
    pub recall: Recall,
}

/// The next step of a call that was read back.
#[derive(Debug)]
pub enum Recall {
    /// None: its outcome is durable and may be shown.
    Settled(Box<ToolResult>),
    /// It must be prepared and decided again.
    Again(Asked),
    /// A person has not answered yet.
    Waiting,
}

/// The entries of one call; the newest of each kind.
struct Trace {
    decided: u64,
    call: CallId,
    decision: Stored,
    request: Option<Stored>,
    answer: Option<Stored>,
    result: Option<Stored>,
}

impl Gate {
    /// Reads the calls of `run` back from its entries `seqs`, which are in the ledger's order.
    /// Blocking.
    pub fn recall(&self, run: &RunId, seqs: &[u64]) -> Result<Vec<Recalled>, ReadError> {
        let mut traces: Vec<Trace> = Vec::new();
        for seq in seqs {
            let damaged = |what: &str| ReadError::Damaged(*seq, what.to_owned());
            let stored = self.ledger().reader().entry(*seq)?.ok_or_else(|| damaged("it is missing"))?;
            if stored.header.str("run") != Some(run.as_str()) {
                return Err(damaged("the entry is of another run"));
            }
            add(&mut traces, stored).map_err(damaged)?;
        }
        traces.into_iter().map(|trace| self.recalled(trace)).collect()
    }

    fn recalled(&self, trace: Trace) -> Result<Recalled, ReadError> {
        let seq = trace.decision.header.seq;
        let damaged = |what: String| ReadError::Damaged(seq, what);
        let facts = Facts::read(&trace.decision).map_err(|e| damaged(e.to_string()))?;
        let decided = trace.decided;
        let durable = |record: CallRecord, entry: &Stored| {
            // A secret that was named after it was recorded is not shown either.
            let record = CallRecord { result: self.secrets().clean(record.result).into_inner(), ..record };
            let recall = Recall::Settled(Box::new(ToolResult::found(entry, record.clone())));
            Recalled { decided, record, recall }
        };
        let decision = trace.decision.header.decision();
        match (decision.unwrap_or(Decision::Deny), &trace.result) {
            (Decision::Allow, Some(result)) => Ok(durable(settled(facts, seq, result), result)),
            (Decision::Allow, None) => Err(damaged("an allowed call has no result yet".to_owned())),
            (Decision::NeedsApproval, _) => match (&trace.request, &trace.answer) {
                (Some(request), Some(answer)) if answer.header.is(Kind::ApprovalRefuse) => {
                    let refused = refused_by(answer);
                    let text = refusal_text(request, &refused);
                    let record = CallRecord {
                        class: Some(RefusalClass::Person),
                        refused: Some(refused),
                        ..unapproved(facts, seq, text)
                    };
                    Ok(durable(record, answer))
                }
                (Some(request), answer) => self.asked(facts, &trace, request, answer.as_ref()),
                (None, _) => Ok(durable(unapproved(facts, seq, Value::Null), &trace.decision)),
            },
            (decision @ (Decision::Deny | Decision::Invalid), _) => {
                Ok(durable(refused(facts, decision, &trace.decision), &trace.decision))
            }
        }
    }

    /// A call that waits for a person, or that a person has approved.
    fn asked(
        &self,
        facts: Facts,
        trace: &Trace,
        request: &Stored,
        answer: Option<&Stored>,
    ) -> Result<Recalled, ReadError> {
        let asked = Asked::found(request, answer);
        let asked = asked.ok_or_else(|| {
            ReadError::Damaged(request.header.seq, "it is not a request for approval".to_owned())
        })?;
        let requested = asked.requested();
        let has_changed = requested.policy != self.rules().bundle.digest();
        let reason = json!({ "waiting_for": requested.groups, "approval": requested.id.as_str() });
        let seq = trace.decision.header.seq;
        let record = CallRecord::unsettled(facts, seq, Decision::NeedsApproval, StepStatus::Waiting, reason);
        let recall = if asked.is_granted() || has_changed { Recall::Again(asked) } else { Recall::Waiting };
        Ok(Recalled { decided: trace.decided, record, recall })
    }
}

/// Adds an entry to the trace of its call. Entries of other kinds are not the gate's.
fn add(traces: &mut Vec<Trace>, stored: Stored) -> Result<(), &'static str> {
    let answers = stored.header.u64("ref");
    let is_of = |one: Option<&Stored>| one.is_some_and(|one| Some(one.header.seq) == answers);
    match stored.header.known_kind() {
        Some(Kind::CallDecision) => {
            let call = stored.header.str("call").and_then(CallId::parse).ok_or("it has no call")?;
            let decided = stored.header.seq;
            let fresh = Trace { decided, call, decision: stored, request: None, answer: None, result: None };
            match traces.iter_mut().find(|trace| trace.call == fresh.call) {
                Some(known) => *known = Trace { decided: known.decided, ..fresh },
                None => traces.push(fresh),
            }
        }
        Some(Kind::ApprovalRequest) => {
            if let Some(trace) = traces.iter_mut().find(|trace| is_of(Some(&trace.decision))) {
                trace.request = Some(stored);
            }
        }
        Some(Kind::ApprovalGrant | Kind::ApprovalRefuse) => {
            if let Some(trace) = traces.iter_mut().find(|trace| is_of(trace.request.as_ref())) {
                // The first answer counts.
                trace.answer.get_or_insert(stored);
            }
        }
        Some(Kind::CallResult) => {
            if let Some(trace) = traces.iter_mut().find(|trace| is_of(Some(&trace.decision))) {
                trace.result = Some(stored);
            }
        }
        _ => {}
    }
    Ok(())
}

fn settled(facts: Facts, decision: u64, result: &Stored) -> CallRecord {
    // A result that was too long is on the ledger without its end; an erased one is missing.
    let (content, is_cut) = match result.payload::<CallResultPayload>() {
        Some(payload) => (payload.result, payload.truncated),
        None => (json!({ "error": "not kept whole" }), result.body.is_some()),
    };
    let status = result.header.str("status").and_then(StepStatus::parse).unwrap_or(StepStatus::Error);
    CallRecord {
        truncated: is_cut,
        // As recorded: the manifest may have changed since.
        labels: result.header.labels().unwrap_or_else(DataLabels::untrusted),
        result_seq: Some(result.header.seq),
        ..CallRecord::unsettled(facts, decision, Decision::Allow, status, content)
    }
}

/// A call that was not approved.
fn unapproved(facts: Facts, seq: u64, why: Value) -> CallRecord {
    CallRecord::unsettled(facts, seq, Decision::NeedsApproval, StepStatus::Refused, why)
}

/// A call whose decision is its result.
fn refused(facts: Facts, word: Decision, decision: &Stored) -> CallRecord {
    let payload: CallDecisionPayload = decision.payload().unwrap_or_default();
    let class = RefusalClass::of(word, decision.header.str("status"));
    let told = told(class, payload.request.as_ref(), &facts.policies);
    let mut refusal = Map::new();
    if let Some(reason) = payload.reason {
        refusal.insert("error".to_owned(), json!(reason));
    }
    if let Some(advice) = payload.advice {
        refusal.insert("advice".to_owned(), json!(advice));
    }
    let show = |raw: String| json!(text::visible(text::prefix(&raw, limits::RAW_ARGUMENTS_SHOWN_BYTES_MAX)));
    let shown = payload.arguments_raw.map(show);
    let record =
        CallRecord::unsettled(facts, decision.header.seq, word, StepStatus::Refused, Value::Object(refusal));
    let arguments = shown.unwrap_or_else(|| record.arguments.clone());
    CallRecord { arguments, class, told, nearest: payload.nearest, ..record }
}

/// Who refused a call, and why, as an `approval.refuse` says.
#[must_use]
pub fn refused_by(answer: &Stored) -> StepRefusal {
    if refusal(&answer.header) == State::Expired {
        return StepRefusal { by: None, reason: None };
    }
    let payload = answer.payload::<ApprovalRefusePayload>();
    let (user, reason) = payload.map(|payload| (payload.user.flatten(), payload.reason)).unwrap_or_default();
    StepRefusal { by: user.or_else(|| answer.header.str("principal").map(str::to_owned)), reason }
}

/// The text for the model about a call that a person refused, or that expired.
fn refusal_text(request: &Stored, refused: &StepRefusal) -> Value {
    let id = request.payload::<ApprovalRequestPayload>().map(|payload| payload.id);
    let error = match (&refused.by, &refused.reason) {
        (None, _) => "it was not approved in time".to_owned(),
        (_, Some(said)) => format!("a person refused it: {said}"),
        (_, None) => "a person refused it".to_owned(),
    };
    json!({ "error": error, "approval": id })
}
