//! The interface of a protocol.

use super::answer::WireAnswer;
use crate::egress::Credential;
use crate::llm::error::ModelError;
use crate::llm::proposer::ProviderKind;
use crate::llm::provider::ModelRequest;
use crate::llm::reply::ModelReply;
use crate::types::{Digest, Secret};

/// One protocol: a request is one `POST` of JSON, and its answer is one JSON text.
pub(in crate::llm) trait Wire: Send + Sync + 'static {
    /// Its name in the configuration.
    const KIND: ProviderKind;
    /// The base URL if none is configured. This server requires a key.
    const BASE_URL: &'static str;
    /// The path after the base URL.
    const PATH: &'static str;
    /// Headers of every request, see [`HttpRequest::headers`].
    const HEADERS: &'static [(&'static str, &'static str)];

    /// The header in which its servers expect a key.
    fn credential(key: &Secret) -> Credential<'_>;

    /// The body of a request.
    fn write(
        request: &ModelRequest<'_>,
        model: &str,
        reply_tokens_max: Option<u32>,
    ) -> serde_json::Result<Vec<u8>>;

    /// Parses the body of a successful answer, or says what is wrong with it. Lenient where servers
    /// differ; trusts nothing.
    fn read(body: &[u8]) -> Result<WireAnswer, WireError>;
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
}

/// Parses the body of a successful answer.
pub(in crate::llm) fn read<W: Wire>(
    raw: Vec<u8>,
    request_digest: Digest,
    model: &str,
) -> Result<ModelReply, ModelError> {
    let answer = if raw.is_empty() { Err(WireError::Empty) } else { W::read(&raw) };
    match answer {
        Ok(answer) => Ok(answer.into_reply(raw, request_digest, model)),
        Err(why) => Err(ModelError::malformed(&why.to_string(), raw)),
    }
}
