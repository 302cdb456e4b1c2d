//! A run rebuilt from its entries: the request, the model's replies and the results of its calls.
//!
//! The conversation is rebuilt only from the run's entries, so that a restart does not change what
//! the model reads.

use super::sent::{SentRequests, system_prompt};
use crate::agent::answer::AnswerSchema;
use crate::agent::api::Usage;
use crate::agent::run::{self, Begun, Measured, OpenTurn, Part, PartState, RecalledRun, SessionHistory};
use crate::agent::shared::Agent;
use crate::agent::views;
use crate::gate::{self, Recall};
use crate::ledger::payload::{
    CallProposed, ContextTrimPayload, ModelErrorPayload, ModelReplyPayload, RequestedSchema,
    RunRequestPayload, SentForm, StopReason,
};
use crate::ledger::{Header, Kind, Ledger, Payload, ReadError, Stored};
use crate::llm::{Conversation, ModelReply, Stop};
use crate::policy::{Door, Via};
use crate::provenance::SourceTexts;
use crate::secrets::Clean;
use crate::tools::ProposedCall;
use crate::types::{Channel, DataLabels, Digest, Labelled, ModelSink, RunId, SessionId, limits};
use std::collections::VecDeque;

/// A request that was built again.
#[derive(Debug)]
pub(super) struct RebuiltRequest {
    /// The entry of what came of it.
    pub(super) seq: u64,
    /// The digest of its bytes, as recorded there.
    pub(super) recorded: Digest,
    /// Its bytes.
    pub(super) body: Vec<u8>,
}

impl RebuiltRequest {
    /// Whether it is byte for byte the request that was sent.
    pub(super) fn is_same(&self) -> bool {
        Digest::sha256(&self.body) == self.recorded
    }
}

/// Rebuilds a run from its entries, the first of which is its `run.request`. `calls` are its calls,
/// and `history` is what its session held when it began. Returns the name of its provider too.
/// `seen` gets each request that the entries describe.
pub(super) fn rebuilt(
    agent: &Agent,
    run: &RunId,
    headers: &[Header],
    calls: Vec<gate::Recalled>,
    history: Option<SessionHistory>,
    mut seen: impl FnMut(RebuiltRequest),
) -> Result<(RecalledRun, String), ReadError> {
    let first = headers.first().ok_or_else(|| ReadError::Damaged(0, "the run has no entry".to_owned()))?;
    let request = entry(agent.ledger(), first.seq)?;
    let asked: RunRequestPayload = payload(&request)?;
    let recalled = begun(agent, run, &request, &asked, history)?;
    let mut rebuilding = Rebuilding { agent, recalled, calls: VecDeque::from(calls) };
    let mut sent = SentRequests::knowing(agent);
    for header in headers {
        if header.is(Kind::ContextTrim) {
            let trim: ContextTrimPayload = payload(&entry(agent.ledger(), header.seq)?)?;
            rebuilding.recalled.conversation.leave_out(&trim.left_out);
        }
        let Some(outcome) = rebuilding.outcome(header)? else { continue };
        let RecalledRun { conversation, tools, .. } = &rebuilding.recalled;
        if let Some((form, recorded)) = outcome.request()
            && let Some(body) = sent.body(header.seq, form, conversation, tools)?
        {
            seen(RebuiltRequest { seq: header.seq, recorded, body });
        }
        rebuilding.take(header, outcome)?;
    }
    Ok((rebuilding.recalled, asked.provider))
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
    history: Option<SessionHistory>,
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
    let system = system_prompt(agent.ledger(), first, asked.system_sha256)?;
    let system = Labelled::trusted(system);
    // The key's share of the ceiling is in the record, and so is that of earlier runs.
    let fresh = agent.session(session_id.as_str(), calls_max, &asked.ceiling);
    let (session, mut sources, mut conversation, measured) = match history {
        None => (fresh, SourceTexts::new(), Conversation::new(system), None),
        Some(history) => {
            let session = history.in_next_run(fresh);
            let SessionHistory { conversation, sources, measured, .. } = history;
            (session, sources, conversation.with_system(system), measured)
        }
    };
    if let Some(runbook) = asked.runbook.clone() {
        // The text that the model had, whatever its file says now.
        let runbook = agent.secrets().clean(run::recalled_runbook(runbook));
        sources.add_trusted(&runbook.text);
        conversation.give(Labelled::trusted(runbook));
    }
    let asked_for = agent.secrets().clean(asked.message.clone());
    let message = String::clone(&asked_for);
    let (asked_for, schema) = match &asked.response_schema {
        None => (asked_for, None),
        Some(RequestedSchema { words, schema }) => {
            let read = AnswerSchema::recorded(schema.clone(), agent.secrets());
            let read = read.map_err(|_| ReadError::Damaged(first, "its schema cannot be read".to_owned()))?;
            (run::with_schema(&message, words, read.text(), agent.secrets()), Some(read))
        }
    };
    // Labelled as recorded: the request came before everything else that the run read.
    let labels = request.header.labels().unwrap_or_else(DataLabels::untrusted);
    run::put_message(&mut sources, channel, &message, &labels);
    conversation.push_user(Labelled::new(asked_for, labels));
    Ok(RecalledRun {
        begun: Begun {
            run: run.clone(),
            session_id,
            session,
            ceiling: asked.ceiling.clone(),
            door: Door { via, source_ip },
            channel,
            message,
            schema,
            sources,
        },
        first,
        conversation,
        steps: Vec::new(),
        usage: Usage::default(),
        rounds: 0,
        answered_by: Vec::new(),
        tools: asked.tools.clone(),
        measured,
        repairs: 0,
        open: None,
        last: None,
    })
}

/// What came of a request to the model.
enum ModelOutcome {
    Reply(Box<ModelReplyPayload>),
    Error(Box<ModelErrorPayload>),
}

impl ModelOutcome {
    /// What the request was made of next to the conversation, and its digest.
    fn request(&self) -> Option<(&SentForm, Digest)> {
        match self {
            Self::Reply(reply) => Some((reply.sent.as_ref()?, reply.request_sha256)),
            Self::Error(error) => Some((error.sent.as_ref()?, error.request_sha256?)),
        }
    }

    fn tools(&self) -> Option<&Vec<String>> {
        match self {
            Self::Reply(reply) => reply.tools.as_ref(),
            Self::Error(error) => error.tools.as_ref(),
        }
    }
}

/// A run that is being rebuilt, entry by entry.
struct Rebuilding<'a> {
    agent: &'a Agent,
    recalled: RecalledRun,
    /// Its calls that no reply has taken yet, in order.
    calls: VecDeque<gate::Recalled>,
}

impl Rebuilding<'_> {
    /// Reads what came of a request, if the entry says that. The state is still as the request was
    /// made from it.
    fn outcome(&mut self, header: &Header) -> Result<Option<ModelOutcome>, ReadError> {
        let outcome = match header.known_kind() {
            Some(Kind::ModelReply) => {
                ModelOutcome::Reply(Box::new(payload(&entry(self.agent.ledger(), header.seq)?)?))
            }
            // One that was erased changes nothing in the conversation.
            Some(Kind::ModelError) => match entry(self.agent.ledger(), header.seq)?.payload() {
                Some(error) => ModelOutcome::Error(Box::new(error)),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        if let Some(tools) = outcome.tools() {
            self.recalled.tools.clone_from(tools);
        }
        Ok(Some(outcome))
    }

    fn take(&mut self, header: &Header, outcome: ModelOutcome) -> Result<(), ReadError> {
        let ModelOutcome::Reply(recorded) = outcome else { return Ok(()) };
        // A reply cannot follow one that is open: the model is asked only after its calls are
        // settled.
        if self.recalled.open.is_some() {
            return Err(ReadError::Damaged(header.seq, "it follows a reply whose calls are open".to_owned()));
        }
        self.recalled.answered_by.extend(recorded.named.clone().filter(|name| name != ModelSink::DEFAULT));
        let bytes = self.recalled.conversation.bytes();
        self.recalled.measured = Measured::of(bytes, recorded.input_tokens).or(self.recalled.measured);
        self.recalled.usage.add(recorded.input_tokens, recorded.output_tokens);
        let repair = recorded.unfit.as_ref().and_then(|unfit| unfit.repair.clone());
        let is_usable = !matches!(recorded.stop, StopReason::Truncated | StopReason::Cut);
        let reply = reply(header.seq, *recorded)?;
        // What the model had read when it wrote this, as recorded then.
        let labels = header.labels().unwrap_or_else(DataLabels::untrusted);
        self.recalled.begun.session = self.recalled.begun.session.after(&labels);
        self.recalled.rounds += 1;
        let reply = Labelled::new(self.agent.secrets().clean(reply), labels);
        match repair {
            Some(repair) => {
                let repair = self.agent.secrets().clean(repair);
                self.recalled.repairs += 1;
                self.recalled.conversation.push_reply(&reply);
                self.recalled.conversation.push_user(Labelled::trusted(repair));
            }
            None => self.add(reply, is_usable),
        }
        Ok(())
    }

    /// Adds a reply and the outcomes of its calls: to the conversation if all are settled,
    /// otherwise as the open reply. The decisions follow the reply on the ledger, in the order of
    /// its calls.
    fn add(&mut self, reply: Labelled<Clean<ModelReply>>, is_usable: bool) {
        if reply.calls.is_empty() {
            // It is the last one, or there was no room for it: no request of this run has it.
            let has_words = reply.text.as_ref().is_some_and(|text| !text.trim().is_empty());
            let is_refusal = matches!(reply.stop, Stop::Refusal(_));
            self.recalled.last = Some(reply).filter(|_| is_usable && (has_words || is_refusal));
            return;
        }
        self.recalled.last = None;
        let Self { recalled, calls, .. } = self;
        let mut parts = Vec::with_capacity(reply.calls.len());
        for call in &reply.calls {
            let at = match calls.pop_front() {
                None => PartState::Fresh,
                Some(known) => {
                    recalled.steps.push(views::step(&known.record));
                    recalled.begun.session.calls_used += 1;
                    let Begun { session, sources, .. } = &mut recalled.begun;
                    run::take_in(session, sources, &known.record);
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
}

/// A reply of the model, as recorded in the entry `seq`.
fn reply(seq: u64, recorded: ModelReplyPayload) -> Result<ModelReply, ReadError> {
    let parts = match recorded.parts {
        Some(parts) => run::recalled_parts(parts, &recorded.calls)
            .ok_or_else(|| ReadError::Damaged(seq, "its parts are not its calls".to_owned()))?,
        None => Vec::new(),
    };
    let call = |CallProposed { id, tool, arguments }| ProposedCall { id, tool, arguments };
    let calls = recorded.calls.into_iter().map(call).collect();
    // A refusal is in the conversation by its words. No other reason to stop is.
    let stop = match (recorded.stop, recorded.stop_text) {
        (StopReason::Refusal, Some(why)) => Stop::Refusal(why),
        _ => Stop::ToolCalls,
    };
    let reply = ModelReply::new(recorded.text, calls, stop);
    let parts = if parts.is_empty() { reply.parts } else { parts };
    Ok(ModelReply { parts, model: recorded.model, ..reply })
}
