//! A streamed answer of chat completions.

use super::answer::{ChatContent, call_parts, count, stop};
use crate::llm::remote::answer::{WireAnswer, WireCall, WirePart};
use crate::llm::remote::wire::{PartialAnswer, WireError};
use crate::llm::wires::fields::{arguments, reported};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The chunks that have come.
#[derive(Debug, Default)]
pub(in crate::llm) struct PartialCompletion {
    text: String,
    refusal: String,
    calls: Vec<PartialCall>,
    finish_reason: Option<String>,
    usage: Option<Value>,
    model: Option<String>,
    is_done: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    call: WireCall,
    state: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    #[serde(default)]
    choices: Vec<ChunkChoice>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChunkChoice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<ChatContent>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallFragment>>,
}

#[derive(Deserialize)]
struct CallFragment {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionFragment>,
    extra_content: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct FunctionFragment {
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

impl PartialAnswer for PartialCompletion {
    fn frame(&mut self, frame: &[u8]) -> Result<Option<String>, WireError> {
        self.is_done |= frame.trim_ascii() == b"[DONE]";
        if self.is_done {
            return Ok(None);
        }
        let Chunk { model, choices, usage, error } = serde_json::from_slice(frame)?;
        if let Some(error) = error {
            return Err(WireError::Reported(reported(&error)));
        }
        self.model = self.model.take().or(model);
        self.usage = usage.or(self.usage.take());
        // The last chunk has the usage, and no choice.
        let Some(ChunkChoice { delta, finish_reason }) = choices.into_iter().next() else { return Ok(None) };
        self.finish_reason = finish_reason.or(self.finish_reason.take());
        let Some(Delta { content, refusal, tool_calls }) = delta else { return Ok(None) };
        self.refusal.push_str(refusal.as_deref().unwrap_or_default());
        tool_calls.into_iter().flatten().for_each(|fragment| self.add(fragment));
        let more = content.map(ChatContent::text).filter(|text| !text.is_empty());
        self.text.push_str(more.as_deref().unwrap_or_default());
        Ok(more)
    }

    /// `[DONE]` ends a stream, and not every server sends it.
    fn is_whole(&self) -> bool {
        self.is_done || self.finish_reason.is_some()
    }

    fn answer(self) -> Result<WireAnswer, WireError> {
        let refusal = Some(self.refusal).filter(|text| !text.is_empty());
        let stop = stop(refusal, self.finish_reason, !self.calls.is_empty());
        let calls = self.calls.into_iter().flat_map(|one| call_parts(one.call, one.state));
        let parts = std::iter::once(WirePart::Text(self.text)).chain(calls).collect();
        Ok(WireAnswer { parts, stop, usage: count(self.usage.as_ref()), model: self.model })
    }
}

impl PartialCompletion {
    /// Adds a fragment to its call. Some servers repeat the identifier and the name in each
    /// fragment, some send every call whole under one index, and some send no index.
    fn add(&mut self, fragment: CallFragment) {
        let CallFragment { index, id, function, extra_content } = fragment;
        let id = id.filter(|id| !id.is_empty());
        let belongs = |one: &PartialCall| match (index, &id, &one.call.id) {
            (Some(_), Some(id), Some(known)) => one.index == index && id == known,
            (Some(_), _, _) => one.index == index,
            (None, Some(_), known) => *known == id,
            (None, None, _) => true,
        };
        let at = self.calls.iter().rposition(belongs).unwrap_or_else(|| {
            self.calls.push(PartialCall { index, ..PartialCall::default() });
            self.calls.len() - 1
        });
        let Some(PartialCall { call, state, .. }) = self.calls.get_mut(at) else { return };
        call.id = call.id.take().or(id);
        *state = extra_content.or(state.take());
        let Some(FunctionFragment { name, arguments: raw }) = function else { return };
        if call.tool.is_empty() {
            call.tool = name.unwrap_or_default();
        }
        call.arguments.push_str(&arguments(raw.as_deref()));
    }
}
