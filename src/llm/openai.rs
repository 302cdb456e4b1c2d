//! Chat completions: `POST {base_url}/chat/completions`, the protocol of OpenAI's API and of many
//! other servers, without streaming.

use super::conversation::Message;
use super::proposer::ProviderKind;
use super::provider::{ModelRequest, ToolOffer};
use super::remote::answer::{WireAnswer, WireCall};
use super::remote::wire::{Wire, WireError};
use super::reply::{Stop, TokenUsage};
use crate::egress::Credential;
use crate::tools::ProposedCall;
use crate::types::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The chat completions protocol.
#[derive(Debug)]
pub(super) struct ChatCompletions;

impl Wire for ChatCompletions {
    const KIND: ProviderKind = ProviderKind::OpenAi;
    const BASE_URL: &'static str = "https://api.openai.com/v1";
    const PATH: &'static str = "chat/completions";
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    fn credential(key: &Secret) -> Credential<'_> {
        Credential::Bearer(key)
    }

    fn write(
        request: &ModelRequest<'_>,
        model: &str,
        reply_tokens_max: Option<u32>,
    ) -> serde_json::Result<Vec<u8>> {
        let system = Some(request.conversation.system()).filter(|text| !text.is_empty());
        let system = system.map(|content| ChatMessage::System { content });
        let messages = request.conversation.messages().iter().map(out_message);
        serde_json::to_vec(&ChatOut {
            model,
            stream: false,
            max_completion_tokens: reply_tokens_max,
            messages: system.into_iter().chain(messages).collect(),
            tools: request.tools.iter().map(out_tool).collect(),
        })
    }

    fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
        let ChatIn { model, choices, usage } = serde_json::from_slice(body)?;
        let Choice { message, finish_reason } = choices.into_iter().next().ok_or(WireError::NoChoice)?;
        let calls: Vec<WireCall> = message.tool_calls.into_iter().flatten().map(call).collect();
        let refusal = message.refusal.filter(|text| !text.is_empty());
        Ok(WireAnswer {
            stop: stop(refusal, finish_reason, !calls.is_empty()),
            text: message.content.map(ChatContent::text).unwrap_or_default(),
            calls,
            usage: count(usage.as_ref()),
            model,
        })
    }
}

#[derive(Serialize)]
struct ChatOut<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    messages: Vec<ChatMessage<'a>>,
    // Some servers refuse an empty list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ChatOutTool<'a>>,
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
    parameters: &'a Value,
}

fn out_message(message: &Message) -> ChatMessage<'_> {
    match message {
        Message::User(content) => ChatMessage::User { content },
        Message::Reply { text, calls } => ChatMessage::Assistant {
            content: text.as_deref().or(calls.is_empty().then_some("")),
            tool_calls: calls.iter().map(out_call).collect(),
        },
        Message::Tool { call_id, text, .. } => ChatMessage::Tool { tool_call_id: call_id, content: text },
    }
}

fn out_call(call: &ProposedCall) -> OutCall<'_> {
    let function = OutFunction { name: &call.tool, arguments: &call.arguments };
    OutCall { id: &call.id, r#type: "function", function }
}

fn out_tool(offer: &ToolOffer) -> ChatOutTool<'_> {
    let ToolOffer { name, summary, input } = offer;
    ChatOutTool { r#type: "function", function: OutOffer { name, description: summary, parameters: input } }
}

#[derive(Deserialize)]
#[serde(rename = "In")]
struct ChatIn {
    model: Option<String>,
    choices: Vec<Choice>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: InMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct InMessage {
    content: Option<ChatContent>,
    refusal: Option<String>,
    tool_calls: Option<Vec<ChatInCall>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ChatContent {
    Text(String),
    Parts(Vec<ChatPart>),
}

/// A part of a text, or something else (thinking, an image), which is left out.
#[derive(Deserialize)]
#[serde(rename = "Part")]
struct ChatPart {
    r#type: Option<String>,
    text: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename = "InCall")]
struct ChatInCall {
    id: Option<String>,
    function: InFunction,
}

#[derive(Deserialize)]
struct InFunction {
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl ChatContent {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.iter().filter_map(ChatPart::text).collect(),
        }
    }
}

impl ChatPart {
    fn text(&self) -> Option<&str> {
        let is_text = self.r#type.as_deref().is_none_or(|kind| matches!(kind, "text" | "output_text"));
        self.text.as_ref().filter(|_| is_text)?.as_str()
    }
}

fn call(call: ChatInCall) -> WireCall {
    WireCall { id: call.id, tool: call.function.name, arguments: arguments(call.function.arguments) }
}

/// The arguments should be a string that contains JSON; some servers send the object itself, whose
/// text is used unchanged.
fn arguments(raw: Option<Box<RawValue>>) -> String {
    let raw = raw.map(|raw| raw.get().to_owned()).unwrap_or_default();
    serde_json::from_str(&raw).unwrap_or(raw)
}

fn stop(refusal: Option<String>, finish_reason: Option<String>, has_calls: bool) -> Stop {
    match (refusal, finish_reason.as_deref()) {
        (Some(text), _) => Stop::Refusal(text),
        (None, Some("length" | "model_length")) => Stop::Length,
        // Some servers say `stop` for calls too.
        (None, Some("stop" | "tool_calls" | "function_call") | None) if has_calls => Stop::ToolCalls,
        (None, Some("stop") | None) => Stop::EndTurn,
        (None, Some(other)) => Stop::Other(other.to_owned()),
    }
}

/// A malformed count must not lose a reply.
fn count(counted: Option<&Value>) -> TokenUsage {
    let tokens = |name| counted.and_then(|usage| usage.get(name)?.as_u64()).unwrap_or(0);
    TokenUsage { input_tokens: tokens("prompt_tokens"), output_tokens: tokens("completion_tokens") }
}

#[cfg(test)]
mod tests {
    use super::ChatCompletions;
    use crate::llm::remote::wire::read;
    use crate::llm::{ModelReply, Stop};
    use crate::types::Digest;
    use proptest::prelude::*;

    fn reply(message: &str, finish_reason: &str) -> ModelReply {
        let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":{finish_reason}}}]}}"#);
        read::<ChatCompletions>(body.into_bytes(), Digest::sha256(b"request"), "asked").expect("a reply")
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
            ("{}", r#""stop""#, Stop::EndTurn),
            ("{}", "null", Stop::EndTurn),
            (calls, r#""stop""#, Stop::ToolCalls),
            (calls, r#""length""#, Stop::Length),
            ("{}", r#""tool_calls""#, other("tool_calls")),
            ("{}", r#""content_filter""#, other("content_filter")),
            ("{}", r#""\u001b[2J""#, other("\\u{1b}[2J")),
            (r#"{"refusal":"no"}"#, r#""stop""#, Stop::Refusal("no".to_owned())),
            (r#"{"refusal":""}"#, r#""stop""#, Stop::EndTurn),
        ] {
            assert_eq!(reply(message, finish_reason).stop, expect, "{message} {finish_reason}");
        }
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        #[test]
        fn any_bytes_are_a_reply_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(reply) = read::<ChatCompletions>(bytes.clone(), Digest::sha256(b""), "asked") {
                prop_assert_eq!(reply.raw, bytes);
            }
        }
    }
}
