//! The answer of a builtin tool, and how it is written.

use crate::types::clock::Wall;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// The one error for an absent, an unreadable and a forbidden object, so that they cannot be
/// distinguished.
pub const NOT_FOUND: &str = "not permitted or not found";

/// Bytes of the output limit that are reserved for JSON around text and entries.
pub(super) const FRAME_BYTES: usize = 1 << 10;

/// A tool's answer: one JSON object of strings, integers and booleans, or the reason for its
/// absence.
pub type Answer = Result<Value, String>;

/// Writes `answer` as one line of JSON and returns the exit code: 0, or 1 for `{"error": …}`.
pub fn write_answer(answer: Answer, out: &mut impl Write) -> io::Result<u8> {
    let (value, code) = match answer {
        Ok(value) => (value, 0),
        Err(reason) => (json!({ "error": reason }), 1),
    };
    let mut line = serde_json::to_vec(&value).map_err(io::Error::other)?;
    line.push(b'\n');
    out.write_all(&line)?;
    Ok(code)
}

/// Length of `text` as a JSON string, in bytes.
pub(super) fn json_len(text: &str) -> usize {
    2 + text.bytes().map(escaped_len).sum::<usize>()
}

fn escaped_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// `bytes` as one member of an answer, with the number of bytes it contains. It is `text` if they
/// are UTF-8 that takes at most `room` bytes as JSON, without a last character that a limit cut in
/// two; otherwise `base64`.
pub(super) fn shown(bytes: &[u8], truncated: bool, room: usize) -> (&'static str, String, usize) {
    match text_of(bytes, truncated).filter(|text| json_len(text) <= room) {
        Some(text) => ("text", text.to_owned(), text.len()),
        None => ("base64", STANDARD.encode(bytes), bytes.len()),
    }
}

fn text_of(bytes: &[u8], truncated: bool) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(e) if truncated && e.error_len().is_none() && e.valid_up_to() > 0 => {
            std::str::from_utf8(bytes.get(..e.valid_up_to())?).ok()
        }
        Err(_) => None,
    }
}

/// Puts bytes that strangers chose into `members`: under the first name as text, or under the
/// second as base64 if they are not UTF-8.
pub(super) fn put_text(members: &mut Map<String, Value>, names: [&str; 2], bytes: &[u8]) {
    let [text, base64] = names;
    match std::str::from_utf8(bytes) {
        Ok(words) => members.insert(text.to_owned(), json!(words)),
        Err(_) => members.insert(base64.to_owned(), json!(STANDARD.encode(bytes))),
    };
}

/// `answer` with the host's name, and the time now.
#[must_use]
pub fn stamped(mut answer: Value, host: &str) -> Value {
    if let Some(members) = answer.as_object_mut() {
        members.insert("observed_at".to_owned(), json!(Wall::now().rfc3339()));
        members.insert("host".to_owned(), json!(host));
    }
    answer
}

/// A list that ends at a number of entries or at a size.
#[derive(Debug)]
pub struct Fitting {
    entries: Vec<Value>,
    limit: usize,
    room: usize,
    is_cut: bool,
}

impl Fitting {
    /// At most `limit` entries, which take at most `room` bytes as JSON.
    #[must_use]
    pub fn new(limit: u64, room: usize) -> Self {
        Self { entries: Vec::new(), limit: usize::try_from(limit).unwrap_or(usize::MAX), room, is_cut: false }
    }

    /// Adds an entry. After one that did not fit, nothing is added.
    pub fn push(&mut self, entry: Value) {
        let rest = self.room.checked_sub(entry.to_string().len() + 1);
        match rest.filter(|_| !self.is_full()) {
            Some(rest) => {
                self.room = rest;
                self.entries.push(entry);
            }
            None => self.is_cut = true,
        }
    }

    /// Whether no further entry is added.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_cut || self.entries.len() >= self.limit
    }

    /// The entries, and whether some did not fit.
    #[must_use]
    pub fn finish(self) -> (Vec<Value>, bool) {
        (self.entries, self.is_cut)
    }
}

/// The integer argument `name`, or `otherwise` if it is absent.
pub(super) fn integer(arguments: &Value, name: &str, otherwise: u64) -> u64 {
    arguments.get(name).and_then(Value::as_u64).unwrap_or(otherwise)
}

/// Holds `answer` to the output schema of its shipped manifest.
#[cfg(test)]
pub(super) fn hold_to_schema(manifest: &str, answer: &Value) {
    use crate::tools::manifest::output_schema::{OutputSchema, SchemaWords};
    let shipped: toml::Value = toml::from_str(manifest).expect("TOML");
    let schema = serde_json::to_value(&shipped["output_schema"]).expect("a schema");
    let schema = OutputSchema::read(&schema, SchemaWords::Open).expect("a schema");
    assert_eq!(schema.check(answer.as_object().expect("an object")), Ok(()), "{answer}");
}

#[cfg(test)]
mod tests {
    use super::{json_len, write_answer};

    #[test]
    fn json_len_is_what_the_writer_writes() {
        for text in ["", "plain", "\u{0}\u{1b}\n\t\r\u{8}\u{c}\"\\/", "ünï\u{2028}\u{7f}"] {
            assert_eq!(json_len(text), serde_json::to_string(text).expect("JSON").len(), "{text:?}");
        }
    }

    #[test]
    fn an_error_is_one_object_and_code_1() {
        let mut out = Vec::new();
        assert_eq!(write_answer(Err("no".to_owned()), &mut out).expect("written"), 1);
        assert_eq!(out, b"{\"error\":\"no\"}\n");
    }
}
