//! A streamed answer of Responses.

use super::answer::{ResponseIn, answer};
use crate::llm::remote::answer::{WireAnswer, WirePart};
use crate::llm::remote::wire::{PartialAnswer, WireError};
use crate::llm::wires::fields::reported;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The events that have come.
#[derive(Debug, Default)]
pub(in crate::llm) struct PartialResponse {
    text: String,
    /// The items that are complete, each with its place in the output.
    items: Vec<(u64, Box<RawValue>)>,
    /// The response object of the last event.
    last: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct ResponseEvent {
    r#type: String,
    delta: Option<Value>,
    output_index: Option<u64>,
    item: Option<Box<RawValue>>,
    response: Option<Box<RawValue>>,
    error: Option<Value>,
    message: Option<Value>,
}

impl PartialAnswer for PartialResponse {
    fn frame(&mut self, frame: &[u8]) -> Result<Option<String>, WireError> {
        // Some compatible servers end a stream as chat completions do.
        if self.last.is_some() || frame.trim_ascii() == b"[DONE]" {
            return Ok(None);
        }
        let event: ResponseEvent = serde_json::from_slice(frame)?;
        match event.r#type.as_str() {
            "response.output_text.delta" => {
                let more = event.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
                self.text.push_str(more);
                return Ok(Some(more.to_owned()));
            }
            "response.output_item.done" => {
                let index = event.output_index.unwrap_or(self.items.len() as u64);
                self.items.extend(event.item.map(|item| (index, item)));
            }
            "response.completed" | "response.incomplete" | "response.failed" => self.last = event.response,
            "error" => {
                let error = event.error.or(event.message).unwrap_or(Value::Null);
                return Err(WireError::Reported(reported(&error)));
            }
            _ => {}
        }
        Ok(None)
    }

    fn is_whole(&self) -> bool {
        self.last.is_some()
    }

    /// The last event repeats every item; if a server leaves them out there, they are those that
    /// came before.
    fn answer(mut self) -> Result<WireAnswer, WireError> {
        let Some(last) = self.last else {
            return Ok(WireAnswer { parts: vec![WirePart::Text(self.text)], ..WireAnswer::default() });
        };
        let mut response: ResponseIn = serde_json::from_str(last.get())?;
        if response.output.is_empty() {
            self.items.sort_by_key(|(index, _)| *index);
            response.output = self.items.into_iter().map(|(_, item)| item).collect();
        }
        answer(response)
    }
}
