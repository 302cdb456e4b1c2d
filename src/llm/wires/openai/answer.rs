//! An answer of chat completions, whole; and what streams share with it.

use crate::llm::remote::answer::{WireAnswer, WireCall, WirePart};
use crate::llm::remote::wire::WireError;
use crate::llm::reply::{Stop, TokenUsage};
use crate::llm::wires::fields::{arguments, reported, tokens};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub(super) fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
    let ChatAnswer { model, choices, usage, error } = serde_json::from_slice(body)?;
    // Some gateways report a failure with status 200.
    if let (true, Some(error)) = (choices.is_empty(), error) {
        return Err(WireError::Reported(reported(&error)));
    }
    let Choice { message, finish_reason } = choices.into_iter().next().ok_or(WireError::NoChoice)?;
    let refusal = message.refusal.filter(|text| !text.is_empty());
    let calls: Vec<CompletionCall> = message.tool_calls.into_iter().flatten().collect();
    let stop = stop(refusal, finish_reason, !calls.is_empty());
    let text = message.content.map(ChatContent::text).unwrap_or_default();
    let parts =
        std::iter::once(WirePart::Text(text)).chain(calls.into_iter().flat_map(CompletionCall::parts));
    Ok(WireAnswer { parts: parts.collect(), stop, usage: count(usage.as_ref()), model })
}

#[derive(Deserialize)]
struct ChatAnswer {
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: CompletionMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct CompletionMessage {
    content: Option<ChatContent>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CompletionCall>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum ChatContent {
    Text(String),
    Parts(Vec<ChatPart>),
}

/// A part of a text, or something else (thinking, an image), which is left out.
#[derive(Deserialize)]
#[serde(rename = "Part")]
pub(super) struct ChatPart {
    r#type: Option<String>,
    text: Option<Value>,
}

#[derive(Deserialize)]
struct CompletionCall {
    id: Option<String>,
    function: CompletionFunction,
    /// State that some gateways want back with the call.
    extra_content: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct CompletionFunction {
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl ChatContent {
    pub(super) fn text(self) -> String {
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

impl CompletionCall {
    fn parts(self) -> impl Iterator<Item = WirePart> {
        let Self { id, function: CompletionFunction { name, arguments: raw }, extra_content } = self;
        let call = WireCall { id, tool: name, arguments: arguments(raw.as_deref()) };
        call_parts(call, extra_content)
    }
}

/// A call, after the state that belongs to it.
pub(super) fn call_parts(call: WireCall, state: Option<Box<RawValue>>) -> impl Iterator<Item = WirePart> {
    let state = state.filter(|state| state.get() != "null");
    let state = state.map(|state| WirePart::Opaque(state.get().to_owned()));
    state.into_iter().chain([WirePart::Call(call)])
}

pub(super) fn stop(refusal: Option<String>, finish_reason: Option<String>, has_calls: bool) -> Stop {
    match (refusal, finish_reason.as_deref()) {
        (Some(text), _) => Stop::Refusal(text),
        (None, Some("length" | "model_length")) => Stop::Length,
        (None, Some("content_filter")) => Stop::ContentFilter("content_filter".to_owned()),
        // Some servers say `stop` for calls too.
        (None, Some("stop" | "tool_calls" | "function_call") | None) if has_calls => Stop::ToolCalls,
        (None, Some("stop") | None) => Stop::EndTurn,
        (None, Some(other)) => Stop::Other(other.to_owned()),
    }
}

pub(super) fn count(usage: Option<&Value>) -> TokenUsage {
    TokenUsage {
        input_tokens: tokens(usage, "/prompt_tokens"),
        output_tokens: tokens(usage, "/completion_tokens"),
    }
}
