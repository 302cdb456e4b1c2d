//! A model's reply. All of it is hostile.

use crate::secrets::{Parted, SecretCounts};
use crate::tools::ProposedCall;
use crate::types::Digest;

/// A provider's reply. All of it is hostile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReply {
    /// The text, if there is one; never empty.
    pub text: Option<String>,
    /// The proposed calls, in order, each with a unique identifier. All that came: the caller
    /// applies the limit.
    pub calls: Vec<ProposedCall>,
    /// Why the model stopped.
    pub stop: Stop,
    /// The tokens it cost.
    pub usage: TokenUsage,
    /// SHA-256 of the exact bytes that were sent.
    pub request_digest: Digest,
    /// The exact bytes of the answer, after secrets were replaced.
    pub raw: Vec<u8>,
    /// The model as the server names it, else as configured.
    pub model: String,
    /// The secrets replaced in the bytes before they were parsed.
    pub found: SecretCounts,
}

/// A call: its identifier, its tool, its arguments.
type CallParts = (String, String, String);

/// The server's text for a stop, and the function that makes the stop from it.
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
    /// It finished.
    EndTurn,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It reached a limit on length; text and arguments may be truncated.
    Length,
    /// It refused, with this text.
    Refusal(String),
    /// A reason from the server that this room does not know.
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

/// Token counts, as reported by the server; zero if not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
}
