//! An answer of generateContent. A stream consists of such answers, each with the parts that are
//! new, so a whole answer is a stream of one.

use crate::llm::remote::answer::{WireAnswer, WireCall, WirePart};
use crate::llm::remote::wire::{PartialAnswer, WireError};
use crate::llm::reply::{Stop, TokenUsage};
use crate::llm::wires::fields::{reported, tokens};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The answers that have come.
#[derive(Debug, Default)]
pub(in crate::llm) struct PartialContent {
    parts: Vec<WirePart>,
    has_candidate: bool,
    finish_reason: Option<String>,
    block_reason: Option<String>,
    usage: Option<Value>,
    model: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GenerateContent {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<Value>,
    model_version: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<CandidateContent>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct CandidateContent {
    #[serde(default)]
    parts: Vec<ContentPart>,
}

/// A part; of the kinds of parts, only these two are asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentPart {
    text: Option<String>,
    thought: Option<bool>,
    /// Belongs to the part that it is in, and is wanted back with it.
    thought_signature: Option<Box<RawValue>>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: String,
    args: Option<Box<RawValue>>,
}

impl PartialAnswer for PartialContent {
    fn frame(&mut self, frame: &[u8]) -> Result<Option<String>, WireError> {
        let more: GenerateContent = serde_json::from_slice(frame)?;
        if let Some(error) = more.error {
            return Err(WireError::Reported(reported(&error)));
        }
        self.usage = more.usage_metadata.or(self.usage.take());
        self.model = self.model.take().or(more.model_version);
        self.block_reason =
            self.block_reason.take().or(more.prompt_feedback.and_then(|one| one.block_reason));
        let Some(Candidate { content, finish_reason }) = more.candidates.into_iter().next() else {
            return Ok(None);
        };
        self.has_candidate = true;
        self.finish_reason = finish_reason.or(self.finish_reason.take());
        let mut delta = String::new();
        for part in content.into_iter().flat_map(|content| content.parts) {
            self.add(part, &mut delta);
        }
        Ok(Some(delta).filter(|text| !text.is_empty()))
    }

    fn is_whole(&self) -> bool {
        self.finish_reason.is_some() || (self.block_reason.is_some() && !self.has_candidate)
    }

    fn answer(self) -> Result<WireAnswer, WireError> {
        if !self.has_candidate && self.block_reason.is_none() {
            return Err(WireError::NoChoice);
        }
        let has_calls = self.parts.iter().any(|part| matches!(part, WirePart::Call(_)));
        let usage = self.usage.as_ref();
        // What a model thinks is counted apart.
        let output_tokens =
            tokens(usage, "/candidatesTokenCount").saturating_add(tokens(usage, "/thoughtsTokenCount"));
        let usage = TokenUsage { input_tokens: tokens(usage, "/promptTokenCount"), output_tokens };
        let reason = self.finish_reason.or(self.block_reason.filter(|_| !self.has_candidate));
        Ok(WireAnswer { parts: self.parts, stop: stop(reason, has_calls), usage, model: self.model })
    }
}

impl PartialContent {
    fn add(&mut self, part: ContentPart, delta: &mut String) {
        let ContentPart { text, thought, thought_signature, function_call } = part;
        let state = thought_signature.filter(|state| state.get() != "null");
        self.parts.extend(state.map(|state| WirePart::Opaque(state.get().to_owned())));
        if let Some(FunctionCall { id, name, args }) = function_call {
            let arguments = args.map_or_else(|| "{}".to_owned(), |args| args.get().to_owned());
            self.parts.push(WirePart::Call(WireCall { id, tool: name, arguments }));
        }
        // A thought is neither text for the person nor a call.
        if let Some(text) = text.filter(|text| !text.is_empty() && thought != Some(true)) {
            delta.push_str(&text);
            self.parts.push(WirePart::Text(text));
        }
    }
}

/// The server says `STOP` for calls too.
fn stop(reason: Option<String>, has_calls: bool) -> Stop {
    match reason.as_deref() {
        Some("MAX_TOKENS") => Stop::Length,
        Some(
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "IMAGE_SAFETY" | "MODEL_ARMOR",
        ) => Stop::ContentFilter(reason.unwrap_or_default()),
        Some("STOP") | None if has_calls => Stop::ToolCalls,
        Some("STOP") | None => Stop::EndTurn,
        Some(other) => Stop::Other(other.to_owned()),
    }
}
