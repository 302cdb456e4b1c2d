//! The walk of one run, from its request to its reply.

use super::calls::{groups, is_read, put_message};
use super::ending::WalkEnd;
use super::fallback::Answered;
use super::held::asked_for;
use super::prompt;
use super::state::{self, RunWalk};
use super::turn::{Begun, Measured, OpenTurn, Part, PartState, RecalledRun, SessionHistory};
use crate::agent::answer::AnswerSchema;
use crate::agent::api::{RunError, RunReply, RunRequest, UnfitAnswer};
use crate::agent::news::{RecordedReply, RunBegun, RunNews, VoidReason};
use crate::agent::shared::Agent;
use crate::auth::Principal;
use crate::ledger::{AppendError, Receipt};
use crate::llm::{Conversation, ModelReply, Proposer, Provider};
use crate::policy::Door;
use crate::provenance::SourceTexts;
use crate::runbooks::GivenRunbook;
use crate::secrets::Clean;
use crate::types::{DataLabels, Labelled, RunId, SessionId, clock, limits};
use serde_json::Value;
use std::sync::Arc;

/// Walks `request` to its reply. Returns after the reply is durable.
pub(in crate::agent) async fn walk(
    agent: &Agent,
    principal: &Principal,
    door: Door,
    (request, schema): (RunRequest, Option<AnswerSchema>),
    provider: Arc<dyn Provider>,
    (session_id, history): (SessionId, Option<SessionHistory>),
) -> Result<RunReply, RunError> {
    let run = RunId::generate();
    let calls_max = request.limits.calls_max.unwrap_or(limits::CALLS_PER_RUN_MAX);
    let asked = request.tools.and(principal.ceiling());
    // What an earlier run of the session could not use, no later one can.
    let ceiling = history.as_ref().map_or(asked.clone(), |history| asked.and(&history.ceiling));
    let fresh = agent.session(session_id.as_str(), calls_max, &ceiling);
    // Text of this program.
    let system = Labelled::trusted(prompt::SYSTEM.to_owned());
    let (session, sources, conversation, measured) = match history {
        None => (fresh, SourceTexts::new(), Conversation::new(system), None),
        Some(history) => {
            let session = history.in_next_run(fresh);
            let SessionHistory { conversation, sources, measured, .. } = history;
            (session, sources, conversation.with_system(system), measured)
        }
    };
    let (channel, message) = (door.channel(), String::new());
    let begun = Begun { run, session_id, session, ceiling, door, channel, message, schema, sources };
    let mut walk = RunWalk::new(agent, principal, provider, begun, conversation);
    walk.measured = measured;
    let ended = walk.begin(request).await;
    walk.recorded(ended)
}

/// Resumes a run that waited, from the end of its entries.
pub(in crate::agent) async fn resume(
    agent: &Agent,
    principal: &Principal,
    provider: Arc<dyn Provider>,
    recalled: RecalledRun,
) -> Result<RunReply, RunError> {
    let RecalledRun { begun, first, conversation, steps, usage, rounds, answered_by, tools, .. } = recalled;
    let RecalledRun { measured, repairs, open, .. } = recalled;
    let mut walk = RunWalk::new(agent, principal, provider, begun, conversation);
    walk.repairs = repairs;
    (walk.first, walk.steps, walk.usage) = (first, steps, usage);
    (walk.rounds, walk.answered_by) = (rounds, answered_by);
    (walk.tools_recorded, walk.measured) = (tools, measured);
    let ended = walk.go(open).await;
    walk.recorded(ended)
}

impl RunWalk<'_> {
    fn recorded(&self, ended: Result<RunReply, AppendError>) -> Result<RunReply, RunError> {
        match ended {
            Ok(reply) => {
                let (status, calls) = (reply.status.as_str(), reply.steps.len());
                let principal = self.principal.id();
                tracing::info!(run = %self.run, %principal, status, calls, "run finished");
                Ok(reply)
            }
            Err(error) => {
                tracing::error!(run = %self.run, error = %error, "the run cannot be recorded, so no reply is returned");
                Err(error.into())
            }
        }
    }

    async fn begin(&mut self, request: RunRequest) -> Result<RunReply, AppendError> {
        // Wait 1: the request is durable before the model is asked.
        let message = self.agent.secrets().clean(request.message);
        self.message.clone_from(&message);
        self.tools_recorded = self.shown_tools();
        if let Some(runbook) = self.chosen_runbook() {
            // The operator's own words.
            let runbook = self.agent.secrets().clean(runbook);
            self.sources.add_trusted(&runbook.text);
            self.conversation.give(Labelled::trusted(runbook));
        }
        let before = vec![self.request_draft(&message)];
        let asked = asked_for(&message, self.schema.as_ref(), self.agent.secrets());
        let next = self.next_ask(self.conversation.bytes().saturating_add(asked.len()));
        let (receipts, cleared) = self.agent.gate().ask_model(before, next).await?;
        self.first = receipts.first().map_or(0, Receipt::seq);
        let (run, session) = (self.run.clone(), self.session_id.clone());
        self.agent.report(|| RunNews::Begun(RunBegun { run, session, seq: self.first }));
        self.cleared = cleared;
        // A person's own words.
        put_message(&mut self.sources, self.channel, &message, &DataLabels::default());
        self.conversation.push_user(Labelled::trusted(asked));
        match self.go(None).await {
            // Nothing was decided, so nothing runs. The end of the run is written as soon as there
            // is space.
            Err(AppendError::Full) => self.finish(WalkEnd::full()).await,
            ended => ended,
        }
    }

    /// The runbook that the message chooses, if a person typed it. What another program or another
    /// run passes on chooses none.
    fn chosen_runbook(&self) -> Option<GivenRunbook> {
        let is_typed = self.channel.is_typed();
        let is_call = self.provider.proposer() == Proposer::Person;
        let rules = self.agent.gate().rules();
        rules.bundle.runbooks().chosen(&self.message).filter(|_| is_typed && !is_call)
    }

    /// The loop. `open` is a reply to finish first.
    async fn go(&mut self, open: Option<OpenTurn>) -> Result<RunReply, AppendError> {
        let mut next = open;
        let ended = loop {
            let turn = match next.take() {
                Some(turn) => turn,
                None => match self.ask().await? {
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

    /// Asks the model. Returns a reply with calls, or the end of the run.
    async fn ask(&mut self) -> Result<Result<OpenTurn, WalkEnd>, AppendError> {
        loop {
            let reply = match self.next_reply().await? {
                Ok(reply) => reply,
                Err(ended) => return Ok(Err(ended)),
            };
            self.usage.add(reply.usage.input_tokens, reply.usage.output_tokens);
            self.measured =
                Measured::of(self.conversation.bytes(), reply.usage.input_tokens).or(self.measured);
            match self.held(&reply) {
                Some(Err(unfit)) => match unfit.repair.clone() {
                    Some(repair) => self.ask_again(&reply, unfit, &repair).await?,
                    None => return Ok(self.open(reply, Some(Err(unfit)))),
                },
                held => return Ok(self.open(reply, held)),
            }
        }
    }

    /// The next reply of the model, or the end of the run.
    async fn next_reply(&mut self) -> Result<Answered, AppendError> {
        if let Some(stop) = self.stop() {
            return Ok(Err(WalkEnd::by_a_person(&stop, Vec::new())));
        }
        if let Some(limit) = self.limit_reached() {
            return Ok(Err(WalkEnd::limit(limit, Vec::new())));
        }
        self.rounds += 1;
        // What the session has read since may have narrowed the tools that it may use.
        let (policy, offers) = state::offers(self.agent, self.principal, &self.session);
        self.offers_policy = policy;
        (self.offers_bytes, self.offers) = (state::length(&offers), offers);
        loop {
            let reply = match self.reply().await? {
                Ok(reply) => reply,
                Err(ended) => return Ok(Err(ended)),
            };
            if !reply.is_without_room() {
                return Ok(Ok(reply));
            }
            self.usage.add(reply.usage.input_tokens, reply.usage.output_tokens);
            let (before, asked) = (vec![self.reply_draft(&reply, None)], self.asked.clone());
            if let Some(ended) = self.fit_refused(before, &*asked).await? {
                return Ok(Err(ended));
            }
            self.rounds += 1;
        }
    }

    /// A reply with calls, or the end of the run.
    fn open(
        &mut self,
        reply: Labelled<Clean<ModelReply>>,
        held: Option<Result<Value, UnfitAnswer>>,
    ) -> Result<OpenTurn, WalkEnd> {
        let unfit = held.as_ref().and_then(|held| held.as_ref().err()).cloned();
        let before = vec![self.reply_draft(&reply, unfit.clone())];
        if let Some(why) = reply.stop.failure() {
            self.agent.report(|| RunNews::Void(VoidReason::Unusable));
            return Err(self.not_answered(&why, before));
        }
        self.unrecorded = Some(RecordedReply { unfit, ..self.said(&reply) });
        if reply.calls.is_empty() {
            return Err(self.answered(reply.into_parts().0, before, held));
        }
        if reply.calls.len() > limits::REPLY_CALLS_MAX {
            return Err(WalkEnd::limit("reply_calls_max", before));
        }
        let parts =
            reply.calls.iter().map(|call| Part { call: call.clone(), at: PartState::Fresh }).collect();
        Ok(OpenTurn { reply, parts, before })
    }

    /// Handles the calls of a reply, group by group. Returns the end of the run, if it ends.
    async fn take(&mut self, turn: OpenTurn) -> Result<Option<WalkEnd>, AppendError> {
        let OpenTurn { reply, mut parts, mut before } = turn;
        self.said.clone_from(&reply.text);
        let agent = self.agent;
        let mut told: usize = parts.iter().map(Part::told_bytes).sum();
        let mut open: Vec<&mut [Part]> = groups(&mut parts, |part| is_read(agent, &part.call.tool))
            .filter(|group| is_open(group))
            .collect();
        let last = open.len().saturating_sub(1);
        for (at, group) in open.iter_mut().enumerate() {
            if let Some(stop) = self.stop() {
                return Ok(Some(WalkEnd::by_a_person(&stop, before)));
            }
            if clock::mono_us() >= self.end_us {
                return Ok(Some(WalkEnd::limit("run_ms_max", before)));
            }
            let fresh = group.iter().filter(|part| matches!(part.at, PartState::Fresh)).count();
            if self.session.calls_used + i64::try_from(fresh).unwrap_or(i64::MAX) > self.session.budget {
                return Ok(Some(WalkEnd::limit("calls_per_run_max", before)));
            }
            // The next request to the model rides in the last commit before it.
            let next = (at == last).then(|| self.conversation.bytes_after(&reply, told));
            told = told.saturating_sub(group.iter().map(Part::told_bytes).sum());
            self.group(std::mem::take(&mut before), group, next).await?;
            told = told.saturating_add(group.iter().map(Part::told_bytes).sum());
            // Later calls may depend on these: they wait too.
            if group.iter().any(|part| matches!(part.at, PartState::Waiting)) {
                return Ok(Some(WalkEnd::waiting(before)));
            }
        }
        drop(open);
        let results = parts.into_iter().filter_map(|part| match part.at {
            PartState::Settled(result) => Some(*result),
            PartState::Fresh | PartState::Again(_) | PartState::Waiting => None,
        });
        // The reply and every result are durable: the model may read them.
        self.conversation.push_reply(&reply);
        self.conversation.push_results(results.collect());
        Ok(None)
    }
}

/// Whether a call of the group is not settled yet.
fn is_open(group: &[Part]) -> bool {
    group.iter().any(|part| !matches!(part.at, PartState::Settled(_)))
}
