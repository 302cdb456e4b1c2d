//! A run, as it was asked for and answered, and what its model said.

use crate::ledger::entry::{Kind, Payload};
use crate::types::{CallId, Decision, Digest, RunId, RunStatus, SessionId, StepStatus};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The payload of `run.request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequestPayload {
    /// What was asked.
    pub message: String,
    /// Tool calls that the run may make.
    pub calls_max: u64,
    /// Names of the tools that the model was offered.
    pub tools: Vec<String>,
    /// The provider of the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Where the request came from, if over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ip: Option<String>,
    /// Secrets that were replaced: name → how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// The payload of `model.reply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReplyPayload {
    /// The model, as its server names it.
    pub model: String,
    /// SHA-256 of the bytes that were sent.
    pub request_sha256: Digest,
    /// How many messages they held.
    pub request_messages: u64,
    /// The calls that it proposed, in order.
    pub calls: Vec<CallProposed>,
    /// Why it stopped.
    pub stop: StopReason,
    /// The text of a refusal, or the server's own word where `stop` is `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_text: Option<String>,
    /// Tokens that it read.
    pub input_tokens: u64,
    /// Tokens that it wrote.
    pub output_tokens: u64,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The tools that it was shown, where they are not those shown before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its server's bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The same in base64, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_base64: Option<String>,
    /// Secrets that were replaced: name → how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// A call that a model proposed, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallProposed {
    /// The model's own name of the call.
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
    /// It had no more to say.
    EndTurn,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It met a limit on length.
    Length,
    /// It refused.
    Refusal,
    /// Something else.
    Other,
}

/// Reads the words of every version. The first ones were Rust's own: `EndTurn`, `Refusal("…")`.
impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Ok(match word.split('(').next().unwrap_or_default() {
            "end_turn" | "EndTurn" => Self::EndTurn,
            "tool_calls" | "ToolCalls" => Self::ToolCalls,
            "length" | "Length" => Self::Length,
            "refusal" | "Refusal" => Self::Refusal,
            _ => Self::Other,
        })
    }
}

/// The payload of `model.error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelErrorPayload {
    /// The provider.
    pub provider: String,
    /// What went wrong.
    pub error: String,
    /// What its server sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The same in base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_base64: Option<String>,
    /// Secrets that were replaced: name → how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// The payload of `run.reply`: the reply as told over HTTP, but for its place on the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReplyPayload {
    /// The run.
    pub run: RunId,
    /// Its conversation.
    pub session: SessionId,
    /// How it stands.
    pub status: RunStatus,
    /// The last words of the model, or what kept it from any.
    pub answer: Option<String>,
    /// Which limit ended it, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Every proposed call, in order.
    pub steps: Vec<Step>,
    /// What the model cost.
    pub usage: Usage,
}

/// One proposed call and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The call.
    pub call: CallId,
    /// The tool's name, as proposed.
    pub tool: String,
    /// The arguments, or their raw text where they were no JSON.
    pub args: Value,
    /// What was decided.
    pub decision: Decision,
    /// The determining policies.
    pub policies: Vec<String>,
    /// What came of it.
    pub status: StepStatus,
    /// The result, or the reason why there is none.
    pub result: Value,
    /// Whether the output was cut.
    pub truncated: bool,
    /// The entries of decision and result.
    pub ledger: StepLedger,
}

/// The entries of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLedger {
    /// Of the decision.
    pub decision: u64,
    /// Of the result, where the call was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<u64>,
}

/// What the model cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Requests answered by the model.
    pub model_calls: u64,
    /// Tokens read by it.
    pub input_tokens: u64,
    /// Tokens written by it.
    pub output_tokens: u64,
}

impl Payload for RunRequestPayload {
    const KIND: Kind = Kind::RunRequest;
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
