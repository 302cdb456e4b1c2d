//! Ollama's own chat: `POST {base_url}/api/chat`.
//!
//! By itself, the server drops the beginning of a request that does not fit into the context of the
//! model, without a word, and the instructions are at the beginning. Three things are done about
//! that: the size of the context is set by each request, newer servers are told to refuse instead,
//! and a count of tokens at the limit is an outcome of its own, `truncated`.

mod answer;

use super::fields::{ArgumentObject, unchanged};
use super::schema;
use crate::egress::Credential;
use crate::llm::conversation::Message;
use crate::llm::proposer::ProviderKind;
use crate::llm::provider::ToolOffer;
use crate::llm::remote::answer::WireAnswer;
use crate::llm::remote::frames::Framing;
use crate::llm::remote::wire::{PartialAnswer as _, Wire, WireError, WireRequest};
use crate::llm::reply::{ModelReply, ReplyPiece, Stop};
use crate::types::Secret;
use answer::PartialChat;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Ollama's chat protocol.
#[derive(Debug)]
pub(in crate::llm) struct OllamaChats;

impl Wire for OllamaChats {
    const KIND: ProviderKind = ProviderKind::Ollama;
    const BASE_URL: &'static str = "http://127.0.0.1:11434";
    const NEEDS_KEY: bool = false;
    const SETS_CONTEXT: bool = true;
    const FRAMING: Framing = Framing::Lines;
    type Partial = PartialChat;

    fn path(_: &str, _: bool) -> String {
        "api/chat".to_owned()
    }

    fn credential(key: &Secret) -> Credential<'_> {
        Credential::Bearer(key)
    }

    fn write(request: &WireRequest<'_>) -> serde_json::Result<Vec<u8>> {
        let system = Some(request.conversation.system()).filter(|text| !text.is_empty());
        let system = system.map(|content| OllamaOut::said("system", content));
        let messages = request.conversation.messages().iter().map(|one| out_message(one, request));
        serde_json::to_vec(&OllamaRequest {
            model: request.model(),
            stream: request.is_streamed,
            messages: system.into_iter().chain(messages).collect(),
            tools: request.tools.iter().map(out_tool).collect(),
            options: OllamaOptions { num_ctx: request.context_tokens, num_predict: request.reply_tokens_max },
            truncate: false,
            shift: false,
        })
    }

    fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
        let mut whole = PartialChat::default();
        whole.frame(body)?;
        whole.answer()
    }

    /// The server cuts a request to exactly the size of the context.
    fn check(reply: ModelReply, context_tokens: u32) -> ModelReply {
        let read = reply.usage.input_tokens;
        if read < u64::from(context_tokens) || matches!(reply.stop, Stop::Cut(_)) {
            return reply;
        }
        let why = format!("its server read {read} tokens, which is all that the context holds");
        ModelReply { stop: Stop::Truncated(why), ..reply }
    }
}

#[derive(Serialize)]
struct OllamaRequest<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<OllamaOut<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<OllamaTool<'a>>,
    options: OllamaOptions,
    // Servers that do not know these two ignore them.
    truncate: bool,
    shift: bool,
}

#[derive(Serialize)]
struct OllamaOptions {
    num_ctx: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u32>,
}

#[derive(Default, Serialize)]
struct OllamaOut<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OllamaOutCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
}

#[derive(Serialize)]
struct OllamaOutCall<'a> {
    id: &'a str,
    function: OllamaOutFunction<'a>,
}

#[derive(Serialize)]
struct OllamaOutFunction<'a> {
    name: &'a str,
    arguments: ArgumentObject<'a>,
}

#[derive(Serialize)]
struct OllamaTool<'a> {
    r#type: &'static str,
    function: OllamaOffer<'a>,
}

#[derive(Serialize)]
struct OllamaOffer<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

impl<'a> OllamaOut<'a> {
    fn said(role: &'static str, content: &'a str) -> Self {
        Self { role, content, ..Self::default() }
    }
}

fn out_message<'a>(message: &'a Message, request: &WireRequest<'_>) -> OllamaOut<'a> {
    match message {
        Message::User(text) => OllamaOut::said("user", text),
        Message::Reply { text, .. } => {
            let mut out = OllamaOut::said("assistant", text.as_deref().unwrap_or_default());
            for piece in message.pieces() {
                match piece {
                    ReplyPiece::Text(_) => {}
                    ReplyPiece::Opaque(state) => out.thinking = request.state(state).and_then(unchanged),
                    ReplyPiece::Call(call) => out.tool_calls.push(OllamaOutCall {
                        id: &call.id,
                        function: OllamaOutFunction {
                            name: &call.tool,
                            arguments: ArgumentObject::of(&call.arguments),
                        },
                    }),
                }
            }
            out
        }
        Message::Tool { call_id, tool, text } => {
            OllamaOut { tool_call_id: Some(call_id), tool_name: Some(tool), ..OllamaOut::said("tool", text) }
        }
    }
}

fn out_tool(offer: &ToolOffer) -> OllamaTool<'_> {
    let parameters = schema::ollama(&offer.input);
    let function = OllamaOffer { name: &offer.name, description: &offer.summary, parameters };
    OllamaTool { r#type: "function", function }
}
