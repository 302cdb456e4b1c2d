//! The bytes of a request.

use super::conversation::Conversation;
use super::form::RequestForm;
use super::proposer::ProviderKind;
use super::provider::ToolOffer;
use super::remote::wire::WireRequest;
use super::wires::anthropic::Messages;
use super::wires::gemini::GenerateContents;
use super::wires::ollama::OllamaChats;
use super::wires::openai::ChatCompletions;
use super::wires::responses::Responses;

impl RequestForm {
    /// The bytes that a run sends for `conversation` and `tools`. The providers write their
    /// requests with the same function ([`WireRequest::body`]), so what a run sent can be built
    /// again. `None` for a wire that this version does not have, or that sends nothing.
    #[must_use]
    pub fn body(&self, conversation: &Conversation, tools: &[ToolOffer]) -> Option<Vec<u8>> {
        let request = WireRequest::of(self, conversation, tools);
        let written = match ProviderKind::parse(&self.origin.wire)? {
            ProviderKind::Offline => return None,
            ProviderKind::OpenAi => request.body::<ChatCompletions>(),
            ProviderKind::OpenAiResponses => request.body::<Responses>(),
            ProviderKind::Anthropic => request.body::<Messages>(),
            ProviderKind::Gemini => request.body::<GenerateContents>(),
            ProviderKind::Ollama => request.body::<OllamaChats>(),
        };
        written.ok()
    }
}
