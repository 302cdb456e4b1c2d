//! A run rebuilt from the ledger: the request, the model's replies and the results of its calls.
//!
//! The conversation is rebuilt only from the run's entries, so that a restart does not change what
//! the model reads.

use crate::agent::api::{RunStatus, Usage};
use crate::agent::run::{self, Begun, OpenTurn, Part, PartState, RecalledRun};
use crate::agent::shared::Agent;
use crate::agent::views;
use crate::gate::{self, Recall};
use crate::ledger::payload::{CallProposed, ModelReplyPayload, RunRequestPayload};
use crate::ledger::{Filter, Header, Kind, Ledger, Order, Payload, ReadError, Stored};
use crate::llm::{Conversation, ModelReply, Stop};
use crate::policy::{Door, Via};
use crate::secrets::Clean;
use crate::tools::ProposedCall;
use crate::types::{Channel, DataLabels, Labelled, ModelSink, RunId, SessionId, limits};
use std::collections::VecDeque;

/// Headers read under one lock of the reader, so that other readers get their turn.
const SCAN_ENTRIES_MAX: usize = 4_096;

/// The state of a waiting run.
#[derive(Debug)]
pub(super) enum FoundRun {
    /// The run can resume, with the provider of this name.
    Ready(Box<RecalledRun>, String),
    /// An approval is still open, or the run has ended.
    NotReady,
}

/// Rebuilds `run`, whose `run.request` is the entry `first`. Blocking.
pub(super) fn find(agent: &Agent, run: &RunId, first: u64) -> Result<FoundRun, ReadError> {
    let headers = entries(agent.ledger(), run, first)?;
    let status = headers.iter().rev().find(|header| header.is(Kind::RunReply));
    let status = status.and_then(|header| header.str("status")).and_then(RunStatus::parse);
    if status != Some(RunStatus::Waiting) {
        return Ok(FoundRun::NotReady);
    }
    let seqs: Vec<u64> = headers.iter().filter(|header| is_call(header)).map(|header| header.seq).collect();
    let calls = agent.gate().recall(run, &seqs)?;
    if calls.iter().any(|call| matches!(call.recall, Recall::Waiting)) {
        return Ok(FoundRun::NotReady);
    }
    let request = entry(agent.ledger(), first)?;
    let asked: RunRequestPayload = payload(&request)?;
    let provider = asked.provider.clone();
    let mut recalled = begun(agent, run, &request, &asked)?;
    let mut calls = VecDeque::from(calls);
    for header in headers.iter().filter(|header| header.is(Kind::ModelReply)) {
        // A reply cannot follow one that is open: the model is asked only after its calls are
        // settled.
        if recalled.open.is_some() {
            return Err(ReadError::Damaged(header.seq, "it follows a reply whose calls are open".to_owned()));
        }
        let stored = entry(agent.ledger(), header.seq)?;
        recalled
            .answered_by
            .extend(payload::<ModelReplyPayload>(&stored)?.named.filter(|name| name != ModelSink::DEFAULT));
        let reply = reply(&stored, &mut recalled.usage)?;
        // What the model had read when it wrote this, as recorded then.
        let labels = header.labels().unwrap_or_else(DataLabels::untrusted);
        recalled.begun.session = recalled.begun.session.after(&labels);
        recalled.rounds += 1;
        add_reply(&mut recalled, Labelled::new(agent.secrets().clean(reply), labels), &mut calls);
    }
    Ok(FoundRun::Ready(Box::new(recalled), provider))
}

/// The run's headers, from `first` on, by number.
fn entries(ledger: &Ledger, run: &RunId, first: u64) -> Result<Vec<Header>, ReadError> {
    let filter = Filter::field("run", run.as_str());
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
    matches!(
        header.known_kind(),
        Some(
            Kind::CallDecision
                | Kind::CallConnect
                | Kind::CallResult
                | Kind::ApprovalRequest
                | Kind::ApprovalGrant
                | Kind::ApprovalRefuse
        )
    )
}

fn entry(ledger: &Ledger, seq: u64) -> Result<Stored, ReadError> {
    ledger.reader().entry(seq)?.ok_or_else(|| ReadError::Damaged(seq, "it is missing".to_owned()))
}

/// The payload, if it was stored completely.
fn payload<P: Payload>(stored: &Stored) -> Result<P, ReadError> {
    stored.payload().ok_or_else(|| {
        ReadError::Damaged(
            stored.header.seq,
            "its payload is not stored completely, so the run cannot resume".to_owned(),
        )
    })
}

/// The run as it began.
fn begun(
    agent: &Agent,
    run: &RunId,
    request: &Stored,
    asked: &RunRequestPayload,
) -> Result<RecalledRun, ReadError> {
    let first = request.header.seq;
    let missing = |what: &str| ReadError::Damaged(first, format!("a run's request has no {what}"));
    let session_id = request.header.str("session").and_then(SessionId::parse);
    let session_id = session_id.ok_or_else(|| missing("session"))?;
    let calls_max = u32::try_from(asked.calls_max).map_err(|_| missing("bound of calls"))?;
    let calls_max = calls_max.min(limits::CALLS_PER_RUN_MAX);
    let source_ip = asked.source_ip.as_ref().and_then(|ip| ip.parse().ok());
    let channel = asked.channel.unwrap_or_else(|| Channel::unrecorded(asked.source_ip.is_some()));
    // An entry of an earlier version does not say: it came with a key, or without a server.
    let is_of_key = request.header.str("principal").is_some_and(|owner| owner.starts_with("key:"));
    let via = match asked.via.as_deref() {
        Some(word) => Via::parse(word).ok_or_else(|| missing("known door"))?,
        None if is_of_key => Via::Http,
        None => Via::Local,
    };
    let mut conversation = Conversation::new(Labelled::trusted(run::SYSTEM.to_owned()));
    if let Some(runbook) = asked.runbook.clone() {
        // The text that the model had, whatever its file says now.
        let runbook = agent.secrets().clean(run::recalled_runbook(runbook));
        conversation.give(Labelled::trusted(runbook));
    }
    let asked_for = agent.secrets().clean(asked.message.clone());
    let message = String::clone(&asked_for);
    // Labelled as recorded: the request came before everything else that the run read.
    let labels = request.header.labels().unwrap_or_else(DataLabels::untrusted);
    conversation.push_user(Labelled::new(asked_for, labels));
    let session = agent.session(session_id.as_str(), calls_max);
    Ok(RecalledRun {
        begun: Begun {
            run: run.clone(),
            session_id,
            session,
            door: Door { via, source_ip },
            channel,
            message,
        },
        first,
        conversation,
        steps: Vec::new(),
        usage: Usage::default(),
        rounds: 0,
        answered_by: Vec::new(),
        open: None,
    })
}

/// A reply of the model, read from its entry.
fn reply(stored: &Stored, usage: &mut Usage) -> Result<ModelReply, ReadError> {
    let recorded: ModelReplyPayload = payload(stored)?;
    usage.add(recorded.input_tokens, recorded.output_tokens);
    let parts = match recorded.parts {
        Some(parts) => run::recalled_parts(parts, &recorded.calls)
            .ok_or_else(|| ReadError::Damaged(stored.header.seq, "its parts are not its calls".to_owned()))?,
        None => Vec::new(),
    };
    let call = |CallProposed { id, tool, arguments }| ProposedCall { id, tool, arguments };
    let calls = recorded.calls.into_iter().map(call).collect();
    let reply = ModelReply::new(recorded.text, calls, Stop::ToolCalls);
    let parts = if parts.is_empty() { reply.parts } else { parts };
    Ok(ModelReply { parts, model: recorded.model, ..reply })
}

/// Adds a reply and the outcomes of its calls: to the conversation if all are settled, otherwise as
/// the open reply. The decisions follow the reply on the ledger, in the order of its calls.
fn add_reply(
    recalled: &mut RecalledRun,
    reply: Labelled<Clean<ModelReply>>,
    calls: &mut VecDeque<gate::Recalled>,
) {
    let mut parts = Vec::with_capacity(reply.calls.len());
    for call in &reply.calls {
        let at = match calls.pop_front() {
            None => PartState::Fresh,
            Some(known) => {
                recalled.steps.push(views::step(&known.record));
                recalled.begun.session.calls_used += 1;
                run::taint(&mut recalled.begun.session, &known.record);
                match known.recall {
                    Recall::Settled(result) => PartState::Settled(result),
                    Recall::Again(asked) => PartState::Again(asked),
                    Recall::Waiting => PartState::Waiting,
                }
            }
        };
        parts.push(Part { call: call.clone(), at });
    }
    if parts.iter().all(|part| matches!(part.at, PartState::Settled(_))) {
        recalled.conversation.push_reply(&reply);
        let results = parts.into_iter().filter_map(|part| match part.at {
            PartState::Settled(result) => Some(*result),
            PartState::Fresh | PartState::Again(_) | PartState::Waiting => None,
        });
        recalled.conversation.push_results(results.collect());
    } else {
        recalled.open = Some(OpenTurn { reply, parts, before: Vec::new() });
    }
}
