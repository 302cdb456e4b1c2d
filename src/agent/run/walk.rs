//! The walk of one run, from its request to its reply.

use super::calls::{groups, is_read};
use super::ending::WalkEnd;
use super::entries;
use super::state::{self, RunWalk};
use super::turn::{Begun, OpenTurn, Part, PartState, RecalledRun};
use crate::agent::api::{AnswerBy, RunError, RunReply, RunRequest, RunStatus};
use crate::agent::shared::Agent;
use crate::auth::Principal;
use crate::ledger::AppendError;
use crate::llm::Provider;
use crate::policy::Door;
use crate::types::{RunId, SessionId, clock, limits};
use std::sync::Arc;

/// Walks `request` to its reply. Returns after the reply is durable.
pub(in crate::agent) async fn walk(
    agent: &Agent,
    principal: &Principal,
    door: Door,
    request: RunRequest,
    provider: Arc<dyn Provider>,
) -> Result<RunReply, RunError> {
    let (run, session_id) = (RunId::generate(), SessionId::generate());
    let calls_max = request.limits.calls_max.unwrap_or(limits::CALLS_PER_RUN_MAX);
    let session = agent.session(session_id.as_str(), calls_max);
    let channel = door.channel();
    let begun = Begun { run, session_id, session, door, channel, message: String::new() };
    let mut walk = RunWalk::new(agent, principal, provider, begun);
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
    let RecalledRun { begun, first, conversation, steps, usage, rounds, answered_by, open } = recalled;
    let mut walk = RunWalk::new(agent, principal, provider, begun);
    (walk.first, walk.steps, walk.usage) = (first, steps, usage);
    (walk.conversation, walk.rounds, walk.answered_by) = (conversation, rounds, answered_by);
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
        let asked = self.agent.ledger().append_one(self.request_draft(&message)).await?;
        self.first = asked.seq();
        self.message.clone_from(&message);
        self.conversation.push_user(message);
        match self.go(None).await {
            // Nothing was decided, so nothing runs. The end of the run is written as soon as there
            // is space.
            Err(AppendError::Full) => self.finish(WalkEnd::full()).await,
            ended => ended,
        }
    }

    /// The loop. `open` is a reply to finish first.
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

    /// Asks the model. Returns a reply with calls, or the end of the run.
    async fn ask(&mut self) -> Result<OpenTurn, WalkEnd> {
        if let Some(limit) = self.limit_reached() {
            return Err(WalkEnd::limit(limit, Vec::new()));
        }
        self.rounds += 1;
        // What the session has read since may have narrowed the tools that it may use.
        let offers = state::offers(self.agent, self.principal, &self.session);
        let are_others =
            offers.iter().map(|offer| &offer.name).ne(self.offers.iter().map(|offer| &offer.name));
        self.offers = offers;
        let (reply, mut before) = self.reply().await?;
        entries::add(&mut self.usage, reply.usage.input_tokens, reply.usage.output_tokens);
        before.push(self.reply_draft(&reply, are_others));
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

    /// Handles the calls of a reply, group by group. Returns the end of the run, if it ends.
    async fn take(&mut self, turn: OpenTurn) -> Result<Option<WalkEnd>, AppendError> {
        let OpenTurn { reply, mut parts, mut before } = turn;
        self.said.clone_from(&reply.text);
        let agent = self.agent;
        for group in groups(&mut parts, |part| is_read(agent, &part.call.tool)) {
            if group.iter().all(|part| matches!(part.at, PartState::Settled(_))) {
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
            // Later calls may depend on these: they wait too.
            if group.iter().any(|part| matches!(part.at, PartState::Waiting)) {
                let answer = Some("a call waits for a person's approval".to_owned());
                return Ok(Some(WalkEnd {
                    before,
                    status: RunStatus::Waiting,
                    answer,
                    said_by: AnswerBy::Par,
                    limit: None,
                }));
            }
        }
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
