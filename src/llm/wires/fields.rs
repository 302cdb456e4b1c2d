//! Pieces of JSON that several protocols have.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The arguments of a call, for a protocol that takes only an object. Whatever else a model wrote
/// is sent as an empty one: it was refused, and its result says so.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ArgumentObject<'a> {
    Object(&'a RawValue),
    Empty {},
}

impl<'a> ArgumentObject<'a> {
    pub(super) fn of(arguments: &'a str) -> Self {
        object(arguments).map_or(Self::Empty {}, Self::Object)
    }
}

/// `text`, if it is a JSON object.
pub(super) fn object(text: &str) -> Option<&RawValue> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    Some(raw).filter(|raw| raw.get().starts_with('{'))
}

/// A part of a request, which this protocol made as an opaque state and takes unchanged.
pub(super) fn unchanged(state: &str) -> Option<&RawValue> {
    serde_json::from_str(state).ok()
}

/// Arguments should be a string that contains JSON; some servers send the object itself, whose
/// text is used unchanged. Null and an absent value are the empty text.
pub(super) fn arguments(raw: Option<&RawValue>) -> String {
    let raw = raw.map_or("", RawValue::get);
    match serde_json::from_str::<Option<String>>(raw) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => raw.to_owned(),
    }
}

/// A number of tokens. A malformed count must not lose a reply.
pub(super) fn tokens(usage: Option<&Value>, pointer: &str) -> u64 {
    usage.and_then(|usage| usage.pointer(pointer)?.as_u64()).unwrap_or(0)
}

/// What a server reports in a member `error`: a text, or an object with a message.
pub(super) fn reported(error: &Value) -> String {
    let found = [error.as_str(), error["message"].as_str(), error["code"].as_str()];
    let found = found.into_iter().flatten().find(|text| !text.is_empty());
    found.map_or_else(|| error.to_string(), str::to_owned)
}
