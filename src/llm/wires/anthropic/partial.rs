//! A streamed answer of Messages.

use super::answer::{count, part, stop, uncover_cut};
use crate::llm::remote::answer::{WireAnswer, WireCall, WirePart};
use crate::llm::remote::wire::{PartialAnswer, WireError};
use crate::llm::reply::Stop;
use crate::llm::wires::fields::reported;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The events that have come.
#[derive(Debug, Default)]
pub(in crate::llm) struct PartialMessage {
    /// By their place.
    blocks: BTreeMap<u64, PartialBlock>,
    stop_reason: Option<String>,
    stop_details: Option<Value>,
    /// The counts of every event; a later one replaces an earlier one.
    usage: Map<String, Value>,
    model: Option<String>,
    is_done: bool,
}

/// A content block: as it began, and what was added since.
#[derive(Debug)]
struct PartialBlock {
    began: Box<RawValue>,
    text: String,
    input: String,
    thinking: String,
    signature: String,
}

#[derive(Deserialize)]
struct StreamEvent {
    r#type: String,
    index: Option<u64>,
    message: Option<MessageStart>,
    content_block: Option<Box<RawValue>>,
    delta: Option<EventDelta>,
    usage: Option<Map<String, Value>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct MessageStart {
    model: Option<String>,
    usage: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct EventDelta {
    text: Option<String>,
    partial_json: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    stop_reason: Option<String>,
    stop_details: Option<Value>,
}

#[derive(Deserialize)]
struct BeganBlock {
    r#type: String,
    text: Option<String>,
}

impl PartialAnswer for PartialMessage {
    fn frame(&mut self, frame: &[u8]) -> Result<Option<String>, WireError> {
        if self.is_done {
            return Ok(None);
        }
        let event: StreamEvent = serde_json::from_slice(frame)?;
        match event.r#type.as_str() {
            "message_start" => {
                let Some(MessageStart { model, usage }) = event.message else { return Ok(None) };
                self.model = model;
                self.usage.extend(usage.unwrap_or_default());
            }
            "content_block_start" => return self.begin(event.index, event.content_block),
            "content_block_delta" => {
                let block = event.index.and_then(|index| self.blocks.get_mut(&index));
                return Ok(block.zip(event.delta).and_then(|(block, delta)| block.add(delta)));
            }
            "message_delta" => {
                self.usage.extend(event.usage.unwrap_or_default());
                if let Some(delta) = event.delta {
                    self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                    self.stop_details = delta.stop_details.or(self.stop_details.take());
                }
            }
            "message_stop" => self.is_done = true,
            "error" => {
                return Err(WireError::Reported(reported(&event.error.unwrap_or(Value::Null))));
            }
            _ => {}
        }
        Ok(None)
    }

    fn is_whole(&self) -> bool {
        self.is_done
    }

    fn answer(self) -> Result<WireAnswer, WireError> {
        let is_cut_call = self.blocks.values().last().is_some_and(|block| block.input.is_empty());
        let mut parts = Vec::new();
        for block in self.blocks.into_values() {
            parts.extend(block.part().map_err(WireError::Block)?);
        }
        let stop = stop(self.stop_reason, self.stop_details.as_ref(), &parts);
        // Input that was cut is invalid JSON, unless nothing of it came.
        if let (Stop::Length, true, Some(WirePart::Call(last))) = (&stop, is_cut_call, parts.last_mut()) {
            uncover_cut(&mut last.arguments);
        }
        let usage = Value::Object(self.usage);
        Ok(WireAnswer { parts, stop, usage: count(Some(&usage)), model: self.model })
    }
}

impl PartialMessage {
    fn begin(
        &mut self,
        index: Option<u64>,
        block: Option<Box<RawValue>>,
    ) -> Result<Option<String>, WireError> {
        let (Some(index), Some(began)) = (index, block) else { return Ok(None) };
        let BeganBlock { r#type, text, .. } = serde_json::from_str(began.get()).map_err(WireError::Block)?;
        let text = text.filter(|_| r#type == "text").unwrap_or_default();
        let delta = Some(text.clone()).filter(|text| !text.is_empty());
        let (input, thinking, signature) = (String::new(), String::new(), String::new());
        self.blocks.insert(index, PartialBlock { began, text, input, thinking, signature });
        Ok(delta)
    }
}

impl PartialBlock {
    fn add(&mut self, delta: EventDelta) -> Option<String> {
        self.input.push_str(delta.partial_json.as_deref().unwrap_or_default());
        self.thinking.push_str(delta.thinking.as_deref().unwrap_or_default());
        self.signature.push_str(delta.signature.as_deref().unwrap_or_default());
        self.text.push_str(delta.text.as_deref().unwrap_or_default());
        delta.text.filter(|text| !text.is_empty())
    }

    /// The block as a whole answer has it. A call without input has an empty object, both where the
    /// block begins and as the one piece that follows.
    fn part(self) -> serde_json::Result<Option<WirePart>> {
        let BeganBlock { r#type, .. } = serde_json::from_str(self.began.get())?;
        match r#type.as_str() {
            "text" => Ok(Some(WirePart::Text(self.text))),
            "tool_use" if !self.input.is_empty() => Ok(match part(&self.began)? {
                Some(WirePart::Call(call)) => {
                    Some(WirePart::Call(WireCall { arguments: self.input, ..call }))
                }
                other => other,
            }),
            "thinking" if !self.signature.is_empty() || !self.thinking.is_empty() => {
                let mut block: Map<String, Value> = serde_json::from_str(self.began.get())?;
                block.insert("thinking".to_owned(), self.thinking.into());
                if !self.signature.is_empty() {
                    block.insert("signature".to_owned(), self.signature.into());
                }
                part(&to_raw_value(&block)?)
            }
            _ => part(&self.began),
        }
    }
}
