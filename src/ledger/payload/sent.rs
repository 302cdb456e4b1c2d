//! What a request to a model was made of, next to its conversation.

use crate::ledger::entry::{Kind, Payload};
use crate::types::Digest;
use serde::{Deserialize, Serialize};

/// What determined the bytes of a request, next to the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentForm {
    /// The wire.
    pub wire: String,
    /// The base URL of the server.
    pub base_url: String,
    /// The model, as configured.
    pub model: String,
    /// What tells the key of the request from another, as in an opaque state. Absent from entries
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The bound on the tokens of the reply, if the configuration sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_tokens_max: Option<u64>,
    /// The size of the context, for a server that sets it by request.
    pub context_tokens: u64,
    /// Whether the reply was to come as a stream.
    pub streamed: bool,
    /// Whether members were left out that not every server of the protocol accepts.
    pub plain: bool,
    /// Digest of the bundle whose `tools.load` describes the tools.
    pub tools_policy: Digest,
}

/// The payload of `context.trim`: results that the model reads no more in this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextTrimPayload {
    /// The lowest number in `left_out`.
    pub first: u64,
    /// The highest number in `left_out`.
    pub last: u64,
    /// The entries whose outputs are left out, oldest first.
    pub left_out: Vec<u64>,
    /// How much shorter the conversation is, in bytes.
    pub bytes: u64,
    /// Why they are left out.
    pub why: TrimReason,
    /// An estimate of the tokens of the request without this.
    pub input_tokens: u64,
    /// The size of the model's window, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
}

impl ContextTrimPayload {
    /// What was left out, for people.
    #[must_use]
    pub fn line(&self) -> String {
        let why = match self.why {
            TrimReason::Window => "to fit into the model's window",
            TrimReason::Refused => "after the model's server refused the request as too long",
            TrimReason::Other => "for a reason of a later version",
        };
        let (results, bytes) = (self.left_out.len(), self.bytes);
        let outputs = if results == 1 { "output of 1 call" } else { &format!("outputs of {results} calls") };
        format!("{outputs} left out, {bytes} bytes, {why}")
    }
}

/// Why results are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrimReason {
    /// The request would not fit into the model's window.
    Window,
    /// The model's server refused the request because of its length.
    Refused,
    /// A reason of a later version.
    #[serde(other)]
    Other,
}

impl Payload for ContextTrimPayload {
    const KIND: Kind = Kind::ContextTrim;
}
