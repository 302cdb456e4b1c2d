//! Chat completions: `POST {base_url}/chat/completions`, the protocol of OpenAI's API and of many
//! other servers.

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
use crate::tools::ProposedCall;
use crate::types::Secret;
use partial::PartialCompletion;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The chat completions protocol.
#[derive(Debug)]
pub(in crate::llm) struct ChatCompletions;

impl Wire for ChatCompletions {
    const KIND: ProviderKind = ProviderKind::OpenAi;
    const BASE_URL: &'static str = "https://api.openai.com/v1";
    type Partial = PartialCompletion;

    fn path(_: &str, _: bool) -> String {
        "chat/completions".to_owned()
    }

    fn credential(key: &Secret) -> Credential<'_> {
        Credential::Bearer(key)
    }

    fn write(request: &WireRequest<'_>) -> serde_json::Result<Vec<u8>> {
        let system = Some(request.conversation.system()).filter(|text| !text.is_empty());
        let system = system.map(|content| ChatMessage::System { content });
        let messages = request.conversation.messages().iter().map(|one| out_message(one, request));
        let counts = request.is_streamed && !request.is_plain;
        serde_json::to_vec(&ChatOut {
            model: request.model(),
            stream: request.is_streamed,
            stream_options: counts.then_some(StreamOptions { include_usage: true }),
            max_completion_tokens: request.reply_tokens_max,
            messages: system.into_iter().chain(messages).collect(),
            tools: request.tools.iter().map(out_tool).collect(),
        })
    }

    fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
        answer::read(body)
    }

    /// Not every server knows the option that asks for the usage of a stream.
    fn refuses_extras(body: &[u8]) -> bool {
        String::from_utf8_lossy(body).contains("stream_options")
    }
}

#[derive(Serialize)]
struct ChatOut<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    messages: Vec<ChatMessage<'a>>,
    // Some servers refuse an empty list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ChatOutTool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum ChatMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        // Null next to calls; a message without calls requires a text, which may be empty.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<OutCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
struct OutCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: OutFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct OutFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct ChatOutTool<'a> {
    r#type: &'static str,
    function: OutOffer<'a>,
}

#[derive(Serialize)]
struct OutOffer<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

fn out_message<'a>(message: &'a Message, request: &WireRequest<'_>) -> ChatMessage<'a> {
    match message {
        Message::User(content) => ChatMessage::User { content },
        Message::Reply { text, calls, .. } => ChatMessage::Assistant {
            content: text.as_deref().or(calls.is_empty().then_some("")),
            tool_calls: out_calls(message, request),
        },
        Message::Tool { call_id, text, .. } => ChatMessage::Tool { tool_call_id: call_id, content: text },
    }
}

/// The calls of a reply. The state before a call belongs to it.
fn out_calls<'a>(message: &'a Message, request: &WireRequest<'_>) -> Vec<OutCall<'a>> {
    let (mut calls, mut extra_content) = (Vec::new(), None);
    for piece in message.pieces() {
        match piece {
            ReplyPiece::Text(_) => {}
            ReplyPiece::Opaque(state) => extra_content = request.state(state).and_then(unchanged),
            ReplyPiece::Call(ProposedCall { id, tool, arguments }) => calls.push(OutCall {
                id,
                r#type: "function",
                function: OutFunction { name: tool, arguments },
                extra_content: extra_content.take(),
            }),
        }
    }
    calls
}

fn out_tool(offer: &ToolOffer) -> ChatOutTool<'_> {
    let parameters = schema::chat_completions(&offer.input);
    let function = OutOffer { name: &offer.name, description: &offer.summary, parameters };
    ChatOutTool { r#type: "function", function }
}

#[cfg(test)]
mod tests {
    use super::ChatCompletions;
    use crate::llm::remote::wire::read;
    use crate::llm::tests::scripted::reply_of;
    use crate::llm::{ModelReply, OpaqueOrigin, Stop};
    use crate::types::Digest;
    use proptest::prelude::*;

    fn reply(message: &str, finish_reason: &str) -> ModelReply {
        let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":{finish_reason}}}]}}"#);
        reply_of::<ChatCompletions>(body.as_bytes())
    }

    #[test]
    fn arguments_keep_their_bytes() {
        for (sent, expect) in [
            (r#""{\"a\": 1 }""#, r#"{"a": 1 }"#),
            (r#""{\"a\"""#, r#"{"a""#),
            (r#""rm -rf /""#, "rm -rf /"),
            (r#""""#, ""),
            ("null", ""),
            (r#"{"a": 1 }"#, r#"{"a": 1 }"#),
            ("[1]", "[1]"),
            ("7", "7"),
        ] {
            let call = format!(r#"{{"tool_calls":[{{"function":{{"name":"t","arguments":{sent}}}}}]}}"#);
            assert_eq!(reply(&call, "\"length\"").calls[0].arguments, expect, "{sent}");
        }
    }

    #[test]
    fn texts_come_in_several_forms() {
        for (content, expect) in [
            (r#""a""#, Some("a")),
            (r#""""#, None),
            ("null", None),
            ("[]", None),
            (r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#, Some("ab")),
            (r#"[{"type":"thinking","thinking":[{"text":"x"}]},{"type":"text","text":"b"}]"#, Some("b")),
            (r#"[{"type":"image","text":["x"]},{"text":"b"}]"#, Some("b")),
        ] {
            assert_eq!(reply(&format!(r#"{{"content":{content}}}"#), "null").text.as_deref(), expect);
        }
    }

    #[test]
    fn the_stop_reason_is_kept() {
        let calls = r#"{"tool_calls":[{"function":{"name":"t"}}]}"#;
        let other = |name: &str| Stop::Other(name.to_owned());
        for (message, finish_reason, expect) in [
            (r#"{"content":"a"}"#, r#""stop""#, Stop::EndTurn),
            (r#"{"content":"a"}"#, "null", Stop::EndTurn),
            ("{}", r#""stop""#, Stop::Empty),
            (calls, r#""stop""#, Stop::ToolCalls),
            (calls, r#""length""#, Stop::Length),
            ("{}", r#""tool_calls""#, other("tool_calls")),
            ("{}", r#""content_filter""#, Stop::ContentFilter("content_filter".to_owned())),
            ("{}", r#""\u001b[2J""#, other("\\u{1b}[2J")),
            (r#"{"refusal":"no"}"#, r#""stop""#, Stop::Refusal("no".to_owned())),
            (r#"{"refusal":""}"#, r#""stop""#, Stop::Empty),
        ] {
            assert_eq!(reply(message, finish_reason).stop, expect, "{message} {finish_reason}");
        }
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        #[test]
        fn any_bytes_are_a_reply_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(reply) = read::<ChatCompletions>(bytes.clone(), Digest::sha256(b""), &OpaqueOrigin::default()) {
                prop_assert_eq!(reply.raw, bytes);
            }
        }
    }
}
