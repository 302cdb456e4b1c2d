//! Messages: `POST {base_url}/messages`, the protocol of Anthropic's API.

mod answer;
mod partial;

use super::fields::{ArgumentObject, unchanged};
use super::schema;
use crate::egress::Credential;
use crate::llm::conversation::{Conversation, Message};
use crate::llm::proposer::ProviderKind;
use crate::llm::provider::ToolOffer;
use crate::llm::remote::answer::WireAnswer;
use crate::llm::remote::wire::{Wire, WireError, WireRequest};
use crate::llm::reply::ReplyPiece;
use crate::tools::ProposedCall;
use crate::types::{Secret, limits};
use partial::PartialMessage;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The Messages protocol.
#[derive(Debug)]
pub(in crate::llm) struct Messages;

impl Wire for Messages {
    const KIND: ProviderKind = ProviderKind::Anthropic;
    const BASE_URL: &'static str = "https://api.anthropic.com/v1";
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];
    type Partial = PartialMessage;

    fn path(_: &str, _: bool) -> String {
        "messages".to_owned()
    }

    fn credential(key: &Secret) -> Credential<'_> {
        Credential::ApiKey(key)
    }

    fn write(request: &WireRequest<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&MessagesOut {
            model: request.model(),
            // Required by the server.
            max_tokens: request.reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
            stream: request.is_streamed,
            system: request.conversation.system(),
            messages: out_messages(request.conversation, request),
            tools: request.tools.iter().map(out_tool).collect(),
        })
    }

    fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
        answer::read(body)
    }
}

#[derive(Serialize)]
struct MessagesOut<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
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
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: ArgumentObject<'a>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
    },
    #[serde(untagged)]
    Thinking(&'a RawValue),
}

#[derive(Serialize)]
struct MessagesOutTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Cow<'a, Value>,
}

/// Consecutive messages of one role become one message: the results of a reply's calls must follow
/// it together, and roles must alternate.
fn out_messages<'a>(conversation: &'a Conversation, request: &WireRequest<'_>) -> Vec<MessageParam<'a>> {
    let mut messages: Vec<MessageParam<'a>> = Vec::new();
    for message in conversation.messages() {
        let (role, content) = out_blocks(message, request);
        match messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None if content.is_empty() => {}
            None => messages.push(MessageParam { role, content }),
        }
    }
    messages
}

fn out_blocks<'a>(message: &'a Message, request: &WireRequest<'_>) -> (Speaker, Vec<OutBlock<'a>>) {
    let piece = |piece| match piece {
        ReplyPiece::Text(text) => out_text(text),
        ReplyPiece::Call(call) => Some(out_call(call)),
        ReplyPiece::Opaque(state) => request.state(state).and_then(unchanged).map(OutBlock::Thinking),
    };
    match message {
        Message::User(text) => (Speaker::User, out_text(text).into_iter().collect()),
        Message::Reply { .. } => (Speaker::Assistant, message.pieces().filter_map(piece).collect()),
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
    OutBlock::ToolUse { id: &call.id, name: &call.tool, input: ArgumentObject::of(&call.arguments) }
}

fn out_tool(offer: &ToolOffer) -> MessagesOutTool<'_> {
    let input_schema = schema::messages(&offer.input);
    MessagesOutTool { name: &offer.name, description: &offer.summary, input_schema }
}

#[cfg(test)]
mod tests {
    use super::Messages;
    use crate::llm::remote::wire::read;
    use crate::llm::tests::scripted::{chat, reply_of, unnamed, written};
    use crate::llm::{ModelReply, OpaqueOrigin, Stop};
    use crate::types::Digest;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn reply(content: &str, stop_reason: &str) -> ModelReply {
        let body = format!(r#"{{"content":{content},"stop_reason":{stop_reason}}}"#);
        reply_of::<Messages>(body.as_bytes())
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
            ("[]", r#""end_turn""#, Stop::Empty),
            ("[]", "null", Stop::Empty),
            (r#"[{"type":"text","text":"a"}]"#, "null", Stop::EndTurn),
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
            let blank = r#"[{"type":"text","text":" "},{"type":"tool_use","id":"a","name":"t","input":{}}]"#;
            let mut reply = reply(blank, "null");
            reply.calls[0].arguments = arguments.to_owned();
            conversation.push_reply(&unnamed(reply));
            let sent = written::<Messages>(&conversation, &[])["messages"].clone();
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
            if let Ok(reply) = read::<Messages>(bytes.clone(), Digest::sha256(b""), &OpaqueOrigin::default()) {
                prop_assert_eq!(reply.raw, bytes);
            }
        }
    }
}
