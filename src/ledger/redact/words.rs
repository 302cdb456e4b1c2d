//! The words of erased payloads, to find them in entries that stay. Pure: no disk, no clock.

use super::error::RedactError;
use super::payload::PayloadToErase;
use crate::types::limits;
use aho_corasick::AhoCorasick;
use serde_json::Value;
use std::collections::BTreeSet;

/// The words of payloads, to find them in other entries and in the reason.
pub(super) struct Words {
    needles: AhoCorasick,
}

/// Members that hold words of people, models and tools.
const SPEAKING: [&str; 12] = [
    "message",
    "text",
    "calls",
    "arguments",
    "arguments_raw",
    "object",
    "result",
    "answer",
    "steps",
    "error",
    "sources",
    "stop_text",
];
/// Members within those that name things and occur in every entry of a call.
const NAMING: [&str; 9] =
    ["id", "tool", "call", "type", "is", "decision", "status", "policies", "proposed_id"];

/// Shorter words occur everywhere.
const WORD_BYTES_MIN: usize = 12;
const WORDS_MAX: usize = 8_192;
const DEPTH_MAX: usize = limits::JSON_DEPTH_MAX + 8;

impl Words {
    pub(super) fn from_payloads(payloads: &[PayloadToErase]) -> Result<Self, RedactError> {
        let mut words = BTreeSet::new();
        for PayloadToErase { header, body, .. } in payloads {
            let payload: Value = serde_json::from_slice(body).unwrap_or_default();
            let mut own = BTreeSet::new();
            for (_, value) in payload
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| SPEAKING.contains(&name.as_str()))
            {
                collect(value, DEPTH_MAX, &mut own);
            }
            // Only the head of a payload that was cut is known.
            if let Some(head) = payload.get("head").filter(|_| payload.get("cut").is_some()) {
                collect(head, DEPTH_MAX, &mut own);
            }
            own.retain(|word| header.fields.values().all(|field| field.as_str() != Some(word)));
            words.extend(own);
        }
        // A text may occur in a JSON text, and that in another: a tool's text in the arguments, and
        // the arguments in the model's own bytes.
        let mut needles = BTreeSet::new();
        for word in words.into_iter().take(WORDS_MAX) {
            let once = escaped(&word);
            let twice = escaped(&once);
            needles.extend([escaped(&twice), twice, once, word]);
        }
        let needles = AhoCorasick::new(needles).map_err(|e| RedactError::Failed(e.to_string()))?;
        Ok(Self { needles })
    }

    pub(super) fn are_in(&self, bytes: &[u8]) -> bool {
        self.needles.is_match(bytes)
    }
}

/// The strings of `value`, and their parts: split by lines, and by white space and quotes.
fn collect(value: &Value, depth: usize, words: &mut BTreeSet<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::String(string) => {
            // Arguments are JSON as the model wrote it; their own strings count.
            if string.starts_with(['{', '['])
                && let Ok(inner) = serde_json::from_str::<Value>(string)
            {
                return collect(&inner, depth, words);
            }
            let cut = |c: char| c.is_whitespace() || "\"'`()[]{}<>,;=".contains(c);
            let parts = string.lines().map(str::trim).chain(string.split(cut));
            words.extend(parts.filter(|part| part.len() >= WORD_BYTES_MIN).map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth, words)),
        Value::Object(members) => {
            let speaking = members.iter().filter(|(name, _)| !NAMING.contains(&name.as_str()));
            speaking.for_each(|(_, value)| collect(value, depth, words));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text as it is written between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}
