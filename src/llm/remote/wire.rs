//! The interface of a protocol.

use super::answer::WireAnswer;
use super::frames::Framing;
use crate::egress::Credential;
use crate::llm::conversation::Conversation;
use crate::llm::error::ModelError;
use crate::llm::form::{OpaqueOrigin, RequestForm};
use crate::llm::proposer::ProviderKind;
use crate::llm::provider::ToolOffer;
use crate::llm::reply::{ModelReply, OpaqueState};
use crate::types::{Digest, Secret};
use std::fmt::Debug;

/// One protocol: a request is one `POST` of JSON. Its answer is one JSON text, or a stream of them.
pub(in crate::llm) trait Wire: Send + Sync + 'static {
    /// Its name in the configuration.
    const KIND: ProviderKind;
    /// The base URL if none is configured.
    const BASE_URL: &'static str;
    /// Whether the server at [`BASE_URL`](Self::BASE_URL) requires a key.
    const NEEDS_KEY: bool = true;
    /// Headers of every request, see [`HttpRequest::headers`](crate::egress::HttpRequest::headers).
    const HEADERS: &'static [(&'static str, &'static str)] = &[];
    /// How a stream is divided into JSON texts.
    const FRAMING: Framing = Framing::Events;
    /// A reply that comes as a stream.
    type Partial: PartialAnswer;

    /// Whether a request sets the size of the context, so that it is always known.
    const SETS_CONTEXT: bool = false;

    /// The path after the base URL.
    fn path(model: &str, is_streamed: bool) -> String;

    /// The header in which its servers expect a key.
    fn credential(key: &Secret) -> Credential<'_>;

    /// The body of a request.
    fn write(request: &WireRequest<'_>) -> serde_json::Result<Vec<u8>>;

    /// Parses the body of a successful answer that came whole, or says what is wrong with it.
    /// Lenient where servers differ; trusts nothing.
    fn read(body: &[u8]) -> Result<WireAnswer, WireError>;

    /// Checks a reply against the size of the context that the request set.
    fn check(reply: ModelReply, context_tokens: u32) -> ModelReply {
        let _unlimited = context_tokens;
        reply
    }

    /// Whether a refusal with this body, of status 400 or 422, is only about a member that a
    /// [plain](WireRequest::is_plain) request leaves out.
    fn refuses_extras(body: &[u8]) -> bool {
        let _body = body;
        false
    }
}

/// The content of a request.
#[derive(Clone, Copy, Debug)]
pub(in crate::llm) struct WireRequest<'a> {
    pub(in crate::llm) conversation: &'a Conversation,
    pub(in crate::llm) tools: &'a [ToolOffer],
    /// The model, and where it is asked.
    pub(in crate::llm) origin: &'a OpaqueOrigin,
    pub(in crate::llm) reply_tokens_max: Option<u32>,
    /// The size of the context, for a server that sets it by request.
    pub(in crate::llm) context_tokens: u32,
    pub(in crate::llm) is_streamed: bool,
    /// Leaves out what not every server of the protocol accepts.
    pub(in crate::llm) is_plain: bool,
}

impl<'a> WireRequest<'a> {
    /// The request of this form.
    pub(in crate::llm) fn of(
        form: &'a RequestForm,
        conversation: &'a Conversation,
        tools: &'a [ToolOffer],
    ) -> Self {
        Self {
            conversation,
            tools,
            origin: &form.origin,
            reply_tokens_max: form.reply_tokens_max,
            context_tokens: form.context_tokens,
            is_streamed: form.is_streamed,
            is_plain: form.is_plain,
        }
    }

    /// Its bytes.
    pub(in crate::llm) fn body<W: Wire>(&self) -> serde_json::Result<Vec<u8>> {
        W::write(self)
    }

    pub(in crate::llm) fn model(&self) -> &'a str {
        &self.origin.model
    }

    /// The text of `state`, if it may be sent: it came on this wire, from this base URL and model,
    /// with this key.
    pub(in crate::llm) fn state<'b>(&self, state: &'b OpaqueState) -> Option<&'b str> {
        state.state.as_deref().filter(|_| state.origin == *self.origin)
    }
}

/// A reply that comes as a stream of JSON texts, called frames.
pub(in crate::llm) trait PartialAnswer: Debug + Default + Send {
    /// Takes the next frame. Returns the text that it adds to the reply; calls and opaque state
    /// come only with the whole reply. Nothing that follows the end of a reply is part of it.
    fn frame(&mut self, frame: &[u8]) -> Result<Option<String>, WireError>;

    /// Whether the reply is complete. An end of the stream before that is a cut.
    fn is_whole(&self) -> bool;

    /// What has come.
    fn answer(self) -> Result<WireAnswer, WireError>;
}

/// Why the body of a successful answer is not a reply. The message follows "the answer is not a
/// valid reply: ".
#[derive(Debug, thiserror::Error)]
pub(in crate::llm) enum WireError {
    #[error("it is empty")]
    Empty,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("it has no choice")]
    NoChoice,
    #[error("a block of its content: {0}")]
    Block(#[source] serde_json::Error),
    /// The server says in its answer that it failed.
    #[error("the server reports: {0}")]
    Reported(String),
}

/// Parses the body of a successful answer that came whole.
pub(in crate::llm) fn read<W: Wire>(
    raw: Vec<u8>,
    request_digest: Digest,
    origin: &OpaqueOrigin,
) -> Result<ModelReply, ModelError> {
    // As at the start of a stream, a byte order mark means nothing (RFC 8259, section 8.1).
    let body = raw.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&raw);
    let answer = if body.is_empty() { Err(WireError::Empty) } else { W::read(body) };
    match answer {
        Ok(answer) => Ok(answer.into_reply(raw, request_digest, origin)),
        Err(why) => Err(why.into_error(raw)),
    }
}

impl WireError {
    pub(in crate::llm) fn into_error(self, raw: Vec<u8>) -> ModelError {
        match self {
            Self::Reported(why) => ModelError::reported(&why, raw),
            other => ModelError::malformed(&other.to_string(), raw),
        }
    }
}
