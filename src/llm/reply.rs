//! What a model answers. All of it is hostile.

use crate::secrets::sealed::Sealed;
use crate::secrets::{Hold, Pass, SecretCounts};
use crate::tools::ProposedCall;
use crate::types::Digest;

/// What a provider answered. All of it is hostile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReply {
    /// The text, where there is one; never empty.
    pub text: Option<String>,
    /// The proposed calls, in order, each with an identifier of its own. As many as came: the limit
    /// is for the caller to keep.
    pub calls: Vec<ProposedCall>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub usage: TokenUsage,
    /// Of the exact bytes that were sent.
    pub request_digest: Digest,
    /// The exact bytes that came back.
    pub raw: Vec<u8>,
    /// The model as the server names it, else as configured.
    pub model: String,
    /// What was replaced in the bytes before they were read.
    pub found: SecretCounts,
}

impl Sealed for ModelReply {}

impl Hold for ModelReply {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        let Self { text, calls, stop, usage, request_digest, raw, model, found } = self;
        pass.count(&found);
        let mut call = |ProposedCall { id, tool, arguments }| ProposedCall {
            id: pass.text(id),
            tool: pass.text(tool),
            arguments: pass.text(arguments),
        };
        Self {
            calls: calls.into_iter().map(&mut call).collect(),
            text: text.passed(pass),
            stop: stop.passed(pass),
            raw: raw.passed(pass),
            model: model.passed(pass),
            usage,
            request_digest,
            found: SecretCounts::default(),
        }
    }
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It had no more to say.
    EndTurn,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It met a limit on length; text and arguments may be cut.
    Length,
    /// It refused, with this text.
    Refusal(String),
    /// What the server says, and this room does not know.
    Other(String),
}

impl Sealed for Stop {}

impl Hold for Stop {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        match self {
            Self::Refusal(why) => Self::Refusal(why.passed(pass)),
            Self::Other(name) => Self::Other(name.passed(pass)),
            plain @ (Self::EndTurn | Self::ToolCalls | Self::Length) => plain,
        }
    }
}

/// Tokens, as the server counts them; zero where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Of the request.
    pub input_tokens: u64,
    /// Of the reply.
    pub output_tokens: u64,
}
