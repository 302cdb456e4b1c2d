//! JSON Schema to Cedar: the type of a tool's `context.input`, and the value of one call's
//! arguments.
//!
//! A schema is lowered completely or refused at load: a schema keyword that is missing from this
//! table is an error, so that no argument reaches a tool without being visible to policies.
//!
//! | JSON Schema | Cedar |
//! |---|---|
//! | `string` with `enum`, or with `maxLength` up to [`limits::TEXT_CHARS_MAX`] | `String` |
//! | `integer` | `Long` |
//! | `number` | `decimal` |
//! | `boolean` | `Bool` |
//! | array of one of these | `Set`, and `<name>__len: Long` |
//! | other `string`, array of such, any `opaque = true` | `{ length: Long, sha256: String }` |
//! | `[T, "null"]` | optional attribute of `T`; null is absent |
//! | not in `required` | optional attribute |

use super::cedar::Value as Cedar;
use super::error::{InputSchemaError, LowerError};
use crate::types::json::{canonical, decimal};
use crate::types::{Digest, limits};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Why a schema is refused; the reason names the argument, if it is about one.
#[derive(Debug)]
pub(in crate::policy) struct Unlowerable {
    pub(in crate::policy) argument: Option<String>,
    pub(in crate::policy) reason: InputSchemaError,
}

/// A flat type that both sides have.
#[derive(Clone, Copy)]
enum Flat {
    Text,
    Integer,
    Number,
    Truth,
}

/// What policies see of an argument.
enum Visible {
    One(Flat),
    Many(Flat),
    /// Its length and digest.
    Opaque,
}

struct Lowered {
    seen: Visible,
    may_be_null: bool,
}

/// The Cedar record type of `input`, a checked object schema.
pub(in crate::policy) fn record_type(input: &Value) -> Result<Value, Unlowerable> {
    check_words("", input, &["type", "properties", "required", "additionalProperties", "description"])
        .map_err(|reason| Unlowerable { argument: None, reason })?;
    let required = required(input);
    let mut attributes = Map::new();
    for (name, property) in properties(input) {
        let unfit = |reason| Unlowerable { argument: Some(name.clone()), reason };
        check_name(input, name).map_err(unfit)?;
        let lowered = lowered(name, property).map_err(unfit)?;
        let needed = required.contains(&name.as_str()) && !lowered.may_be_null;
        let mut own = match lowered.seen {
            Visible::One(flat) => flat.cedar(),
            Visible::Many(flat) => {
                attributes.insert(length_of(name), json!({ "type": "Long", "required": needed }));
                json!({ "type": "Set", "element": flat.cedar() })
            }
            Visible::Opaque => json!({ "type": "Record", "attributes": {
                "length": { "type": "Long" }, "sha256": { "type": "String" } } }),
        };
        if let Some(own) = own.as_object_mut() {
            own.insert("required".to_owned(), json!(needed));
        }
        attributes.insert(name.clone(), own);
    }
    Ok(json!({ "type": "Record", "attributes": attributes }))
}

/// The Cedar record of `arguments`, which match `input`. An argument that cannot be lowered is an
/// error, and so a deny.
pub(in crate::policy) fn record(
    input: &Value,
    arguments: &Value,
) -> Result<BTreeMap<String, Cedar>, LowerError> {
    let members = arguments.as_object().ok_or(LowerError::NoObject)?;
    let mut out = BTreeMap::new();
    for (name, value) in members {
        let property = properties(input).find(|(known, _)| *known == name).map(|(_, property)| property);
        let property = property.ok_or_else(|| LowerError::Undeclared(name.clone()))?;
        let lowered = lowered(name, property)?;
        if value.is_null() && lowered.may_be_null {
            continue;
        }
        let own = match lowered.seen {
            Visible::One(flat) => flat.lower(name, value)?,
            Visible::Many(flat) => {
                let items = value.as_array().ok_or_else(|| LowerError::NoArray(name.clone()))?;
                out.insert(length_of(name), Cedar::Long(length(name, items.len())?));
                Cedar::Set(items.iter().map(|item| flat.lower(name, item)).collect::<Result<_, _>>()?)
            }
            Visible::Opaque => opaque(name, value)?,
        };
        out.insert(name.clone(), own);
    }
    Ok(out)
}

/// The smallest record that matches the type of `input`: only required members, all empty.
pub(in crate::policy) fn least(input: &Value) -> Result<BTreeMap<String, Cedar>, LowerError> {
    let required = required(input);
    let mut out = BTreeMap::new();
    for (name, property) in properties(input).filter(|(name, _)| required.contains(&name.as_str())) {
        let lowered = lowered(name, property)?;
        if lowered.may_be_null {
            continue;
        }
        let own = match lowered.seen {
            Visible::One(Flat::Text) => Cedar::String(String::new()),
            Visible::One(Flat::Integer) => Cedar::Long(0),
            Visible::One(Flat::Number) => Cedar::Decimal("0.0".to_owned()),
            Visible::One(Flat::Truth) => Cedar::Bool(false),
            Visible::Many(_) => {
                out.insert(length_of(name), Cedar::Long(0));
                Cedar::Set(Vec::new())
            }
            Visible::Opaque => opaque(name, &json!(""))?,
        };
        out.insert(name.clone(), own);
    }
    Ok(out)
}

/// Length in bytes and SHA-256, of a string's UTF-8 or of any other value's canonical JSON.
fn opaque(name: &str, value: &Value) -> Result<Cedar, LowerError> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => canonical(other)
            .map_err(|source| LowerError::NotCanonical { argument: name.to_owned(), source })?,
    };
    Ok(Cedar::Record(BTreeMap::from([
        ("length".to_owned(), Cedar::Long(length(name, text.len())?)),
        ("sha256".to_owned(), Cedar::String(Digest::sha256(text.as_bytes()).hex())),
    ])))
}

fn length_of(name: &str) -> String {
    format!("{name}__len")
}

fn length(name: &str, length: usize) -> Result<i64, LowerError> {
    i64::try_from(length).map_err(|_| LowerError::TooLong(name.to_owned()))
}

impl Flat {
    fn cedar(self) -> Value {
        match self {
            Self::Text => json!({ "type": "String" }),
            Self::Integer => json!({ "type": "Long" }),
            Self::Number => json!({ "type": "Extension", "name": "decimal" }),
            Self::Truth => json!({ "type": "Boolean" }),
        }
    }

    fn lower(self, name: &str, value: &Value) -> Result<Cedar, LowerError> {
        match self {
            Self::Text => value.as_str().map(|text| Cedar::String(text.to_owned())),
            Self::Integer => value.as_i64().map(Cedar::Long),
            Self::Number => value.as_number().and_then(decimal).map(|text| {
                // Cedar requires a decimal point.
                Cedar::Decimal(if text.contains('.') { text } else { text + ".0" })
            }),
            Self::Truth => value.as_bool().map(Cedar::Bool),
        }
        .ok_or_else(|| LowerError::OtherType(name.to_owned()))
    }
}

/// Refuses a reserved name. A model that fills an argument with such a name would choose the length
/// that policies see, or the type of a recorded value.
fn check_name(input: &Value, name: &str) -> Result<(), InputSchemaError> {
    if name.starts_with("__") {
        return Err(InputSchemaError::Reserved(name.to_owned()));
    }
    let is_length =
        |(other, property): (&String, &Value)| length_of(other) == name && is_set(other, property);
    if properties(input).any(is_length) {
        return Err(InputSchemaError::LengthName(name.to_owned()));
    }
    Ok(())
}

fn is_set(name: &str, property: &Value) -> bool {
    lowered(name, property).is_ok_and(|lowered| matches!(lowered.seen, Visible::Many(_)))
}

fn lowered(name: &str, property: &Value) -> Result<Lowered, InputSchemaError> {
    let may_be_null = match property.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.contains(&json!("null")),
        Some(kind) => kind == "null",
    };
    match property.get("opaque") {
        None => {}
        Some(Value::Bool(true)) => {
            check_nested(name, property, true)?;
            return Ok(Lowered { seen: Visible::Opaque, may_be_null });
        }
        Some(_) => return Err(InputSchemaError::OpaqueWord(name.to_owned())),
    }
    if kind(name, property)? != "array" {
        let flat = flat(name, property)?;
        let seen = if is_free(property) { Visible::Opaque } else { Visible::One(flat) };
        return Ok(Lowered { seen, may_be_null });
    }
    check_words(name, property, &["type", "items", "minItems", "maxItems", "uniqueItems", "description"])?;
    let items = property.get("items").ok_or_else(|| InputSchemaError::NoItems(name.to_owned()))?;
    if items.get("type").is_some_and(Value::is_array) {
        return Err(only_opaque(name, "an array whose items are of more than one type"));
    }
    let flat = flat(name, items)?;
    let seen = if is_free(items) { Visible::Opaque } else { Visible::Many(flat) };
    Ok(Lowered { seen, may_be_null })
}

/// Whether this is a string without a short bound.
fn is_free(property: &Value) -> bool {
    let is_short = |max: &Value| max.as_u64().is_some_and(|max| max <= limits::TEXT_CHARS_MAX);
    property.get("type").is_some_and(|kind| *kind == "string" || kind.is_array())
        && kind("", property) == Ok("string")
        && property.get("enum").is_none()
        && !property.get("maxLength").is_some_and(is_short)
}

/// The one type, apart from `null`.
fn kind<'a>(name: &str, property: &'a Value) -> Result<&'a str, InputSchemaError> {
    match property.get("type") {
        Some(Value::String(kind)) => Ok(kind),
        Some(Value::Array(kinds)) => {
            let mut others = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            match (others.next(), others.next()) {
                (Some(kind), None) => Ok(kind),
                _ => Err(only_opaque(name, "an argument of more than one type")),
            }
        }
        _ => Err(only_opaque(name, "a schema without `type`")),
    }
}

fn flat(name: &str, property: &Value) -> Result<Flat, InputSchemaError> {
    let (flat, words): (_, &[&str]) = match kind(name, property)? {
        "string" => (Flat::Text, &["type", "enum", "minLength", "maxLength", "pattern", "description"]),
        "integer" => (Flat::Integer, &["type", "minimum", "maximum", "description"]),
        "number" => (Flat::Number, &["type", "minimum", "maximum", "description"]),
        "boolean" => (Flat::Truth, &["type", "description"]),
        other => return Err(only_opaque(name, other)),
    };
    check_words(name, property, words).map(|()| flat)
}

fn only_opaque(name: &str, what: &str) -> InputSchemaError {
    InputSchemaError::OnlyOpaque { argument: name.to_owned(), what: what.to_owned() }
}

/// Refuses a schema keyword in an opaque argument unless JSON Schema asserts it. An unknown keyword
/// asserts nothing, and a reader would not notice.
fn check_nested(name: &str, schema: &Value, is_top: bool) -> Result<(), InputSchemaError> {
    let Value::Object(words) = schema else {
        let is_schema = schema.is_boolean() && !is_top;
        return if is_schema { Ok(()) } else { Err(InputSchemaError::NoSchema(name.to_owned())) };
    };
    for (word, value) in words {
        let no = || Err(InputSchemaError::unknown(name, word));
        let below: Vec<&Value> = match word.as_str() {
            "opaque" if is_top => Vec::new(),
            "type" | "enum" | "const" | "description" | "title" | "minLength" | "maxLength" | "pattern"
            | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems"
            | "maxItems" | "uniqueItems" | "minContains" | "maxContains" | "minProperties"
            | "maxProperties" | "required" | "dependentRequired" => Vec::new(),
            "items"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else" => {
                vec![value]
            }
            "properties" | "patternProperties" => match value {
                Value::Object(schemas) => schemas.values().collect(),
                _ => return no(),
            },
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => match value {
                Value::Array(schemas) => schemas.iter().collect(),
                _ => return no(),
            },
            _ => return no(),
        };
        below.into_iter().try_for_each(|schema| check_nested(name, schema, false))?;
    }
    Ok(())
}

fn check_words(name: &str, schema: &Value, known: &[&str]) -> Result<(), InputSchemaError> {
    let words = schema.as_object().ok_or_else(|| InputSchemaError::NoSchema(name.to_owned()))?;
    match words.keys().find(|word| !known.contains(&word.as_str())) {
        Some(word) => Err(InputSchemaError::unknown(name, word)),
        None => Ok(()),
    }
}

fn properties(input: &Value) -> impl Iterator<Item = (&String, &Value)> {
    input.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required(input: &Value) -> Vec<&str> {
    input.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
