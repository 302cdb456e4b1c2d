//! An answer of Ollama's chat. A stream consists of such answers, each with the text that is new,
//! so a whole answer is a stream of one.

use crate::llm::remote::answer::{WireAnswer, WireCall, WirePart};
use crate::llm::remote::wire::{PartialAnswer, WireError};
use crate::llm::reply::{Stop, TokenUsage};
use crate::llm::wires::fields::{arguments, reported};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The answers that have come.
#[derive(Debug, Default)]
pub(in crate::llm) struct PartialChat {
    thinking: String,
    text: String,
    calls: Vec<WireCall>,
    done_reason: Option<String>,
    usage: TokenUsage,
    model: Option<String>,
    has_message: bool,
    is_done: bool,
}

#[derive(Deserialize)]
struct OllamaChat {
    model: Option<String>,
    message: Option<OllamaMessage>,
    done: Option<bool>,
    done_reason: Option<String>,
    prompt_eval_count: Option<Value>,
    eval_count: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct OllamaMessage {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<OllamaCall>>,
}

#[derive(Deserialize)]
struct OllamaCall {
    id: Option<String>,
    function: OllamaFunction,
}

#[derive(Deserialize)]
struct OllamaFunction {
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl PartialAnswer for PartialChat {
    fn frame(&mut self, frame: &[u8]) -> Result<Option<String>, WireError> {
        if self.is_done {
            return Ok(None);
        }
        let more: OllamaChat = serde_json::from_slice(frame)?;
        if let Some(error) = more.error {
            return Err(WireError::Reported(reported(&error)));
        }
        let count = |counted: Option<Value>, before| counted.and_then(|one| one.as_u64()).unwrap_or(before);
        self.usage.input_tokens = count(more.prompt_eval_count, self.usage.input_tokens);
        self.usage.output_tokens = count(more.eval_count, self.usage.output_tokens);
        self.model = self.model.take().or(more.model);
        self.done_reason = more.done_reason.or(self.done_reason.take());
        self.is_done = more.done == Some(true);
        let Some(OllamaMessage { content, thinking, tool_calls }) = more.message else { return Ok(None) };
        self.has_message = true;
        self.thinking.push_str(thinking.as_deref().unwrap_or_default());
        self.calls.extend(tool_calls.into_iter().flatten().map(call));
        let content = content.filter(|text| !text.is_empty());
        self.text.push_str(content.as_deref().unwrap_or_default());
        Ok(content)
    }

    fn is_whole(&self) -> bool {
        self.is_done
    }

    fn answer(self) -> Result<WireAnswer, WireError> {
        if !self.has_message {
            return Err(WireError::NoChoice);
        }
        let stop = match self.done_reason.as_deref() {
            Some("length") => Stop::Length,
            Some("stop") | None if !self.calls.is_empty() => Stop::ToolCalls,
            Some("stop") | None => Stop::EndTurn,
            Some(other) => Stop::Other(other.to_owned()),
        };
        let thinking = Some(self.thinking).filter(|text| !text.is_empty());
        let thinking = thinking.map(|text| WirePart::Opaque(Value::from(text).to_string()));
        let calls = self.calls.into_iter().map(WirePart::Call);
        let parts = thinking.into_iter().chain([WirePart::Text(self.text)]).chain(calls).collect();
        Ok(WireAnswer { parts, stop, usage: self.usage, model: self.model })
    }
}

/// The arguments are an object, and come whole.
fn call(call: OllamaCall) -> WireCall {
    let OllamaCall { id, function: OllamaFunction { name, arguments: raw } } = call;
    let id = id.filter(|id| !id.is_empty());
    WireCall { id, tool: name, arguments: arguments(raw.as_deref()) }
}
