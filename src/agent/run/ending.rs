//! The end of a run: an answer, a limit, a wait or an error; and its reply.

use super::state::RunWalk;
use crate::agent::api::{AnswerBy, RunReply, RunStatus, StopReason, UnfitAnswer};
use crate::agent::views;
use crate::gate::{AskRefusal, StopInForce};
use crate::ledger::{AppendError, Draft};
use crate::llm::{Message, ModelError, ModelErrorKind, ModelReply, Proposer, Provider, ProviderKind, Stop};
use crate::secrets::Clean;
use crate::types::{Decision, RefusalClass, clock, limits, text};
use serde_json::Value;
use std::time::Duration;

/// The end of a run, with the entries that must be written before its reply.
pub(super) struct WalkEnd {
    pub(super) before: Vec<Draft>,
    pub(super) status: RunStatus,
    pub(super) answer: Option<String>,
    pub(super) said_by: AnswerBy,
    pub(super) limit: Option<&'static str>,
    /// What became of the schema of the request, if an answer was held to it.
    pub(super) held: Option<Box<Result<Value, UnfitAnswer>>>,
    /// Why the model stopped before the end of its answer.
    pub(super) stopped: Option<StopReason>,
}

impl WalkEnd {
    pub(super) fn limit(name: &'static str, before: Vec<Draft>) -> Self {
        let most = most(name).map(|most| format!(", {most}")).unwrap_or_default();
        let answer = Some(format!("the run reached its limit `{name}`{most}"));
        Self { status: RunStatus::Limit, limit: Some(name), ..Self::failed(answer, before) }
    }

    /// The conversation does not fit into the window of `provider`.
    /// `has_read` says whether it contains results of calls.
    pub(super) fn too_long(provider: &dyn Provider, has_read: bool, before: Vec<Draft>) -> Self {
        let window =
            provider.window_tokens().map(|tokens| format!(" of {tokens} tokens")).unwrap_or_default();
        let model = format!("the window{window} of the model `{}`", named(provider));
        let answer = match has_read {
            true => format!(
                "the run ended: what it has read does not fit into {model}, also without the results of earlier \
                 calls; start a run that reads less, or use a model with a larger window"
            ),
            false => format!(
                "the run ended: the request itself, which is the message, the tools and the room for a reply, \
                 does not fit into {model}; allow fewer tools (`--tools`), lower `reply_tokens_max` of the \
                 model, or use a model with a larger window"
            ),
        };
        Self { answer: Some(answer), ..Self::limit("window_tokens", before) }
    }

    /// A person stopped the run.
    pub(super) fn by_a_person(stop: &StopInForce, before: Vec<Draft>) -> Self {
        Self { status: RunStatus::Cancelled, ..Self::failed(Some(stop.to_string()), before) }
    }

    /// The rules do not allow the conversation to be sent to the model.
    pub(super) fn not_permitted(refusal: &AskRefusal) -> Self {
        if let Some(stop) = refusal.stop() {
            return Self::by_a_person(stop, Vec::new());
        }
        let answer = Some(refusal.to_string());
        Self { status: RunStatus::Denied, ..Self::failed(answer, Vec::new()) }
    }

    pub(super) fn full() -> Self {
        let answer = Some("the run ended early: the ledger's disk is full".to_owned());
        Self::failed(answer, Vec::new())
    }

    fn failed(answer: Option<String>, before: Vec<Draft>) -> Self {
        Self {
            before,
            status: RunStatus::Failed,
            answer,
            said_by: AnswerBy::Par,
            limit: None,
            held: None,
            stopped: None,
        }
    }

    /// A call waits for a person.
    pub(super) fn waiting(before: Vec<Draft>) -> Self {
        let answer = Some("a call waits for a person's approval".to_owned());
        Self { status: RunStatus::Waiting, ..Self::failed(answer, before) }
    }
}

impl RunWalk<'_> {
    pub(super) fn answered(
        &self,
        reply: Clean<ModelReply>,
        before: Vec<Draft>,
        held: Option<Result<Value, UnfitAnswer>>,
    ) -> WalkEnd {
        let ModelReply { text, stop, .. } = reply.into_inner();
        let unsaid = self.unsaid(&stop);
        let stopped = stopped_early(&stop);
        let refusal = if let Stop::Refusal(why) = stop { Some(why) } else { None };
        let is_said = |text: &String| !text.trim().is_empty();
        let answer = text.filter(is_said).or(refusal.filter(is_said));
        let status = match (&answer, self.last_calls_denied()) {
            // Whatever the model says of it.
            _ if self.is_refused_by_a_person() => RunStatus::Refused,
            _ if matches!(held, Some(Err(_))) => RunStatus::Failed,
            (Some(_), _) => RunStatus::Done,
            (None, true) => RunStatus::Denied,
            // A direct call has a result and no text. A model without text has failed.
            (None, false) if self.provider.proposer() == Proposer::Person => RunStatus::Done,
            (None, false) => RunStatus::Failed,
        };
        let said_by = match self.asked.proposer() {
            // Without a model, the words are those of this program.
            Proposer::Model(ProviderKind::Offline) => AnswerBy::Par,
            _ => AnswerBy::Model,
        };
        let (answer, said_by) = match (&held, answer) {
            // The model's own words are in its reply on the ledger. A refusal is shown as it is.
            (Some(Err(unfit)), _) if unfit.keyword != "refusal" => {
                (Some(format!("the model's answer {}", unfit.words())), AnswerBy::Par)
            }
            (_, None) if status == RunStatus::Failed => (Some(unsaid), AnswerBy::Par),
            (_, answer) => (answer, said_by),
        };
        let stopped = stopped.filter(|_| said_by == AnswerBy::Model && answer.is_some());
        WalkEnd { before, status, answer, said_by, limit: None, held: held.map(Box::new), stopped }
    }

    /// Why a reply without words ended, and what to do about it.
    fn unsaid(&self, stop: &Stop) -> String {
        let name = named(&*self.asked);
        match stop {
            Stop::Length => format!(
                "the model reached the limit of one reply before it wrote an answer; raise `reply_tokens_max` of \
                 the model `{name}`"
            ),
            Stop::ContentFilter(why) => format!(
                "the model's server withheld the reply, for the reason `{why}`; ask in other words, or ask \
                 another model"
            ),
            Stop::Other(why) => format!(
                "the model's server ended the reply without an answer, for the reason `{why}`; ask again, or \
                 ask another model"
            ),
            _ => {
                format!("the model `{name}` ended its reply without an answer; ask again, or in other words")
            }
        }
    }

    /// Whether a person refused a call of the run, or did not answer in time.
    fn is_refused_by_a_person(&self) -> bool {
        self.steps.iter().any(|step| step.class == Some(RefusalClass::Person))
    }

    /// Whether every call of the last reply was denied.
    fn last_calls_denied(&self) -> bool {
        let last = self.conversation.messages().iter().rev();
        let count = last.take_while(|message| matches!(message, Message::Tool { .. })).count();
        count > 0 && self.steps.iter().rev().take(count).all(|step| step.decision == Decision::Deny)
    }

    pub(super) fn model_failed(&mut self, error: &ModelError) -> WalkEnd {
        let draft = self.error_draft(error);
        if error.kind == ModelErrorKind::Timeout && clock::mono_us() >= self.end_us {
            return WalkEnd::limit("run_ms_max", vec![draft]);
        }
        let name = named(&*self.asked);
        let why = format!("the model did not answer: {error}; `par model test {name}` asks it alone");
        self.not_answered(&why, vec![draft])
    }

    /// There is no reply, or one that may not be used.
    pub(super) fn not_answered(&self, why: &str, before: Vec<Draft>) -> WalkEnd {
        if clock::mono_us() >= self.end_us {
            return WalkEnd::limit("run_ms_max", before);
        }
        let answer = Some(why.to_owned());
        WalkEnd::failed(answer, before)
    }

    pub(super) async fn finish(&mut self, ended: WalkEnd) -> Result<RunReply, AppendError> {
        let WalkEnd { before, status, answer, said_by, limit, held, stopped } = ended;
        let response = self.response(held.as_deref());
        let mut reply = RunReply {
            run: self.run.clone(),
            session: self.session_id.clone(),
            status,
            said_by: answer.is_some().then_some(said_by),
            answer: answer.map(|words| shown(&words)),
            limit: limit.map(str::to_owned),
            steps: std::mem::take(&mut self.steps),
            usage: self.usage,
            models: std::mem::take(&mut self.answered_by),
            ceiling: self.ceiling.clone(),
            runbook: self.conversation.runbook().map(|runbook| runbook.name.clone()),
            answer_json: held.and_then(|held| held.ok()),
            response,
            stopped,
            ledger: None,
        };
        let (has_before, mut drafts) = (!before.is_empty(), before);
        drafts.push(Draft { status: Some(status.as_str()), ..self.draft(reply.payload()) });
        // Wait 4: the reply is durable before it is returned.
        let mut receipts = self.agent.ledger().append_owed(drafts).await?;
        self.report_reply(receipts.first().filter(|_| has_before));
        let receipt = receipts.pop().ok_or(AppendError::Closed)?;
        if status != RunStatus::Waiting {
            self.agent.gate().cancelled(&self.run);
        }
        reply.ledger = Some(views::range(self.first, &receipt));
        Ok(reply)
    }

    pub(super) fn limit_reached(&self) -> Option<&'static str> {
        if self.rounds >= limits::MODEL_ROUNDS_MAX {
            Some("model_rounds_max")
        } else if self.conversation.bytes() > limits::CONTEXT_BYTES_MAX {
            Some("context_bytes_max")
        } else if clock::mono_us() >= self.end_us {
            Some("run_ms_max")
        } else if self.agent.is_full(self.principal, self.door) {
            Some("key_bytes_hour_max")
        } else {
            None
        }
    }

    /// The stop that covers the run, if one does.
    pub(super) fn stop(&self) -> Option<StopInForce> {
        self.agent.gate().stop_of(&self.named().with_tool(None))
    }

    /// What is left of the run. Each model has a deadline of its own.
    pub(super) fn model_deadline(&self) -> Duration {
        Duration::from_micros(self.end_us.saturating_sub(clock::mono_us()))
    }
}

/// The value of a limit that is the same for every run.
fn most(name: &str) -> Option<String> {
    match name {
        "reply_calls_max" => Some(format!("{} calls in one reply", limits::REPLY_CALLS_MAX)),
        "model_rounds_max" => Some(format!("{} replies of the model", limits::MODEL_ROUNDS_MAX)),
        "context_bytes_max" => Some(format!("{} bytes", limits::CONTEXT_BYTES_MAX)),
        "run_ms_max" => Some(format!("{} s", limits::RUN_MS_MAX / 1_000)),
        _ => None,
    }
}

/// The name of a model in the configuration, or what it is called by its server.
fn named(provider: &dyn Provider) -> &str {
    provider.named().unwrap_or_else(|| provider.model())
}

/// Why an answer may be incomplete, if the model stopped before its end.
fn stopped_early(stop: &Stop) -> Option<StopReason> {
    match stop {
        Stop::Length => Some(StopReason::Length),
        Stop::ContentFilter(_) => Some(StopReason::ContentFilter),
        Stop::Other(_) => Some(StopReason::Other),
        _ => None,
    }
}

/// The text of an answer: control characters made visible, and no longer than a reply may be.
/// Making them visible can make the text nine times as long.
fn shown(words: &str) -> String {
    let whole = text::visible(words);
    match text::prefix(&whole, limits::ANSWER_BYTES_MAX) {
        kept if kept.len() == whole.len() => whole,
        kept => format!("{kept}\n[cut: {} of {} bytes]", kept.len(), whole.len()),
    }
}
