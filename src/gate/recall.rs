//! Calls found again on the ledger: what became of each, as far as it is durable.
//!
//! Together with the gate's commits this is the only maker of a [`ToolResult`]: one that is recalled
//! tells what an entry of the ledger holds, as the one before the restart did.

use super::facts::{CallRecord, Facts};
use super::mint::asked::Asked;
use super::mint::told::ToolResult;
use super::point::Gate;
use super::requested::{State, refusal};
use crate::ledger::payload::{
    ApprovalRefusePayload, ApprovalRequestPayload, CallDecisionPayload, CallResultPayload,
};
use crate::ledger::{Kind, ReadError, Stored};
use crate::types::{CallId, Decision, RunId, StepStatus, limits, text};
use serde_json::{Map, Value, json};

/// A call of a run, found again.
#[derive(Debug)]
pub struct Recalled {
    /// The number of its first decision: calls are in the order of their reply.
    pub decided: u64,
    /// As it may be told.
    pub record: CallRecord,
    /// What is to be done about it.
    pub recall: Recall,
}

/// What is to be done about a call that was found again.
#[derive(Debug)]
pub enum Recall {
    /// Nothing: its outcome is durable and may be told.
    Told(Box<ToolResult>),
    /// It is to be prepared and decided again.
    Again(Asked),
    /// A person has not answered yet.
    Waiting,
}

/// The entries of one call; of each kind the newest.
struct Trace {
    decided: u64,
    call: CallId,
    decision: Stored,
    request: Option<Stored>,
    answer: Option<Stored>,
    result: Option<Stored>,
}

impl Gate {
    /// Finds the calls of `run` again in its entries `seqs`, which are in the ledger's order. Blocking.
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
        let mut facts = Facts::read(&trace.decision).map_err(|e| damaged(e.to_string()))?;
        // By the manifest that the call ran under: what is not known any more may have been anything.
        let rules = self.rules();
        let manifest = rules.catalog.find(&facts.tool).filter(|known| Some(known.digest) == facts.manifest);
        if let Some(manifest) = manifest {
            (facts.is_trusted, facts.structured) = (!manifest.untrusted_output, manifest.is_structured());
        }
        let decided = trace.decided;
        let told = |record: CallRecord, entry: &Stored| {
            // What was recorded before a secret was named is told no more.
            let record = CallRecord { result: self.secrets().clean(record.result).into_inner(), ..record };
            let recall = Recall::Told(Box::new(ToolResult::found(entry, record.clone())));
            Recalled { decided, record, recall }
        };
        let decision = trace.decision.header.decision();
        match (decision.unwrap_or(Decision::Deny), &trace.result) {
            (Decision::Allow, Some(result)) => Ok(told(settled(facts, seq, result), result)),
            (Decision::Allow, None) => Err(damaged("an allowed call has no result yet".to_owned())),
            (Decision::NeedsApproval, _) => match (&trace.request, &trace.answer) {
                (Some(request), Some(answer)) if answer.header.is(Kind::ApprovalRefuse) => {
                    Ok(told(unapproved(facts, seq, no(request, answer)), answer))
                }
                (Some(request), answer) => self.asked(facts, &trace, request, answer.as_ref()),
                (None, _) => Ok(told(unapproved(facts, seq, Value::Null), &trace.decision)),
            },
            (decision @ (Decision::Deny | Decision::Invalid), _) => {
                Ok(told(refused(facts, decision, &trace.decision), &trace.decision))
            }
        }
    }

    /// A call that waits, or that a person said yes to.
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

/// Puts an entry where it belongs; what belongs nowhere is none of the gate's.
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
    // One that was too long is on the ledger without its end; one that was erased is not there at all.
    let (told, is_cut) = match result.payload::<CallResultPayload>() {
        Some(payload) => (payload.result, payload.truncated),
        None => (json!({ "error": "not kept whole" }), result.body.is_some()),
    };
    let status = result.header.str("status").and_then(StepStatus::parse).unwrap_or(StepStatus::Error);
    CallRecord {
        truncated: is_cut,
        taints: facts.taints(status),
        result_seq: Some(result.header.seq),
        ..CallRecord::unsettled(facts, decision, Decision::Allow, status, told)
    }
}

/// A call that no person approved.
fn unapproved(facts: Facts, seq: u64, why: Value) -> CallRecord {
    CallRecord::unsettled(facts, seq, Decision::NeedsApproval, StepStatus::Refused, why)
}

/// A call whose decision was its result.
fn refused(facts: Facts, word: Decision, decision: &Stored) -> CallRecord {
    let payload: CallDecisionPayload = decision.payload().unwrap_or_default();
    let mut told = Map::new();
    if let Some(reason) = payload.reason {
        told.insert("error".to_owned(), json!(reason));
    }
    if let Some(advice) = payload.advice {
        told.insert("advice".to_owned(), json!(advice));
    }
    let show = |raw: String| json!(text::visible(text::prefix(&raw, limits::RAW_ARGUMENTS_SHOWN_BYTES_MAX)));
    let shown = payload.arguments_raw.map(show);
    let record =
        CallRecord::unsettled(facts, decision.header.seq, word, StepStatus::Refused, Value::Object(told));
    CallRecord { arguments: shown.unwrap_or_else(|| record.arguments.clone()), ..record }
}

/// The words to a model of a call that a person, or the time, said no to.
fn no(request: &Stored, answer: &Stored) -> Value {
    let said = answer.payload::<ApprovalRefusePayload>().and_then(|payload| payload.reason);
    let id = request.payload::<ApprovalRequestPayload>().map(|payload| payload.id);
    let error = match (refusal(&answer.header), said) {
        (State::Expired, _) => "it was not approved in time".to_owned(),
        (_, Some(said)) => format!("a person refused it: {said}"),
        (_, None) => "a person refused it".to_owned(),
    };
    json!({ "error": error, "approval": id })
}
