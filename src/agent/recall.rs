//! A run found again on the ledger: what was asked, what the model said, what came of its calls.
//!
//! The conversation is rebuilt from the run's entries and from nothing else, so that a restart changes
//! nothing of what the model is told.

use super::api::{RunStatus, Usage};
use super::shared::Agent;
use super::view;
use super::walk::{self, At, Begun, Part, Recalled, Turn};
use crate::gate::{self, Recall};
use crate::ledger::{Filter, Header, Ledger, Order, ReadError, Stored};
use crate::llm::{Conversation, ModelReply, Stop};
use crate::secrets::{self, Clean};
use crate::tools::ProposedCall;
use crate::types::{Digest, RunId, SessionId, limits};
use serde_json::Value;
use std::collections::VecDeque;

/// Headers looked at under one lock of the reader, so that others get their turn.
const SCAN_ENTRIES_MAX: usize = 4_096;

/// What a run that waits is found to be.
#[derive(Debug)]
pub(super) enum Found {
    /// It goes on from here. The provider is the one that was asked.
    Ready(Box<Recalled>, String),
    /// A person has not answered yet, or the run has ended.
    NotReady,
}

/// Finds `run` again, whose `run.request` is the entry `first`. Blocking.
pub(super) fn find(agent: &Agent, run: &RunId, first: u64) -> Result<Found, ReadError> {
    let headers = entries(agent.ledger(), run, first)?;
    let status = headers.iter().rev().find(|header| header.kind == "run.reply");
    let is_waiting = status.and_then(|header| header.str("status")) == Some(RunStatus::Waiting.as_str());
    if !is_waiting {
        return Ok(Found::NotReady);
    }
    let seqs: Vec<u64> = headers.iter().filter(|header| is_call(header)).map(|header| header.seq).collect();
    let calls = agent.gate().recall(run, &seqs)?;
    if calls.iter().any(|call| matches!(call.recall, Recall::Waiting)) {
        return Ok(Found::NotReady);
    }
    let request = entry(agent.ledger(), first)?;
    let asked = payload(&request)?;
    let provider = asked.get("provider").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut recalled = begun(agent, run, &request, &asked)?;
    let mut calls = VecDeque::from(calls);
    for header in headers.iter().filter(|header| header.kind == "model.reply") {
        // A reply behind one that is not finished cannot be: the model is asked only once it is.
        if recalled.open.is_some() {
            return Err(ReadError::Damaged(header.seq, "it follows a reply whose calls are open".to_owned()));
        }
        let reply = reply(&entry(agent.ledger(), header.seq)?, &mut recalled.usage)?;
        recalled.rounds += 1;
        add_reply(&mut recalled, agent.secrets().clean(reply), &mut calls);
    }
    Ok(Found::Ready(Box::new(recalled), provider))
}

/// The run's headers, from `first` on, by their numbers.
fn entries(ledger: &Ledger, run: &RunId, first: u64) -> Result<Vec<Header>, ReadError> {
    let filter = Filter::of("run", run.as_str());
    let (mut found, mut next) = (Vec::new(), Some(first));
    while let Some(at) = next {
        let (headers, on) =
            ledger.reader().headers(&filter, at, Order::Ascending, SCAN_ENTRIES_MAX, SCAN_ENTRIES_MAX)?;
        found.extend(headers);
        next = on;
    }
    Ok(found)
}

fn is_call(header: &Header) -> bool {
    header.kind.starts_with("call.") || header.kind.starts_with("approval.")
}

fn entry(ledger: &Ledger, seq: u64) -> Result<Stored, ReadError> {
    ledger.reader().entry(seq)?.ok_or_else(|| ReadError::Damaged(seq, "it is missing".to_owned()))
}

/// The payload, where it was kept whole.
fn payload(stored: &Stored) -> Result<Value, ReadError> {
    let whole = stored.body.as_deref().and_then(|body| serde_json::from_slice::<Value>(body).ok());
    whole.filter(|payload| payload.get("cut").is_none()).ok_or_else(|| {
        ReadError::Damaged(
            stored.header.seq,
            "its payload is not kept whole, and the run cannot go on".to_owned(),
        )
    })
}

/// The run as it began.
fn begun(agent: &Agent, run: &RunId, request: &Stored, asked: &Value) -> Result<Recalled, ReadError> {
    let first = request.header.seq;
    let lacks = |what: &str| ReadError::Damaged(first, format!("a run's request has no {what}"));
    let session_id = request.header.str("session").and_then(SessionId::parse);
    let session_id = session_id.ok_or_else(|| lacks("session"))?;
    let message = asked.get("message").and_then(Value::as_str).ok_or_else(|| lacks("message"))?;
    let calls_max =
        asked.get("calls_max").and_then(Value::as_u64).and_then(|calls| u32::try_from(calls).ok());
    let calls_max = calls_max.ok_or_else(|| lacks("bound of calls"))?.min(limits::CALLS_PER_RUN_MAX);
    let source_ip = asked.get("source_ip").and_then(Value::as_str).and_then(|ip| ip.parse().ok());
    let mut conversation = Conversation::new(super::prompt::SYSTEM.to_owned());
    conversation.push_user(agent.secrets().clean(message.to_owned()));
    let session = agent.session(session_id.as_str(), calls_max);
    Ok(Recalled {
        begun: Begun { run: run.clone(), session_id, session, source_ip },
        first,
        conversation,
        steps: Vec::new(),
        usage: Usage::default(),
        rounds: 0,
        open: None,
    })
}

/// A reply of the model, as its entry holds it.
fn reply(stored: &Stored, usage: &mut Usage) -> Result<ModelReply, ReadError> {
    let payload = payload(stored)?;
    let text = |from: &Value, name: &str| from.get(name).and_then(Value::as_str).map(str::to_owned);
    let tokens = |name: &str| payload.get(name).and_then(Value::as_u64).unwrap_or(0);
    walk::add(usage, tokens("input_tokens"), tokens("output_tokens"));
    let calls = payload.get("calls").and_then(Value::as_array).into_iter().flatten();
    let call = |call: &Value| {
        let (id, tool) = (text(call, "id")?, text(call, "tool")?);
        Some(ProposedCall { id, tool, arguments: text(call, "arguments")? })
    };
    let damaged = || ReadError::Damaged(stored.header.seq, "a reply's call cannot be read".to_owned());
    Ok(ModelReply {
        text: text(&payload, "text"),
        calls: calls.map(call).collect::<Option<_>>().ok_or_else(damaged)?,
        stop: Stop::ToolCalls,
        usage: crate::llm::TokenUsage::default(),
        request_digest: Digest::of(b""),
        raw: Vec::new(),
        model: text(&payload, "model").unwrap_or_default(),
        found: secrets::Found::default(),
    })
}

/// Adds a reply with what became of its calls: to the conversation where all of them are settled, else as
/// the reply that is open. The calls of a reply were decided in its order, and behind it.
fn add_reply(recalled: &mut Recalled, reply: Clean<ModelReply>, calls: &mut VecDeque<gate::Recalled>) {
    let mut parts = Vec::with_capacity(reply.calls.len());
    for call in &reply.calls {
        let at = match calls.pop_front() {
            None => At::Fresh,
            Some(known) => {
                recalled.steps.push(view::step(&known.record));
                recalled.begun.session.calls_used += 1;
                walk::taint(&mut recalled.begun.session, &known.record);
                match known.recall {
                    Recall::Told(result) => At::Told(result),
                    Recall::Again(asked) => At::Again(asked),
                    Recall::Waiting => At::Waiting,
                }
            }
        };
        parts.push(Part { call: call.clone(), at });
    }
    if parts.iter().all(|part| matches!(part.at, At::Told(_))) {
        recalled.conversation.push_reply(&reply);
        let told = parts.into_iter().filter_map(|part| match part.at {
            At::Told(result) => Some(*result),
            At::Fresh | At::Again(_) | At::Waiting => None,
        });
        recalled.conversation.push_results(told.collect());
    } else {
        recalled.open = Some(Turn { reply, parts, before: Vec::new() });
    }
}
