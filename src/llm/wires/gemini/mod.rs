//! generateContent: `POST {base_url}/models/{model}:generateContent`, the protocol of Google's
//! Gemini API.

mod answer;

use super::fields::{ArgumentObject, object, unchanged};
use super::schema;
use crate::egress::Credential;
use crate::llm::conversation::{Conversation, Message};
use crate::llm::proposer::ProviderKind;
use crate::llm::provider::ToolOffer;
use crate::llm::remote::answer::WireAnswer;
use crate::llm::remote::wire::{PartialAnswer as _, Wire, WireError, WireRequest};
use crate::llm::reply::ReplyPiece;
use crate::types::Secret;
use answer::PartialContent;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The generateContent protocol.
#[derive(Debug)]
pub(in crate::llm) struct GenerateContents;

impl Wire for GenerateContents {
    const KIND: ProviderKind = ProviderKind::Gemini;
    const BASE_URL: &'static str = "https://generativelanguage.googleapis.com/v1beta";
    type Partial = PartialContent;

    fn path(model: &str, is_streamed: bool) -> String {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let what = if is_streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        format!("models/{}:{what}", segment(model))
    }

    fn credential(key: &Secret) -> Credential<'_> {
        Credential::GoogleApiKey(key)
    }

    fn write(request: &WireRequest<'_>) -> serde_json::Result<Vec<u8>> {
        let system = Some(request.conversation.system()).filter(|text| !text.is_empty());
        let declarations: Vec<Declaration<'_>> = request.tools.iter().map(declaration).collect();
        serde_json::to_vec(&ContentsOut {
            system_instruction: system.map(|text| SystemInstruction { parts: [PartOut::text(text)] }),
            contents: contents(request.conversation, request),
            tools: if declarations.is_empty() { Vec::new() } else { vec![Declarations { declarations }] },
            generation_config: request
                .reply_tokens_max
                .map(|max| GenerationConfig { max_output_tokens: max }),
        })
    }

    fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
        let mut whole = PartialContent::default();
        whole.frame(body)?;
        whole.answer()
    }
}

/// The name of a model as one segment of a path.
fn segment(model: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let written = |byte: u8| if kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    model.bytes().map(written).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentsOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    contents: Vec<ContentOut<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Declarations<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig>,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: [PartOut<'a>; 1],
}

#[derive(Serialize)]
struct ContentOut<'a> {
    role: &'static str,
    parts: Vec<PartOut<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCallOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponseOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a RawValue>,
}

/// Calls and their results have no identifier that every server of the protocol accepts: the
/// server pairs them by name and order.
#[derive(Serialize)]
struct FunctionCallOut<'a> {
    name: &'a str,
    args: ArgumentObject<'a>,
}

#[derive(Serialize)]
struct FunctionResponseOut<'a> {
    name: &'a str,
    response: ResultOut<'a>,
}

/// The server accepts only an object.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultOut<'a> {
    Object(&'a RawValue),
    Text { result: &'a str },
}

#[derive(Serialize)]
struct Declarations<'a> {
    #[serde(rename = "functionDeclarations")]
    declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u32,
}

impl<'a> PartOut<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.text.is_none_or(str::is_empty)
            && self.function_call.is_none()
            && self.function_response.is_none()
    }
}

/// Consecutive messages of one role become one content: the results of a reply's calls must follow
/// it together.
fn contents<'a>(conversation: &'a Conversation, request: &WireRequest<'_>) -> Vec<ContentOut<'a>> {
    let mut contents: Vec<ContentOut<'a>> = Vec::new();
    for message in conversation.messages() {
        let (role, parts) = parts(message, request);
        match contents.last_mut().filter(|last| last.role == role) {
            Some(last) => last.parts.extend(parts),
            None if parts.is_empty() => {}
            None => contents.push(ContentOut { role, parts }),
        }
    }
    contents
}

fn parts<'a>(message: &'a Message, request: &WireRequest<'_>) -> (&'static str, Vec<PartOut<'a>>) {
    match message {
        Message::User(text) => ("user", vec![PartOut::text(text)]),
        Message::Reply { .. } => ("model", reply_parts(message, request)),
        Message::Tool { tool, text, .. } => {
            let response = object(text).map_or(ResultOut::Text { result: text }, ResultOut::Object);
            let function_response = Some(FunctionResponseOut { name: tool, response });
            ("user", vec![PartOut { function_response, ..PartOut::default() }])
        }
    }
}

/// A signature goes back in the part that follows it here. One that stood alone did so next to an
/// empty text.
fn reply_parts<'a>(message: &'a Message, request: &WireRequest<'_>) -> Vec<PartOut<'a>> {
    let (mut parts, mut signature) = (Vec::new(), None);
    for piece in message.pieces() {
        let part = match piece {
            ReplyPiece::Text(text) => PartOut::text(text),
            ReplyPiece::Call(call) => {
                let args = ArgumentObject::of(&call.arguments);
                let function_call = Some(FunctionCallOut { name: &call.tool, args });
                PartOut { function_call, ..PartOut::default() }
            }
            ReplyPiece::Opaque(state) => {
                let next = request.state(state).and_then(unchanged);
                let alone = std::mem::replace(&mut signature, next);
                PartOut { thought_signature: alone, ..PartOut::text("") }
            }
        };
        let is_own = part.text == Some("");
        let thought_signature = if is_own { part.thought_signature } else { signature.take() };
        parts.push(PartOut { thought_signature, ..part });
    }
    parts.push(PartOut { thought_signature: signature, ..PartOut::text("") });
    parts.retain(|part| !part.is_empty() || part.thought_signature.is_some());
    parts
}

fn declaration(offer: &ToolOffer) -> Declaration<'_> {
    Declaration { name: &offer.name, description: &offer.summary, parameters: schema::gemini(&offer.input) }
}

#[cfg(test)]
mod tests {
    use super::GenerateContents;
    use crate::llm::Stop;
    use crate::llm::remote::wire::Wire as _;
    use crate::llm::tests::scripted::reply_of;

    #[test]
    fn a_model_is_one_segment_of_the_path() {
        for (model, streamed, expect) in [
            ("gemini-2.5-flash", false, "models/gemini-2.5-flash:generateContent"),
            ("models/gemini-2.5-flash", true, "models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
            ("../../x?y#z", false, "models/..%2F..%2Fx%3Fy%23z:generateContent"),
        ] {
            assert_eq!(GenerateContents::path(model, streamed), expect);
        }
    }

    #[test]
    fn the_stop_reason_is_kept() {
        let text = r#"{"text":"a"}"#;
        let call = r#"{"functionCall":{"name":"t"}}"#;
        let filtered = |why: &str| Stop::ContentFilter(why.to_owned());
        for (part, reason, expect) in [
            (text, "STOP", Stop::EndTurn),
            (call, "STOP", Stop::ToolCalls),
            (call, "MAX_TOKENS", Stop::Length),
            ("{}", "STOP", Stop::Empty),
            (r#"{"text":"a","thought":true}"#, "STOP", Stop::Empty),
            (text, "SAFETY", filtered("SAFETY")),
            ("{}", "MALFORMED_FUNCTION_CALL", Stop::Other("MALFORMED_FUNCTION_CALL".to_owned())),
        ] {
            let body =
                format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}},"finishReason":"{reason}"}}]}}"#);
            assert_eq!(reply_of::<GenerateContents>(body.as_bytes()).stop, expect, "{body}");
        }
        let blocked = br#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}"#;
        assert_eq!(reply_of::<GenerateContents>(blocked).stop, filtered("PROHIBITED_CONTENT"));
    }
}
