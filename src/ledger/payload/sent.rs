//! What a request to a model was made of, next to its conversation.

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
