//! What a model answers. All of it is hostile.

use crate::secrets::{Parted, SecretCounts};
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

/// A call: its identifier, its tool, its arguments.
type CallParts = (String, String, String);

/// What a server says beyond the kind of a stop, and what makes the stop of it.
type StopParts = (String, fn(String) -> Stop);

impl Parted for ModelReply {
    type Parts =
        ((Option<String>, Vec<CallParts>, StopParts), (Vec<u8>, String), ((u64, u64), Digest, SecretCounts));

    fn apart(self) -> (Self::Parts, fn(Self::Parts) -> Self) {
        let Self { text, calls, stop, usage, request_digest, raw, model, found } = self;
        let apart = |ProposedCall { id, tool, arguments }| (id, tool, arguments);
        let calls = calls.into_iter().map(apart).collect();
        let TokenUsage { input_tokens, output_tokens } = usage;
        let counted = ((input_tokens, output_tokens), request_digest, found);
        (((text, calls, stop.apart()), (raw, model), counted), Self::whole)
    }
}

impl ModelReply {
    fn whole((said, (raw, model), counted): <Self as Parted>::Parts) -> Self {
        let (text, calls, (why, stop)) = said;
        let ((input_tokens, output_tokens), request_digest, found) = counted;
        let whole = |(id, tool, arguments)| ProposedCall { id, tool, arguments };
        Self {
            calls: calls.into_iter().map(whole).collect(),
            text,
            stop: stop(why),
            raw,
            model,
            usage: TokenUsage { input_tokens, output_tokens },
            request_digest,
            found,
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

impl Stop {
    fn apart(self) -> StopParts {
        match self {
            Self::Refusal(why) => (why, Self::Refusal),
            Self::Other(name) => (name, Self::Other),
            Self::EndTurn => (String::new(), |_| Self::EndTurn),
            Self::ToolCalls => (String::new(), |_| Self::ToolCalls),
            Self::Length => (String::new(), |_| Self::Length),
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
