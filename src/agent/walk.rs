//! The walk of one run, from its request to its reply.

use super::api::{RunError, RunReply, RunRequest, RunStatus, Step, Usage};
use super::shared::Agent;
use super::{connect, prompt, view};
use crate::auth::Principal;
use crate::call::{End, Execution};
use crate::gate::{Asked, Asking, CallRecord, Decided, Outcome, Pending, Permit, ToolResult};
use crate::ledger::payload::{
    CallProposed, ModelErrorPayload, ModelReplyPayload, RunRequestPayload, StopReason,
};
use crate::ledger::{AppendError, Draft, Payload};
use crate::llm::{
    Conversation, ModelError, ModelErrorKind, ModelReply, ModelRequest, Provider, Stop, ToolOffer,
};
use crate::policy::{Session, TaintSource, UNTRUSTED};
use crate::secrets::Clean;
use crate::tools::{Class, Manifest, ProposedCall};
use crate::types::{Decision, RunId, SessionId, clock, limits, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Walks `request` to its reply, and returns after the reply is durable.
pub(super) async fn walk(
    agent: &Agent,
    principal: &Principal,
    source_ip: Option<IpAddr>,
    request: RunRequest,
    provider: Arc<dyn Provider>,
) -> Result<RunReply, RunError> {
    let (run, session_id) = (RunId::generate(), SessionId::generate());
    let calls_max = request.limits.calls_max.unwrap_or(limits::CALLS_PER_RUN_MAX);
    let session = agent.session(session_id.as_str(), calls_max);
    let mut walk = RunWalk::new(agent, principal, provider, Begun { run, session_id, session, source_ip });
    let ended = walk.begin(request).await;
    walk.recorded(ended)
}

/// Goes on with a run that waited, from where its entries end.
pub(super) async fn go_on(
    agent: &Agent,
    principal: &Principal,
    provider: Arc<dyn Provider>,
    recalled: RecalledRun,
) -> Result<RunReply, RunError> {
    let RecalledRun { begun, first, conversation, steps, usage, rounds, open } = recalled;
    let mut walk = RunWalk::new(agent, principal, provider, begun);
    (walk.first, walk.steps, walk.usage) = (first, steps, usage);
    (walk.conversation, walk.rounds) = (conversation, rounds);
    let ended = walk.go(open).await;
    walk.recorded(ended)
}

/// What is settled when a run begins.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) run: RunId,
    pub(super) session_id: SessionId,
    pub(super) session: Session,
    pub(super) source_ip: Option<IpAddr>,
}

/// A run as its entries tell it, up to where it goes on.
#[derive(Debug)]
pub(super) struct RecalledRun {
    pub(super) begun: Begun,
    /// The number of the `run.request`.
    pub(super) first: u64,
    /// All that the model was told and has said, but for the reply that is open.
    pub(super) conversation: Conversation,
    pub(super) steps: Vec<Step>,
    pub(super) usage: Usage,
    /// Replies of the model.
    pub(super) rounds: u32,
    /// A reply whose calls are not all settled.
    pub(super) open: Option<OpenTurn>,
}

/// A reply of the model on its way: each of its calls, and the entries that wait for the next commit.
#[derive(Debug)]
pub(super) struct OpenTurn {
    pub(super) reply: Clean<ModelReply>,
    pub(super) parts: Vec<Part>,
    pub(super) before: Vec<Draft>,
}

/// A call of a reply.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) call: ProposedCall,
    pub(super) at: PartState,
}

/// How far a call has come.
#[derive(Debug)]
pub(super) enum PartState {
    /// It was not decided yet.
    Fresh,
    /// A person was asked about it: it is decided again.
    Again(Asked),
    /// It waits for a person.
    Waiting,
    /// Its outcome is durable.
    Told(Box<ToolResult>),
}

struct RunWalk<'a> {
    agent: &'a Agent,
    principal: &'a Principal,
    source_ip: Option<IpAddr>,
    provider: Arc<dyn Provider>,
    run: RunId,
    session_id: SessionId,
    session: Session,
    /// What the model was shown last.
    offers: Vec<ToolOffer>,
    /// What the model said beside the calls of its last reply.
    said: Option<String>,
    conversation: Conversation,
    steps: Vec<Step>,
    usage: Usage,
    /// Replies of the model so far.
    rounds: u32,
    /// When the run's time is over, on the monotonic clock.
    end_us: u64,
    /// The number of the `run.request`.
    first: u64,
}

/// How a run ends, with the entries that are still to be written before its reply.
struct WalkEnd {
    before: Vec<Draft>,
    status: RunStatus,
    answer: Option<String>,
    limit: Option<&'static str>,
}

impl WalkEnd {
    fn limit(name: &'static str, before: Vec<Draft>) -> Self {
        let answer = Some(format!("the run reached its limit `{name}`"));
        Self { before, status: RunStatus::Limit, answer, limit: Some(name) }
    }

    fn full() -> Self {
        let answer = Some("the run ended early: the disk under the ledger is full".to_owned());
        Self { before: Vec::new(), status: RunStatus::Failed, answer, limit: None }
    }
}

impl<'a> RunWalk<'a> {
    fn new(agent: &'a Agent, principal: &'a Principal, provider: Arc<dyn Provider>, begun: Begun) -> Self {
        let Begun { run, session_id, session, source_ip } = begun;
        let offers = offers(agent, principal, &session);
        RunWalk {
            agent,
            principal,
            source_ip,
            provider,
            run,
            session_id,
            offers,
            said: None,
            session,
            conversation: Conversation::new(prompt::SYSTEM.to_owned()),
            steps: Vec::new(),
            usage: Usage::default(),
            rounds: 0,
            end_us: clock::mono_us() + limits::RUN_MS_MAX * 1_000,
            first: 0,
        }
    }

    fn recorded(&self, ended: Result<RunReply, AppendError>) -> Result<RunReply, RunError> {
        match ended {
            Ok(reply) => {
                let (status, calls) = (reply.status.as_str(), reply.steps.len());
                let principal = self.principal.id();
                tracing::info!(run = %self.run, %principal, status, calls, "the run was answered");
                Ok(reply)
            }
            Err(error) => {
                tracing::error!(run = %self.run, error = %error, "the run cannot be recorded and is not answered");
                Err(RunError::Ledger(error.to_string()))
            }
        }
    }

    async fn begin(&mut self, request: RunRequest) -> Result<RunReply, AppendError> {
        // Wait 1: the request is durable before the model is asked.
        let message = self.agent.secrets().clean(request.message);
        let asked = self.agent.ledger().append_one(self.request_draft(&message)).await?;
        self.first = asked.seq();
        self.conversation.push_user(message);
        match self.go(None).await {
            // Nothing was decided, so nothing more runs; that the run ended is written as soon as there is space.
            Err(AppendError::Full) => self.finish(WalkEnd::full()).await,
            ended => ended,
        }
    }

    /// The loop: `open` is a reply that is to be finished first.
    async fn go(&mut self, open: Option<OpenTurn>) -> Result<RunReply, AppendError> {
        let mut next = open;
        let ended = loop {
            let turn = match next.take() {
                Some(turn) => turn,
                None => match self.ask().await {
                    Ok(turn) => turn,
                    Err(ended) => break ended,
                },
            };
            if let Some(ended) = self.take(turn).await? {
                break ended;
            }
        };
        self.finish(ended).await
    }

    /// Asks the model: a reply with calls, or the end of the run.
    async fn ask(&mut self) -> Result<OpenTurn, WalkEnd> {
        if let Some(limit) = self.limit_reached() {
            return Err(WalkEnd::limit(limit, Vec::new()));
        }
        self.rounds += 1;
        // What the session has seen since may have narrowed what it may use.
        let offers = offers(self.agent, self.principal, &self.session);
        let are_others =
            offers.iter().map(|offer| &offer.name).ne(self.offers.iter().map(|offer| &offer.name));
        self.offers = offers;
        let asked = ModelRequest {
            conversation: &self.conversation,
            tools: &self.offers,
            deadline: self.model_deadline(),
        };
        // Text and arguments are put together from pieces, and read from escapes: they are looked through as they are now.
        let reply = match self.provider.complete(&asked).await {
            Ok(reply) => self.agent.secrets().clean(reply),
            Err(error) => return Err(self.model_failed(&error)),
        };
        add(&mut self.usage, reply.usage.input_tokens, reply.usage.output_tokens);
        let before = vec![self.reply_draft(&reply, are_others)];
        if reply.calls.is_empty() {
            return Err(self.answered(reply, before));
        }
        if reply.calls.len() > limits::REPLY_CALLS_MAX {
            return Err(WalkEnd::limit("reply_calls_max", before));
        }
        let parts =
            reply.calls.iter().map(|call| Part { call: call.clone(), at: PartState::Fresh }).collect();
        Ok(OpenTurn { reply, parts, before })
    }

    /// The calls of a reply, group by group; returns how the run ends, if it does.
    async fn take(&mut self, turn: OpenTurn) -> Result<Option<WalkEnd>, AppendError> {
        let OpenTurn { reply, mut parts, mut before } = turn;
        self.said.clone_from(&reply.text);
        let agent = self.agent;
        for group in groups(&mut parts, |part| is_read(agent, &part.call.tool)) {
            if group.iter().all(|part| matches!(part.at, PartState::Told(_))) {
                continue;
            }
            if clock::mono_us() >= self.end_us {
                return Ok(Some(WalkEnd::limit("run_ms_max", before)));
            }
            let fresh = group.iter().filter(|part| matches!(part.at, PartState::Fresh)).count();
            if self.session.calls_used + i64::try_from(fresh).unwrap_or(i64::MAX) > self.session.budget {
                return Ok(Some(WalkEnd::limit("calls_per_run_max", before)));
            }
            self.group(std::mem::take(&mut before), group).await?;
            // What comes behind is to see what these calls did: it waits with them.
            if group.iter().any(|part| matches!(part.at, PartState::Waiting)) {
                let answer = Some("a call waits for a person's approval".to_owned());
                return Ok(Some(WalkEnd { before, status: RunStatus::Waiting, answer, limit: None }));
            }
        }
        let told = parts.into_iter().filter_map(|part| match part.at {
            PartState::Told(result) => Some(*result),
            PartState::Fresh | PartState::Again(_) | PartState::Waiting => None,
        });
        // The reply and every result are durable: the model may read them.
        self.conversation.push_reply(&reply);
        self.conversation.push_results(told.collect());
        Ok(None)
    }

    /// A group of calls: all prepared and decided in order, committed together, run side by side,
    /// settled together.
    async fn group(&mut self, before: Vec<Draft>, parts: &mut [Part]) -> Result<(), AppendError> {
        let mut decided = Vec::with_capacity(parts.len());
        let mut places = Vec::with_capacity(parts.len());
        for part in parts.iter_mut() {
            decided.push(match std::mem::replace(&mut part.at, PartState::Waiting) {
                PartState::Fresh => {
                    let decided = self.decide(part.call.clone()).await;
                    self.session.calls_used += 1;
                    decided
                }
                PartState::Again(asked) => self.decide_again(part.call.clone(), asked).await,
                settled => {
                    part.at = settled;
                    continue;
                }
            });
            places.push(part);
        }
        // Wait 2: reply and decisions are durable before anything runs.
        let outcomes = self.agent.gate().commit(before, decided).await?;
        let (mut permits, mut running, mut steps) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (place, (part, outcome)) in places.into_iter().zip(outcomes).enumerate() {
            match outcome {
                Outcome::Permit(permit) => {
                    permits.push(*permit);
                    running.push((place, part));
                }
                Outcome::Wait(waiting) => {
                    steps.insert(place, waiting.record().clone());
                }
                Outcome::Refused(result) => {
                    steps.insert(place, result.record().clone());
                    part.at = PartState::Told(Box::new(result));
                }
            }
        }
        if !permits.is_empty() {
            let ran = self.execute(permits).await;
            // Wait 3: results are durable before the model is told.
            for ((place, part), result) in running.into_iter().zip(self.agent.gate().settle(ran).await?) {
                steps.insert(place, result.record().clone());
                part.at = PartState::Told(Box::new(result));
            }
        }
        for record in steps.values() {
            self.put_step(record);
            taint(&mut self.session, record);
        }
        Ok(())
    }

    /// A step for a call, in the place of an earlier one: a call that waited has one.
    fn put_step(&mut self, record: &CallRecord) {
        let step = view::step(record);
        match self.steps.iter_mut().find(|known| known.call == step.call) {
            Some(known) => *known = step,
            None => self.steps.push(step),
        }
    }

    async fn decide(&self, call: ProposedCall) -> Decided {
        let (gate, asking) = (self.agent.gate(), self.asking());
        match gate.validate(&asking, call) {
            Ok(valid) => self.prepare(&asking, gate.open(valid)).await,
            Err(invalid) => gate.refuse(&asking, invalid),
        }
    }

    /// A call that a person was asked about takes every step anew.
    async fn decide_again(&self, call: ProposedCall, asked: Asked) -> Decided {
        let (gate, asking) = (self.agent.gate(), self.asking());
        match gate.validate(&asking, call) {
            Ok(valid) => self.prepare(&asking, gate.reopen(valid, asked)).await,
            Err(invalid) => gate.refuse_again(&asking, invalid, asked),
        }
    }

    async fn prepare(&self, asking: &Asking<'_>, pending: Pending) -> Decided {
        match self.agent.launcher().prepare(&pending).await {
            Ok(prepared) => self.agent.gate().decide(asking, pending, prepared),
            Err(error) => {
                let why = self.agent.secrets().clean(format!("the sandbox: {error}"));
                self.agent.gate().deny_unprepared(asking, pending, &why)
            }
        }
    }

    fn asking(&self) -> Asking<'_> {
        Asking {
            principal: self.principal,
            run: &self.run,
            session_id: &self.session_id,
            session: &self.session,
            source_ip: self.source_ip,
            said: self.said.as_deref(),
        }
    }

    async fn execute(&self, permits: Vec<Permit>) -> Vec<(crate::gate::Running, Execution)> {
        let mut started = Vec::with_capacity(permits.len());
        for permit in permits {
            let launcher = self.agent.launcher().clone();
            started.push(match permit.begin() {
                Ok((order, running)) => (running, Ok(tokio::spawn(connect::run(launcher, order)))),
                Err(running) => (running, Err(End::Refused { reason: "the permit had expired".to_owned() })),
            });
        }
        let mut ran = Vec::with_capacity(started.len());
        for (running, started) in started {
            let execution = match started {
                Ok(task) => task.await.unwrap_or_else(|_| Execution::without_output(End::Killed)),
                Err(end) => Execution::without_output(end),
            };
            ran.push((running, execution));
        }
        ran
    }

    fn answered(&self, reply: Clean<ModelReply>, before: Vec<Draft>) -> WalkEnd {
        let reply = reply.into_inner();
        let refusal = match reply.stop {
            Stop::Refusal(why) => Some(why),
            _ => None,
        };
        let answer = reply.text.or(refusal).filter(|text| !text.trim().is_empty());
        let denied = self.last_calls_denied();
        let status = match (&answer, denied) {
            (Some(_), _) => RunStatus::Done,
            (None, true) => RunStatus::Denied,
            // A direct call has a result and no words; a model without words has failed.
            (None, false) if self.provider.name() == "direct" => RunStatus::Done,
            (None, false) => RunStatus::Failed,
        };
        WalkEnd { before, status, answer, limit: None }
    }

    /// Whether every call of the last reply was denied.
    fn last_calls_denied(&self) -> bool {
        let last = self.conversation.messages().iter().rev();
        let count = last.take_while(|message| matches!(message, crate::llm::Message::Tool { .. })).count();
        count > 0 && self.steps.iter().rev().take(count).all(|step| step.decision == Decision::Deny)
    }

    fn model_failed(&self, error: &ModelError) -> WalkEnd {
        let (raw, raw_base64) = error.raw.as_deref().map(told_raw).unwrap_or_default();
        let draft = self.draft(ModelErrorPayload {
            provider: self.provider.name().to_owned(),
            error: error.to_string(),
            raw,
            raw_base64,
            secrets: error.found.counts(),
        });
        if error.kind == ModelErrorKind::Timeout && clock::mono_us() >= self.end_us {
            return WalkEnd::limit("run_ms_max", vec![draft]);
        }
        let answer = Some(format!("the model did not answer: {error}"));
        WalkEnd { before: vec![draft], status: RunStatus::Failed, answer, limit: None }
    }

    async fn finish(&mut self, ended: WalkEnd) -> Result<RunReply, AppendError> {
        let WalkEnd { before, status, answer, limit } = ended;
        let mut reply = RunReply {
            run: self.run.clone(),
            session: self.session_id.clone(),
            status,
            answer: answer.map(|words| shown(&words)),
            limit: limit.map(str::to_owned),
            steps: std::mem::take(&mut self.steps),
            usage: self.usage,
            ledger: None,
        };
        let mut drafts = before;
        drafts.push(Draft { status: Some(status.as_str()), ..self.draft(reply.payload()) });
        // Wait 4: the reply is durable before anyone is told.
        let receipt = self.agent.ledger().append_owed(drafts).await?.pop().ok_or(AppendError::Closed)?;
        reply.ledger = Some(view::range(self.first, &receipt));
        Ok(reply)
    }

    fn limit_reached(&self) -> Option<&'static str> {
        if self.rounds >= limits::MODEL_ROUNDS_MAX {
            Some("model_rounds_max")
        } else if self.conversation.bytes() > limits::CONTEXT_BYTES_MAX {
            Some("context_bytes_max")
        } else if clock::mono_us() >= self.end_us {
            Some("run_ms_max")
        } else if self.agent.is_full(self.principal) {
            Some("key_bytes_hour_max")
        } else {
            None
        }
    }

    fn model_deadline(&self) -> Duration {
        let left = Duration::from_micros(self.end_us.saturating_sub(clock::mono_us()));
        left.min(Duration::from_millis(limits::MODEL_MS_MAX))
    }

    fn request_draft(&self, message: &Clean<String>) -> Draft {
        self.draft(RunRequestPayload {
            message: String::clone(message),
            calls_max: self.session.budget.unsigned_abs(),
            tools: self.shown_tools(),
            provider: self.provider.name().to_owned(),
            model: self.provider.model().to_owned(),
            source_ip: self.source_ip.map(|ip| ip.to_string()),
            secrets: message.found().counts(),
        })
    }

    /// Names of the tools that the model is shown.
    fn shown_tools(&self) -> Vec<String> {
        self.offers.iter().map(|offer| offer.name.clone()).collect()
    }

    /// The reply with the exact bytes of the model, but for secrets. What it was asked is the digest of the request's
    /// bytes, and the messages are those on the ledger before.
    fn reply_draft(&self, reply: &Clean<ModelReply>, are_tools_others: bool) -> Draft {
        let call = |call: &ProposedCall| CallProposed {
            id: call.id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        };
        let (stop, stop_text) = told_stop(&reply.stop);
        let (raw, raw_base64) = told_raw(&reply.raw);
        self.draft(ModelReplyPayload {
            model: reply.model.clone(),
            request_sha256: reply.request_digest,
            request_messages: self.conversation.messages().len() as u64,
            calls: reply.calls.iter().map(call).collect(),
            stop,
            stop_text,
            input_tokens: exact(reply.usage.input_tokens),
            output_tokens: exact(reply.usage.output_tokens),
            text: reply.text.clone(),
            tools: are_tools_others.then(|| self.shown_tools()),
            raw,
            raw_base64,
            secrets: reply.found().counts(),
        })
    }

    fn draft(&self, payload: impl Payload) -> Draft {
        Draft {
            run: Some(self.run.clone()),
            session: Some(self.session_id.clone()),
            principal: Some(self.principal.id()),
            policy: Some(self.agent.gate().rules().bundle.digest()),
            ..Draft::new(payload)
        }
    }
}

/// The tools as a model is shown them.
fn offers(agent: &Agent, principal: &Principal, session: &Session) -> Vec<ToolOffer> {
    let offer = |m: &Arc<Manifest>| ToolOffer {
        name: m.name.clone(),
        summary: m.summary.clone(),
        input: m.input_shown(),
    };
    agent.gate().offered(principal, session).iter().map(offer).collect()
}

/// Neighbouring reads are one group; every other call is a group of its own, so that it is prepared
/// only after the one before it is settled.
fn groups<T>(calls: &mut [T], is_read: impl Fn(&T) -> bool) -> impl Iterator<Item = &mut [T]> {
    calls.chunk_by_mut(move |a, b| is_read(a) && is_read(b))
}

fn is_read(agent: &Agent, tool: &str) -> bool {
    agent.gate().rules().catalog.find(tool).is_none_or(|manifest| manifest.class == Class::Read)
}

/// What a result that was told leaves in the session.
pub(super) fn taint(session: &mut Session, record: &CallRecord) {
    let Some(result) = record.result_seq.filter(|_| record.taints) else { return };
    session.taint.insert(UNTRUSTED.to_owned());
    let source = TaintSource {
        tool: record.tool.clone(),
        resource: record.resource.clone().unwrap_or_default(),
        result,
    };
    session.tainted_by.push(source);
}

/// Adds one reply of the model to what it cost.
pub(super) fn add(usage: &mut Usage, input_tokens: u64, output_tokens: u64) {
    usage.model_calls += 1;
    usage.input_tokens = exact(usage.input_tokens.saturating_add(input_tokens));
    usage.output_tokens = exact(usage.output_tokens.saturating_add(output_tokens));
}

/// An answer as it is told: nothing hidden in it, and no longer than a reply can hold. Making it visible
/// can make it nine times as long.
fn shown(words: &str) -> String {
    let whole = text::visible(words);
    match text::prefix(&whole, limits::ANSWER_BYTES_MAX) {
        kept if kept.len() == whole.len() => whole,
        kept => format!("{kept}\n[cut: {} of {} bytes]", kept.len(), whole.len()),
    }
}

/// A server's own count, kept within what every JSON reader reads alike.
fn exact(count: u64) -> u64 {
    count.min(crate::types::json::INTEGER_MAX.unsigned_abs())
}

/// Why a model stopped, in the words of the ledger.
fn told_stop(stop: &Stop) -> (StopReason, Option<String>) {
    match stop {
        Stop::EndTurn => (StopReason::EndTurn, None),
        Stop::ToolCalls => (StopReason::ToolCalls, None),
        Stop::Length => (StopReason::Length, None),
        Stop::Refusal(why) => (StopReason::Refusal, Some(why.clone())),
        Stop::Other(word) => (StopReason::Other, Some(word.clone())),
    }
}

/// A server's bytes: as text, else in base64.
fn told_raw(raw: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(raw) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(raw))),
    }
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn neighbouring_reads_go_together_and_nothing_else_does() {
        let check = |tools: &str, expect: &str| {
            let mut calls: Vec<char> = tools.chars().collect();
            let made: Vec<String> =
                groups(&mut calls, |tool| *tool == 'r').map(|group| group.iter().collect()).collect();
            assert_eq!(made.join("|"), expect);
        };
        check("rrr", "rrr");
        check("rwr", "r|w|r");
        check("wwrr", "w|w|rr");
        check("", "");
    }
}
