//! An answer of Messages, whole; and what streams share with it.

use crate::llm::remote::answer::{WireAnswer, WireCall, WirePart};
use crate::llm::remote::wire::WireError;
use crate::llm::reply::{Stop, TokenUsage};
use crate::llm::wires::fields::{reported, tokens};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub(super) fn read(body: &[u8]) -> Result<WireAnswer, WireError> {
    let answer: MessagesIn<'_> = serde_json::from_slice(body)?;
    // Some gateways report a failure with status 200.
    let content = match (answer.content, answer.error) {
        (Some(content), _) => content,
        (None, Some(error)) => return Err(WireError::Reported(reported(&error))),
        (None, None) => return Err(WireError::Json(serde::de::Error::missing_field("content"))),
    };
    let mut parts = Vec::new();
    for block in content {
        parts.extend(part(block).map_err(WireError::Block)?);
    }
    let is_last_a_call = matches!(parts.last(), Some(WirePart::Call(_)));
    let stop = stop(answer.stop_reason, answer.stop_details.as_ref(), &parts);
    if let (Stop::Length, true, Some(WirePart::Call(last))) = (&stop, is_last_a_call, parts.last_mut()) {
        uncover_cut(&mut last.arguments);
    }
    Ok(WireAnswer { parts, stop, usage: count(answer.usage.as_ref()), model: answer.model })
}

#[derive(Deserialize)]
#[serde(rename = "In")]
struct MessagesIn<'a> {
    model: Option<String>,
    // Raw, so that a call's input keeps the model's own bytes, thinking goes back as it came, and a
    // block of an unknown kind may have any shape.
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    stop_reason: Option<String>,
    stop_details: Option<Value>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct BlockKind {
    r#type: String,
}

#[derive(Deserialize)]
struct TextBlock {
    text: String,
}

#[derive(Deserialize)]
struct CallBlock {
    id: Option<String>,
    name: String,
    input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct ThinkingBlock {
    signature: Option<String>,
}

/// A block of an answer. Thinking is neither text for the person nor a call; signed, it is wanted
/// back.
pub(super) fn part(raw: &RawValue) -> serde_json::Result<Option<WirePart>> {
    let BlockKind { r#type } = serde_json::from_str(raw.get())?;
    Ok(match r#type.as_str() {
        "text" => Some(WirePart::Text(serde_json::from_str::<TextBlock>(raw.get())?.text)),
        "tool_use" => {
            let CallBlock { id, name, input } = serde_json::from_str(raw.get())?;
            let arguments = input.map(|input| input.get().to_owned()).unwrap_or_default();
            Some(WirePart::Call(WireCall { id, tool: name, arguments }))
        }
        "thinking" => {
            let ThinkingBlock { signature } = serde_json::from_str(raw.get())?;
            signature.filter(|text| !text.is_empty()).map(|_| WirePart::Opaque(raw.get().to_owned()))
        }
        "redacted_thinking" => Some(WirePart::Opaque(raw.get().to_owned())),
        _ => None,
    })
}

/// If a length limit ends a reply inside a call, the server closes the object that the model began,
/// which would then look complete. This removes the end again, so that the call is refused as
/// invalid JSON, as it is for a server that sends truncated input.
pub(super) fn uncover_cut(arguments: &mut String) {
    if arguments.ends_with('}') {
        arguments.pop();
    }
}

pub(super) fn stop(reason: Option<String>, details: Option<&Value>, parts: &[WirePart]) -> Stop {
    let has_calls = parts.iter().any(|part| matches!(part, WirePart::Call(_)));
    match reason.as_deref() {
        Some("refusal") => Stop::Refusal(refusal(details, parts)),
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
        Some("tool_use" | "end_turn") | None if has_calls => Stop::ToolCalls,
        Some("end_turn") | None => Stop::EndTurn,
        // Includes `pause_turn`, which only the server's own tools cause: none is requested.
        Some(other) => Stop::Other(other.to_owned()),
    }
}

/// What the server says about a refusal, else what the model said.
fn refusal(details: Option<&Value>, parts: &[WirePart]) -> String {
    let explained = details.and_then(|details| details.get("explanation")?.as_str()).map(str::to_owned);
    let text = |part: &WirePart| if let WirePart::Text(text) = part { Some(text.clone()) } else { None };
    let said = explained.into_iter().chain([parts.iter().filter_map(text).collect()]);
    let mut said = said.filter(|said| !said.is_empty());
    said.next().unwrap_or_else(|| "the model refused without giving a reason".to_owned())
}

/// Request tokens written to a cache or read from one are not in `input_tokens`.
pub(super) fn count(usage: Option<&Value>) -> TokenUsage {
    let cached = tokens(usage, "/cache_creation_input_tokens")
        .saturating_add(tokens(usage, "/cache_read_input_tokens"));
    TokenUsage {
        input_tokens: tokens(usage, "/input_tokens").saturating_add(cached),
        output_tokens: tokens(usage, "/output_tokens"),
    }
}
