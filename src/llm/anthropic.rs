//! Messages: `POST {base_url}/messages`, the protocol of Anthropic's API, without streaming.

use super::conversation::{Conversation, Message};
use super::proposer::ProviderKind;
use super::provider::{ModelRequest, ToolOffer};
use super::remote::answer::{WireAnswer, WireCall};
use super::remote::wire::{Wire, WireError};
use super::reply::{Stop, TokenUsage};
use crate::egress::Credential;
use crate::tools::ProposedCall;
use crate::types::{Secret, limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The Messages protocol.
#[derive(Debug)]
pub(super) struct Messages;

impl Wire for Messages {
    const KIND: ProviderKind = ProviderKind::Anthropic;
    const BASE_URL: &'static str = "https://api.anthropic.com/v1";
    const PATH: &'static str = "messages";
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];

    fn credential(key: &Secret) -> Credential<'_> {
        Credential::ApiKey(key)
    }

    fn write(
        request: &ModelRequest<'_>,
        model: &str,
        reply_tokens_max: Option<u32>,
    ) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&MessagesOut {
            model,
            // Required by the server.
            max_tokens: reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
            system: request.conversation.system(),
            messages: out_messages(request.conversation),
            tools: request.tools.iter().map(out_tool).collect(),
        })
    }

    fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
        let answer: MessagesIn<'_> = serde_json::from_slice(body)?;
        let blocks: Result<Vec<Block>, _> = answer.content.into_iter().map(Block::read).collect();
        let blocks = blocks.map_err(WireError::Block)?;
        let is_last_a_call = matches!(blocks.last(), Some(Block::Call(_)));
        let (mut text, mut calls) = (String::new(), Vec::new());
        for block in blocks {
            match block {
                Block::Text(more) => text.push_str(&more),
                Block::Call(call) => calls.push(call),
                Block::Other => {}
            }
        }
        let stop = stop(answer.stop_reason, answer.stop_details.as_ref(), &text, !calls.is_empty());
        if let (Stop::Length, true, Some(last)) = (&stop, is_last_a_call, calls.last_mut()) {
            uncover_cut(&mut last.arguments);
        }
        Ok(WireAnswer { text, calls, stop, usage: count(answer.usage.as_ref()), model: answer.model })
    }
}

#[derive(Serialize)]
struct MessagesOut<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    messages: Vec<MessageParam<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<MessagesOutTool<'a>>,
}

#[derive(Serialize)]
struct MessageParam<'a> {
    role: Speaker,
    content: Vec<OutBlock<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Speaker {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutBlock<'a> {
    Text { text: &'a str },
    ToolUse { id: &'a str, name: &'a str, input: Input<'a> },
    ToolResult { tool_use_id: &'a str, content: &'a str },
}

/// The server accepts only an object as input.
#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Object(&'a RawValue),
    Empty {},
}

#[derive(Serialize)]
struct MessagesOutTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

/// Consecutive messages of one role become one message: the results of a reply's calls must follow
/// it together, and roles must alternate.
fn out_messages(conversation: &Conversation) -> Vec<MessageParam<'_>> {
    let mut messages: Vec<MessageParam<'_>> = Vec::new();
    for message in conversation.messages() {
        let (role, content) = out_blocks(message);
        match messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None if content.is_empty() => {}
            None => messages.push(MessageParam { role, content }),
        }
    }
    messages
}

fn out_blocks(message: &Message) -> (Speaker, Vec<OutBlock<'_>>) {
    match message {
        Message::User(text) => (Speaker::User, out_text(text).into_iter().collect()),
        Message::Reply { text, calls } => {
            let text = text.as_deref().and_then(out_text);
            (Speaker::Assistant, text.into_iter().chain(calls.iter().map(out_call)).collect())
        }
        Message::Tool { call_id, text, .. } => {
            (Speaker::User, vec![OutBlock::ToolResult { tool_use_id: call_id, content: text }])
        }
    }
}

/// The server refuses a blank text.
fn out_text(text: &str) -> Option<OutBlock<'_>> {
    (!text.trim().is_empty()).then_some(OutBlock::Text { text })
}

fn out_call(call: &ProposedCall) -> OutBlock<'_> {
    let raw: Option<&RawValue> = serde_json::from_str(&call.arguments).ok();
    let object = raw.filter(|raw| raw.get().starts_with('{'));
    OutBlock::ToolUse { id: &call.id, name: &call.tool, input: object.map_or(Input::Empty {}, Input::Object) }
}

fn out_tool(offer: &ToolOffer) -> MessagesOutTool<'_> {
    MessagesOutTool { name: &offer.name, description: &offer.summary, input_schema: &offer.input }
}

#[derive(Deserialize)]
#[serde(rename = "In")]
struct MessagesIn<'a> {
    model: Option<String>,
    // Raw, so that a call's input keeps the model's own bytes, and a block of an unknown kind may
    // have any shape.
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    stop_reason: Option<String>,
    stop_details: Option<Value>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct InKind {
    r#type: String,
}

#[derive(Deserialize)]
struct InText {
    text: String,
}

#[derive(Deserialize)]
#[serde(rename = "InCall")]
struct MessagesInCall {
    id: Option<String>,
    name: String,
    input: Option<Box<RawValue>>,
}

/// A block of an answer. Thinking is `Other`: it is neither text for the person nor a call.
enum Block {
    Text(String),
    Call(WireCall),
    Other,
}

impl Block {
    fn read(raw: &RawValue) -> serde_json::Result<Self> {
        let InKind { r#type } = serde_json::from_str(raw.get())?;
        Ok(match r#type.as_str() {
            "text" => Self::Text(serde_json::from_str::<InText>(raw.get())?.text),
            "tool_use" => {
                let MessagesInCall { id, name, input } = serde_json::from_str(raw.get())?;
                let arguments = input.map(|input| input.get().to_owned()).unwrap_or_default();
                Self::Call(WireCall { id, tool: name, arguments })
            }
            _ => Self::Other,
        })
    }
}

/// If a length limit ends a reply inside a call, the server closes the object that the model began,
/// which would then look complete. This removes the end again, so that the call is refused as
/// invalid JSON, as it is for a server that sends truncated input.
fn uncover_cut(arguments: &mut String) {
    if arguments.ends_with('}') {
        arguments.pop();
    }
}

fn stop(reason: Option<String>, details: Option<&Value>, text: &str, has_calls: bool) -> Stop {
    match reason.as_deref() {
        Some("refusal") => Stop::Refusal(refusal(details, text)),
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
        Some("tool_use" | "end_turn") | None if has_calls => Stop::ToolCalls,
        Some("end_turn") | None => Stop::EndTurn,
        // Includes `pause_turn`, which only the server's own tools cause: none is requested.
        Some(other) => Stop::Other(other.to_owned()),
    }
}

/// What the server says about a refusal, else what the model said.
fn refusal(details: Option<&Value>, text: &str) -> String {
    let explained = details.and_then(|details| details.get("explanation")?.as_str());
    let said = explained.into_iter().chain([text]).find(|said| !said.is_empty());
    said.unwrap_or("the model refused without giving a reason").to_owned()
}

/// A malformed count must not lose a reply. Request tokens written to a cache or read from one are
/// not in `input_tokens`.
fn count(counted: Option<&Value>) -> TokenUsage {
    let tokens = |name| counted.and_then(|usage| usage.get(name)?.as_u64()).unwrap_or(0);
    let cached = tokens("cache_creation_input_tokens").saturating_add(tokens("cache_read_input_tokens"));
    TokenUsage {
        input_tokens: tokens("input_tokens").saturating_add(cached),
        output_tokens: tokens("output_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Messages, out_messages};
    use crate::llm::remote::wire::read;
    use crate::llm::tests::scripted::{chat, unnamed};
    use crate::llm::{ModelReply, Stop};
    use crate::types::Digest;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn reply(content: &str, stop_reason: &str) -> ModelReply {
        let body = format!(r#"{{"content":{content},"stop_reason":{stop_reason}}}"#);
        read::<Messages>(body.into_bytes(), Digest::sha256(b"request"), "asked").expect("a reply")
    }

    #[test]
    fn texts_are_joined_and_other_blocks_left_out() {
        for (content, expect) in [
            ("[]", None),
            (r#"[{"type":"text","text":""}]"#, None),
            (r#"[{"type":"text","text":"a"},{"type":"text","text":"b","citations":[]}]"#, Some("ab")),
            (r#"[{"type":"thinking","thinking":"x","signature":"y"},{"type":"text","text":"b"}]"#, Some("b")),
            (r#"[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"b"}]"#, Some("b")),
            (r#"[{"type":"server_tool_use","name":["x"],"text":7},{"type":"text","text":"b"}]"#, Some("b")),
        ] {
            let reply = reply(content, "null");
            assert_eq!((reply.text.as_deref(), reply.calls.len()), (expect, 0), "{content}");
        }
    }

    #[test]
    fn the_input_of_a_call_keeps_its_bytes() {
        for (sent, expect) in [
            ("{}", "{}"),
            (r#"{ "b": 1.0,"a":1e2 , "b": 2}"#, r#"{ "b": 1.0,"a":1e2 , "b": 2}"#),
            (r#"{"a":"\u00e9"}"#, r#"{"a":"\u00e9"}"#),
            (r#""{}""#, r#""{}""#),
            ("[1]", "[1]"),
            ("null", ""),
        ] {
            let call = format!(r#"[{{"input":{sent},"type":"tool_use","name":"t"}}]"#);
            assert_eq!(reply(&call, "\"tool_use\"").calls[0].arguments, expect, "{sent}");
        }
    }

    #[test]
    fn a_call_that_was_cut_does_not_pass_for_a_whole_one() {
        let call = r#"{"type":"tool_use","name":"t","input":{"path":"/x"}}"#;
        let text = r#"{"type":"text","text":"a"}"#;
        for (content, stop_reason, expect) in [
            (format!("[{call},{call}]"), "max_tokens", vec![r#"{"path":"/x"}"#, r#"{"path":"/x""#]),
            (format!("[{call}]"), "model_context_window_exceeded", vec![r#"{"path":"/x""#]),
            (format!("[{call},{text}]"), "max_tokens", vec![r#"{"path":"/x"}"#]),
            (format!("[{call}]"), "tool_use", vec![r#"{"path":"/x"}"#]),
        ] {
            let reply = reply(&content, &format!("{stop_reason:?}"));
            let found: Vec<&str> = reply.calls.iter().map(|call| call.arguments.as_str()).collect();
            assert_eq!(found, expect, "{content} {stop_reason}");
        }
    }

    #[test]
    fn the_stop_reason_is_kept() {
        let call = r#"[{"type":"tool_use","name":"t","input":{}}]"#;
        let other = |name: &str| Stop::Other(name.to_owned());
        for (content, stop_reason, expect) in [
            ("[]", r#""end_turn""#, Stop::EndTurn),
            ("[]", "null", Stop::EndTurn),
            (call, r#""tool_use""#, Stop::ToolCalls),
            (call, r#""end_turn""#, Stop::ToolCalls),
            (call, r#""max_tokens""#, Stop::Length),
            ("[]", r#""model_context_window_exceeded""#, Stop::Length),
            ("[]", r#""tool_use""#, other("tool_use")),
            ("[]", r#""pause_turn""#, other("pause_turn")),
            ("[]", r#""stop_sequence""#, other("stop_sequence")),
            ("[]", r#""\u001b[2J""#, other("\\u{1b}[2J")),
        ] {
            assert_eq!(reply(content, stop_reason).stop, expect, "{content} {stop_reason}");
        }
    }

    #[test]
    fn content_that_the_server_would_refuse_is_not_sent() {
        let check = |arguments: &str, expect: Value| {
            let mut conversation = chat("");
            let mut reply = reply(r#"[{"type":"tool_use","id":"a","name":"t","input":{}}]"#, "null");
            reply.text = Some(" ".to_owned());
            reply.calls[0].arguments = arguments.to_owned();
            conversation.push_reply(&unnamed(reply));
            let sent = serde_json::to_value(out_messages(&conversation)).expect("JSON");
            let call = json!({"type": "tool_use", "id": "a", "name": "t", "input": expect});
            assert_eq!(sent, json!([{"role": "assistant", "content": [call]}]), "{arguments}");
        };
        check(" {\"a\": [1]} ", json!({"a": [1]}));
        for no_object in ["", "{", "{}}", "[1]", "\"{}\"", "null", "rm -rf /", "{\"a\":\u{1b}}"] {
            check(no_object, json!({}));
        }
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        #[test]
        fn any_bytes_are_a_reply_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(reply) = read::<Messages>(bytes.clone(), Digest::sha256(b""), "asked") {
                prop_assert_eq!(reply.raw, bytes);
            }
        }
    }
}
