//! A run: its request, its reply, and the replies of its model.

use super::answer::{HeldResponse, RequestedSchema, UnfitAnswer};
use super::call::{NearestRule, ShadowDecision};
use super::sent::SentForm;
use crate::ledger::entry::{Kind, Payload};
use crate::types::json::INTEGER_MAX;
use crate::types::{
    CallId, Ceiling, Channel, Decision, Digest, RefusalClass, RunId, RunStatus, SessionId, StepStatus,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The payload of `run.request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequestPayload {
    /// The user's message.
    pub message: String,
    /// How many tool calls the run may make.
    pub calls_max: u64,
    /// Names of the tools that the model was offered.
    pub tools: Vec<String>,
    /// The only tools that the run may use: those that the request names, the key names, or both
    /// if both name some. Absent: neither names any.
    #[serde(default, skip_serializing_if = "Ceiling::is_open")]
    pub ceiling: Ceiling,
    /// The provider of the model.
    pub provider: String,
    /// The name of the model, as configured.
    pub model: String,
    /// SHA-256 of the system prompt, whose text is in the `config.load` before. Absent from earlier
    /// entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_sha256: Option<Digest>,
    /// The client's address, if the request came over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ip: Option<String>,
    /// Where the request came in. Absent from earlier entries: `http` if `source_ip` is there, and
    /// otherwise `cli`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The door through which the request came: `http`, `par_sock` or `local`. Absent in old
    /// entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The runbook that the message chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<RequestedRunbook>,
    /// The schema that the answer is held to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<RequestedSchema>,
    /// Secrets that were replaced: name → count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// A runbook as the model of a run was given it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedRunbook {
    /// The name of the runbook.
    pub name: String,
    /// SHA-256 of its file.
    pub sha256: Digest,
    /// The service that the message named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// PAR's own words before it.
    pub words: String,
    /// Its text, with the paths of folders and the name of the service.
    pub text: String,
}

/// The payload of `model.ask`: a request to a language model, decided before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAskPayload {
    /// The name of the model in the configuration; `default` for the one of `[llm]`.
    pub name: String,
    /// The provider of the model.
    pub provider: String,
    /// The model that its server is asked for.
    pub model: String,
    /// The server, as `name:port`.
    pub host: String,
    /// Tokens that are reserved for the reply.
    pub reply_tokens_max: u64,
    /// An estimate of the tokens that are sent.
    pub input_tokens: u64,
    /// The name of the model that did not answer, if this one is asked in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_of: Option<String>,
    /// The whole Cedar request.
    pub request: Value,
    /// What the policies in shadow mode would have decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowDecision>,
    /// Why the model is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Errors of the policies' evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
    /// The advice of the policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<String>>,
}

/// The payload of `model.reply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReplyPayload {
    /// The name of the model in the configuration. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The model's name, as its server reports it.
    pub model: String,
    /// SHA-256 of the request's bytes.
    pub request_sha256: Digest,
    /// Number of messages in the request.
    pub request_messages: u64,
    /// What else the request was made of. Absent from earlier entries, and for a provider that
    /// sends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SentForm>,
    /// The calls that the model proposed, in order.
    pub calls: Vec<CallProposed>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The text of a refusal, the reason of a reply that was withheld, truncated or cut, or the
    /// server's own stop reason if `stop` is `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_text: Option<String>,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// The text of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The parts of the reply in order. Absent: the text, then the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<RepliedPart>>,
    /// Why the text is not the answer that the request's schema asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<UnfitAnswer>,
    /// The number of opaque states of earlier replies that the request left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states_left_out: Option<u64>,
    /// The tools that the model was offered, if they differ from those offered before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The bytes of the server's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The bytes in base64, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_base64: Option<String>,
    /// The number of these bytes, for a stream and if they are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_bytes: Option<u64>,
    /// SHA-256 of these bytes after secrets were replaced, for a stream and if they are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_sha256: Option<Digest>,
    /// Why the bytes are left out: `secret` or `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_left_out: Option<String>,
    /// Secrets that were replaced: name → count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// A part of a reply: exactly one member is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepliedPart {
    /// This many further bytes of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_bytes: Option<u64>,
    /// The next call, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// State that only its provider can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<RepliedState>,
}

/// State of a provider, which is sent back only to where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepliedState {
    /// The wire.
    pub wire: String,
    /// The base URL of the server.
    pub base_url: String,
    /// The model, as configured.
    pub model: String,
    /// What tells the key from another, or `none`. Absent from earlier entries: the state is not
    /// sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The state, as the server wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why the state is not here: `secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
}

/// A call that a model proposed, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallProposed {
    /// The id that the model gave the call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: String,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It finished its reply.
    EndTurn,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It reached a limit on length.
    Length,
    /// It refused.
    Refusal,
    /// The provider withheld the reply or the rest of it.
    ContentFilter,
    /// The reply has neither a text nor a call.
    Empty,
    /// The server read only a part of the request.
    Truncated,
    /// The stream ended before the reply did.
    Cut,
    /// Any other reason.
    Other,
}

/// Reads the values of every version. The first version wrote Rust's names: `EndTurn`,
/// `Refusal("…")`.
impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Ok(match word.split('(').next().unwrap_or_default() {
            "end_turn" | "EndTurn" => Self::EndTurn,
            "tool_calls" | "ToolCalls" => Self::ToolCalls,
            "length" | "Length" => Self::Length,
            "refusal" | "Refusal" => Self::Refusal,
            "content_filter" => Self::ContentFilter,
            "empty" => Self::Empty,
            "truncated" => Self::Truncated,
            "cut" => Self::Cut,
            _ => Self::Other,
        })
    }
}

/// The payload of `model.error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelErrorPayload {
    /// The name of the model in the configuration. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The provider of the model.
    pub provider: String,
    /// What went wrong.
    pub error: String,
    /// SHA-256 of the request's bytes. Absent from earlier entries, and if nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_sha256: Option<Digest>,
    /// What else the request was made of; present next to `request_sha256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SentForm>,
    /// The tools that the model was offered, if they differ from those recorded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The bytes of the server's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The bytes in base64, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_base64: Option<String>,
    /// Secrets that were replaced: name → count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// The payload of `run.reply`: the reply that HTTP returns, without its position on the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReplyPayload {
    /// The id of the run.
    pub run: RunId,
    /// The session that the run belongs to.
    pub session: SessionId,
    /// The state of the run.
    pub status: RunStatus,
    /// The last text of the model, or the reason why it is missing.
    pub answer: Option<String>,
    /// Who wrote the answer. Absent without one, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_by: Option<AnswerBy>,
    /// The name of the limit that ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Every proposed call, in order.
    pub steps: Vec<Step>,
    /// What the model used.
    pub usage: Usage,
    /// The names of the models that answered, one for each round. Empty if the configuration does
    /// not name its model, and in records of earlier versions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub models: Vec<String>,
    /// The ceiling of `run.request`.
    #[serde(skip_serializing_if = "Ceiling::is_open", default)]
    pub ceiling: Ceiling,
    /// The name of the runbook that the run was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<String>,
    /// The answer, if it matches the schema of the request: JSON text, because a payload cannot
    /// have every number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_json: Option<String>,
    /// What became of the schema of the request, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<HeldResponse>,
    /// Why the model stopped before the end of its answer, which may be incomplete. Absent if it
    /// did not, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopReason>,
}

/// Who wrote the answer of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerBy {
    /// The model: text, not a fact.
    Model,
    /// PAR: why the model's answer is missing, or an answer that was made without a model.
    Par,
}

/// One proposed call with its decision and result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The id of the call.
    pub call: CallId,
    /// The tool's name, as the model proposed it.
    pub tool: String,
    /// The arguments, or their raw text if they were not JSON.
    pub args: Value,
    /// The decision on the call.
    pub decision: Decision,
    /// The determining policies.
    pub policies: Vec<String>,
    /// How the call ended.
    pub status: StepStatus,
    /// The result, or the reason why it is missing.
    pub result: Value,
    /// Whether the output was cut.
    pub truncated: bool,
    /// Why the call was refused. Absent if it was not, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<RefusalClass>,
    /// The refusal, if `class` is `person`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<StepRefusal>,
    /// The permit that was nearest to matching, if no policy permits the call. For people: no model
    /// reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestRule>,
    /// The entries of the decision and of the result.
    pub ledger: StepLedger,
}

/// A call that was not approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRefusal {
    /// The user or, without one, the principal that refused. Absent if no person answered in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason that the person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The entries of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLedger {
    /// Sequence number of the decision.
    pub decision: u64,
    /// Sequence number of the result, if the call was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<u64>,
}

/// What the model used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of requests that the model answered.
    pub model_calls: u64,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
}

impl Usage {
    /// Adds one request, with these tokens.
    pub fn add(&mut self, input_tokens: u64, output_tokens: u64) {
        // Limited to the integers that every JSON reader reads exactly.
        let sum = |a: u64, b: u64| a.saturating_add(b).min(INTEGER_MAX.unsigned_abs());
        self.model_calls += 1;
        self.input_tokens = sum(self.input_tokens, input_tokens);
        self.output_tokens = sum(self.output_tokens, output_tokens);
    }
}

impl Payload for RunRequestPayload {
    const KIND: Kind = Kind::RunRequest;
}
impl Payload for ModelAskPayload {
    const KIND: Kind = Kind::ModelAsk;
}
impl Payload for ModelReplyPayload {
    const KIND: Kind = Kind::ModelReply;
}
impl Payload for ModelErrorPayload {
    const KIND: Kind = Kind::ModelError;
}
impl Payload for RunReplyPayload {
    const KIND: Kind = Kind::RunReply;
}
