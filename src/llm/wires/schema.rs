//! A tool's JSON Schema (2020-12) as each protocol takes it.
//!
//! A schema may only become wider here: it tells the model what to write. What the model wrote is
//! checked against the manifest's own schema.

use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Unchanged: without the strict mode, the server passes the schema to the model.
pub(super) fn chat_completions(schema: &Value) -> Cow<'_, Value> {
    Cow::Borrowed(schema)
}

/// Unchanged: `strict` is false. The strict mode wants every property to be required, so an
/// optional argument could not be left out.
pub(super) fn responses(schema: &Value) -> Cow<'_, Value> {
    Cow::Borrowed(schema)
}

/// Unchanged: the server takes JSON Schema 2020-12.
pub(super) fn messages(schema: &Value) -> Cow<'_, Value> {
    Cow::Borrowed(schema)
}

/// Unchanged: the server ignores the words that it does not know.
pub(super) fn ollama(schema: &Value) -> Cow<'_, Value> {
    Cow::Borrowed(schema)
}

/// The words of the server's `Schema` that mean the same there. Any other word, such as
/// `additionalProperties`, is refused with status 400.
const GEMINI_KEPT: [&str; 13] = [
    "title",
    "description",
    "required",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "default",
];

/// Only the words that the server knows. `const` becomes an `enum` of one, `oneOf` becomes `anyOf`,
/// a list of types becomes one type that may be null. An `enum` has only texts there: one with
/// other values moves to the description.
pub(super) fn gemini(schema: &Value) -> Cow<'_, Value> {
    Cow::Owned(gemini_schema(schema))
}

fn gemini_schema(schema: &Value) -> Value {
    let Value::Object(words) = schema else { return json!({}) };
    let kept = words.iter().filter(|(word, _)| GEMINI_KEPT.contains(&word.as_str()));
    let mut out: Map<String, Value> = kept.map(|(word, value)| (word.clone(), value.clone())).collect();
    if let Some(kind) = words.get("type") {
        gemini_type(kind, &mut out);
    }
    if let Some(Value::Object(properties)) = words.get("properties") {
        let lowered = properties.iter().map(|(name, schema)| (name.clone(), gemini_schema(schema)));
        out.insert("properties".to_owned(), Value::Object(lowered.collect()));
    }
    if let Some(items) = words.get("items") {
        out.insert("items".to_owned(), gemini_schema(items));
    }
    if let Some(Value::Array(some)) = words.get("anyOf").or(words.get("oneOf")) {
        out.insert("anyOf".to_owned(), some.iter().map(gemini_schema).collect());
    }
    let one = words.get("const").map(|value| vec![value.clone()]);
    if let Some(values) = words.get("enum").and_then(Value::as_array).cloned().or(one) {
        gemini_enum(values, &mut out);
    }
    Value::Object(out)
}

fn gemini_type(kind: &Value, out: &mut Map<String, Value>) {
    let kinds: Vec<&str> = match kind {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    let is_null = |kind: &&&str| **kind == "null";
    if kinds.iter().any(|kind| is_null(&kind)) && kinds.len() > 1 {
        out.insert("nullable".to_owned(), json!(true));
    }
    // A choice of several types has no form there; without a type, any value is accepted.
    if let [only] = kinds.iter().filter(|kind| !is_null(kind)).collect::<Vec<_>>().as_slice() {
        out.insert("type".to_owned(), json!(only));
    }
}

fn gemini_enum(values: Vec<Value>, out: &mut Map<String, Value>) {
    if values.iter().all(Value::is_string) {
        out.insert("type".to_owned(), json!("string"));
        out.insert("enum".to_owned(), Value::Array(values));
        return;
    }
    let listed = Value::Array(values).to_string();
    let described = out.get("description").and_then(Value::as_str);
    let text = described.map_or_else(String::new, |text| format!("{text}; "));
    out.insert("description".to_owned(), json!(format!("{text}one of {listed}")));
}
