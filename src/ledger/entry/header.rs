//! The header of an entry: the fields that PAR reads, and the rules for valid header bytes. Pure:
//! no disk, no clock.

use super::draft::Payload;
use super::kind::Kind;
use crate::types::json::{JsonError, has_only_exact_integers, parse_strict};
use crate::types::{DataLabels, Decision, Digest, limits, text};
use serde_json::{Map, Value};

/// The format's name, in every header.
pub const FORMAT: &str = "par/entry/1";

/// Why bytes are not a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The header is longer than the format allows.
    #[error("header of {0} bytes is too long")]
    TooLong(usize),
    /// The bytes are not strict JSON.
    #[error("header is not valid JSON: {0}")]
    Json(#[source] JsonError),
    /// The JSON is not an object.
    #[error("header is not a JSON object")]
    NoObject,
    /// A field has a type that no header field has.
    #[error("header field `{0}` has a type that the format does not allow")]
    ForeignType(String),
    /// A field has another type than the format gives it.
    #[error("header field `{0}` has another type than the format gives it")]
    OtherType(String),
    /// A required field is missing or malformed.
    #[error("header field `{0}` is missing or malformed")]
    Missing(&'static str),
}

/// A parsed header: the fields that PAR itself uses, and the whole object for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The log's identifier.
    pub log: String,
    /// Position in the log, from 0.
    pub seq: u64,
    /// Leaf hash of the entry before; `None` for the first entry.
    pub prev: Option<Digest>,
    /// The kind; a later version may write one that this version does not know.
    pub kind: String,
    /// Commitment to the payload.
    pub payload: Digest,
    /// Length of the payload, in bytes.
    pub payload_len: u64,
    /// Every field, also those above.
    pub fields: Map<String, Value>,
}

impl Header {
    /// Parses header bytes of any JSON form. This parser defines what a valid header is.
    pub(in crate::ledger) fn parse_any(bytes: &[u8]) -> Result<Self, HeaderError> {
        if bytes.len() >= limits::HEADER_ENTRY_BYTES_MAX {
            return Err(HeaderError::TooLong(bytes.len()));
        }
        let Value::Object(fields) = parse_strict(bytes, 2).map_err(HeaderError::Json)? else {
            return Err(HeaderError::NoObject);
        };
        if let Some((name, _)) = fields.iter().find(|(_, value)| !is_header_value(value)) {
            return Err(HeaderError::ForeignType(text::visible_line(name)));
        }
        if let Some((name, _)) = fields.iter().find(|(name, value)| !is_of_its_type(name, value)) {
            return Err(HeaderError::OtherType(name.clone()));
        }
        let string = |name: &str| fields.get(name).and_then(Value::as_str);
        let number = |name: &str| fields.get(name).and_then(Value::as_u64);
        let digest = |name: &str| string(name).and_then(Digest::from_hex);
        let missing = |name: &'static str| HeaderError::Missing(name);
        if string("t") != Some(FORMAT) {
            return Err(missing("t"));
        }
        if let Some(name) =
            ["boot", "wall_us", "mono_us"].into_iter().find(|name| !fields.contains_key(*name))
        {
            return Err(missing(name));
        }
        Ok(Self {
            log: string("log").ok_or_else(|| missing("log"))?.to_owned(),
            seq: number("seq").ok_or_else(|| missing("seq"))?,
            prev: digest("prev"),
            kind: string("kind").ok_or_else(|| missing("kind"))?.to_owned(),
            payload: digest("payload").ok_or_else(|| missing("payload"))?,
            payload_len: number("payload_len").ok_or_else(|| missing("payload_len"))?,
            fields,
        })
    }

    /// What stands in a list for an entry whose header cannot be read. It has no kind.
    pub(in crate::ledger) fn unreadable(seq: u64, what: &str) -> Self {
        let fields = [("seq", Value::from(seq)), ("damaged", Value::from(what))];
        Self {
            log: String::new(),
            seq,
            prev: None,
            kind: String::new(),
            payload: Digest([0; 32]),
            payload_len: 0,
            fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// Whether it only stands for an entry whose header cannot be read.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.kind.is_empty()
    }

    /// The field `name`, if it is a string.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// The field `name`, if it is a number of 64 bits without sign.
    #[must_use]
    pub fn u64(&self, name: &str) -> Option<u64> {
        self.fields.get(name).and_then(Value::as_u64)
    }

    /// The kind; `None` if only a later version knows it.
    #[must_use]
    pub fn known_kind(&self) -> Option<Kind> {
        Kind::parse(&self.kind)
    }

    /// The decision of a `call.decision`.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.str("decision").and_then(Decision::parse)
    }

    /// The determining policies.
    #[must_use]
    pub fn policies(&self) -> Vec<String> {
        let listed = self.fields.get("policies").and_then(Value::as_array).into_iter().flatten();
        listed.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The labels of what the entry stores; `None` if it has none, which counts as untrusted.
    #[must_use]
    pub fn labels(&self) -> Option<DataLabels> {
        let words = |name: &str| {
            let listed = self.fields.get(name).and_then(Value::as_array);
            listed.map(|words| words.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        Some(DataLabels { taint: words("taint")?, seen: words("seen").unwrap_or_default() })
    }

    /// The content of `body`, the payload of this entry. `None` if the entry is of another kind or
    /// the payload does not parse: it was too long and was cut, or the files were edited and no
    /// verification has found it yet.
    #[must_use]
    pub fn payload_of<P: Payload>(&self, body: &[u8]) -> Option<P> {
        if self.is(P::KIND) { serde_json::from_slice(body).ok() } else { None }
    }

    /// Whether the payload may be shown, exported or searched. That of `key.create` may not: it
    /// holds verifiers.
    #[must_use]
    pub fn shows_payload(&self) -> bool {
        !self.is(Kind::KeyCreate)
    }

    /// Whether a redaction may erase the payload, see [`Kind::is_redactable`]. Payloads of kinds
    /// that this version does not know are kept.
    #[must_use]
    pub fn is_redactable(&self) -> bool {
        self.known_kind().is_some_and(Kind::is_redactable)
    }

    /// Whether the payload is dropped with age, see [`Kind::is_expirable`]. Payloads of kinds that
    /// this version does not know are kept.
    #[must_use]
    pub fn is_expirable(&self) -> bool {
        self.known_kind().is_some_and(Kind::is_expirable)
    }

    /// Whether the entry is of `kind`.
    #[must_use]
    pub fn is(&self, kind: Kind) -> bool {
        self.kind == kind.as_str()
    }
}

fn is_header_value(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Bool(_) => true,
        Value::Number(_) => has_only_exact_integers(value),
        Value::Array(items) => items.iter().all(Value::is_string),
        Value::Null | Value::Object(_) => false,
    }
}

/// Whether a field that the format names has its type. Other fields always pass.
pub(super) fn is_of_its_type(name: &str, value: &Value) -> bool {
    match name {
        "prev" | "payload" | "policy" | "manifest" => value.as_str().and_then(Digest::from_hex).is_some(),
        "t" | "log" | "kind" | "boot" | "run" | "session" | "call" | "principal" | "decision" | "status"
        | "tool" => value.is_string(),
        "seq" | "payload_len" | "ref" => value.is_u64(),
        "wall_us" | "mono_us" => value.is_i64(),
        "policies" | "taint" | "seen" => value.is_array(),
        _ => true,
    }
}
