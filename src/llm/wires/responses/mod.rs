//! Responses: `POST {base_url}/responses`, OpenAI's newer protocol, which other servers have taken
//! up. Nothing is stored at the provider (`store: false`): each request holds the conversation, and
//! reasoning travels encrypted.

mod answer;
mod partial;

use super::fields::unchanged;
use super::schema;
use crate::egress::Credential;
use crate::llm::conversation::Message;
use crate::llm::proposer::ProviderKind;
use crate::llm::provider::ToolOffer;
use crate::llm::remote::answer::WireAnswer;
use crate::llm::remote::wire::{Wire, WireError, WireRequest};
use crate::llm::reply::ReplyPiece;
use crate::types::Secret;
use partial::PartialResponse;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The Responses protocol.
#[derive(Debug)]
pub(in crate::llm) struct Responses;

impl Wire for Responses {
    const KIND: ProviderKind = ProviderKind::OpenAiResponses;
    const BASE_URL: &'static str = "https://api.openai.com/v1";
    type Partial = PartialResponse;

    fn path(_: &str, _: bool) -> String {
        "responses".to_owned()
    }

    fn credential(key: &Secret) -> Credential<'_> {
        Credential::Bearer(key)
    }

    fn write(request: &WireRequest<'_>) -> serde_json::Result<Vec<u8>> {
        let include: &[_] = if request.is_plain { &[] } else { &["reasoning.encrypted_content"] };
        serde_json::to_vec(&ResponsesOut {
            model: request.model(),
            stream: request.is_streamed,
            store: false,
            include,
            max_output_tokens: request.reply_tokens_max,
            instructions: request.conversation.system(),
            input: request.conversation.messages().iter().flat_map(|one| out_items(one, request)).collect(),
            tools: request.tools.iter().map(out_tool).collect(),
        })
    }

    fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
        answer::read(body)
    }

    /// A model that does not reason refuses to include its reasoning.
    fn refuses_extras(body: &[u8]) -> bool {
        let body = String::from_utf8_lossy(body);
        body.contains("include") || body.contains("ncrypted content")
    }
}

#[derive(Serialize)]
struct ResponsesOut<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'a [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<InputItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ResponsesTool<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputItem<'a> {
    Said { r#type: &'static str, role: &'static str, content: [InputText<'a>; 1] },
    Call { r#type: &'static str, call_id: &'a str, name: &'a str, arguments: &'a str },
    Output { r#type: &'static str, call_id: &'a str, output: &'a str },
    Reasoning(&'a RawValue),
}

#[derive(Serialize)]
struct InputText<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct ResponsesTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
    // Without it the server rewrites the schema to its strict rules.
    strict: bool,
}

fn out_items<'a>(message: &'a Message, request: &WireRequest<'_>) -> Vec<InputItem<'a>> {
    let said = |role, r#type, text| InputItem::Said {
        r#type: "message",
        role,
        content: [InputText { r#type, text }],
    };
    let piece = |piece| match piece {
        ReplyPiece::Text(text) => Some(said("assistant", "output_text", text)),
        ReplyPiece::Opaque(state) => request.state(state).and_then(unchanged).map(InputItem::Reasoning),
        ReplyPiece::Call(call) => Some(InputItem::Call {
            r#type: "function_call",
            call_id: &call.id,
            name: &call.tool,
            arguments: &call.arguments,
        }),
    };
    match message {
        Message::User(text) => vec![said("user", "input_text", text)],
        Message::Reply { .. } => message.pieces().filter_map(piece).collect(),
        Message::Tool { call_id, text, .. } => {
            vec![InputItem::Output { r#type: "function_call_output", call_id, output: text }]
        }
    }
}

fn out_tool(offer: &ToolOffer) -> ResponsesTool<'_> {
    ResponsesTool {
        r#type: "function",
        name: &offer.name,
        description: &offer.summary,
        parameters: schema::responses(&offer.input),
        strict: false,
    }
}

#[cfg(test)]
mod tests {
    use super::Responses;
    use crate::llm::Stop;
    use crate::llm::tests::scripted::reply_of;

    #[test]
    fn the_stop_reason_is_kept() {
        let text = r#"{"type":"message","content":[{"type":"output_text","text":"a"}]}"#;
        let call = r#"{"type":"function_call","call_id":"c","name":"t","arguments":"{}"}"#;
        let refusal = r#"{"type":"message","content":[{"type":"refusal","refusal":"no"}]}"#;
        for (item, rest, expect) in [
            (text, r#""status":"completed""#, Stop::EndTurn),
            (call, r#""status":"completed""#, Stop::ToolCalls),
            (refusal, r#""status":"completed""#, Stop::Refusal("no".to_owned())),
            ("", r#""status":"completed""#, Stop::Empty),
            (
                text,
                r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#,
                Stop::Length,
            ),
            (
                text,
                r#""status":"incomplete","incomplete_details":{"reason":"content_filter"}"#,
                Stop::ContentFilter("content_filter".to_owned()),
            ),
            (text, r#""status":"incomplete""#, Stop::Other("incomplete".to_owned())),
            (text, r#""status":"cancelled""#, Stop::Other("cancelled".to_owned())),
        ] {
            let body = format!(r#"{{"output":[{item}],{rest}}}"#);
            assert_eq!(reply_of::<Responses>(body.as_bytes()).stop, expect, "{body}");
        }
    }
}
