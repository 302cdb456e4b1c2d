//! An answer of Responses, whole; and what streams share with it.

use crate::llm::remote::answer::{WireAnswer, WireCall, WirePart};
use crate::llm::remote::wire::WireError;
use crate::llm::reply::{Stop, TokenUsage};
use crate::llm::wires::fields::{reported, tokens};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A response object. Its items stay raw: reasoning is sent back byte for byte, and an item of an
/// unknown kind may have any shape.
#[derive(Deserialize)]
pub(super) struct ResponseIn {
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) output: Vec<Box<RawValue>>,
    pub(super) status: Option<String>,
    incomplete_details: Option<Value>,
    error: Option<Value>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct ItemKind {
    r#type: String,
}

#[derive(Deserialize)]
struct MessageItem {
    #[serde(default)]
    content: Vec<MessagePart>,
}

#[derive(Deserialize)]
struct MessagePart {
    r#type: String,
    text: Option<String>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct FunctionItem {
    call_id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Deserialize)]
struct ReasoningItem {
    encrypted_content: Option<String>,
}

pub(super) fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
    answer(serde_json::from_slice(body)?)
}

/// The answer that a response object is.
pub(super) fn answer(response: ResponseIn) -> Result<WireAnswer, WireError> {
    let ResponseIn { model, output, status, incomplete_details, error, usage } = response;
    if let Some(error) = error.filter(|error| !error.is_null()) {
        return Err(WireError::Reported(reported(&error)));
    }
    if status.is_none() && output.is_empty() {
        return Err(WireError::NoChoice);
    }
    let (mut parts, mut refusal) = (Vec::new(), String::new());
    for item in output {
        add(&item, &mut parts, &mut refusal).map_err(WireError::Block)?;
    }
    let has_calls = parts.iter().any(|part| matches!(part, WirePart::Call(_)));
    let why = incomplete_details.as_ref().and_then(|details| details["reason"].as_str());
    let stop = stop(status.as_deref(), why, refusal, has_calls);
    let usage = TokenUsage {
        input_tokens: tokens(usage.as_ref(), "/input_tokens"),
        output_tokens: tokens(usage.as_ref(), "/output_tokens"),
    };
    Ok(WireAnswer { parts, stop, usage, model })
}

/// Adds an item of the output. Items other than these are left out.
fn add(item: &RawValue, parts: &mut Vec<WirePart>, refusal: &mut String) -> serde_json::Result<()> {
    let ItemKind { r#type } = serde_json::from_str(item.get())?;
    match r#type.as_str() {
        "message" => {
            let MessageItem { content } = serde_json::from_str(item.get())?;
            for part in content {
                match part.r#type.as_str() {
                    "output_text" => parts.extend(part.text.map(WirePart::Text)),
                    "refusal" => refusal.push_str(part.refusal.as_deref().unwrap_or_default()),
                    _ => {}
                }
            }
        }
        "function_call" => {
            let FunctionItem { call_id, name, arguments } = serde_json::from_str(item.get())?;
            parts.push(WirePart::Call(WireCall { id: call_id, tool: name, arguments }));
        }
        // Without its encrypted content, the item is only a reference to what the server was told
        // not to store.
        "reasoning" => {
            let ReasoningItem { encrypted_content } = serde_json::from_str(item.get())?;
            parts.extend(encrypted_content.map(|_| WirePart::Opaque(item.get().to_owned())));
        }
        _ => {}
    }
    Ok(())
}

fn stop(status: Option<&str>, why: Option<&str>, refusal: String, has_calls: bool) -> Stop {
    match (status, why) {
        _ if !refusal.is_empty() => Stop::Refusal(refusal),
        (Some("incomplete"), Some("max_output_tokens")) => Stop::Length,
        (Some("incomplete"), Some("content_filter")) => Stop::ContentFilter("content_filter".to_owned()),
        (Some("incomplete"), why) => Stop::Other(why.unwrap_or("incomplete").to_owned()),
        (Some("completed") | None, _) if has_calls => Stop::ToolCalls,
        (Some("completed") | None, _) => Stop::EndTurn,
        (Some(other), _) => Stop::Other(other.to_owned()),
    }
}
