//! Which schemas are accepted: a bounded part of JSON Schema 2020-12.
//!
//! A `$ref` leads to a place in the same schema and never back to itself. With every `$ref`
//! replaced by what it leads to, the schema has at most [`limits::RESPONSE_SCHEMA_NODES_MAX`]
//! subschemas, so each value in an answer is held to at most as many. A keyword that is not known
//! here is refused: a mistyped one would hold nothing.

use crate::types::{limits, text};
use serde_json::{Map, Value};

/// The dialect, as `$schema` may name it.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The formats that are checked.
const FORMATS: [&str; 9] = ["date", "date-time", "time", "duration", "email", "ipv4", "ipv6", "uri", "uuid"];

/// Why a schema is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", self.place())]
pub struct SchemaFault {
    /// The place in the schema, as a JSON pointer (RFC 6901).
    pub at: String,
    /// What is wrong there.
    pub what: String,
}

impl SchemaFault {
    fn place(&self) -> String {
        let at = text::visible_line(text::prefix(&self.at, limits::SHOWN_BYTES_MAX));
        if at.is_empty() { String::new() } else { format!("at `{at}`: ") }
    }
}

/// What the value of a keyword is.
#[derive(Clone, Copy)]
enum Keyword {
    /// A schema.
    One,
    /// An array of schemas.
    Many,
    /// An object whose members are schemas.
    Named,
    /// The same, and the names are patterns.
    Patterns,
    Pattern,
    Ref,
    Format,
    /// An array of values, each of which is compared.
    Values,
    Dialect,
    /// A value that the compiler checks.
    Plain,
}

fn keyword(name: &str) -> Option<Keyword> {
    Some(match name {
        "additionalProperties" | "propertyNames" | "items" | "contains" | "not" | "if" | "then" | "else" => {
            Keyword::One
        }
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Keyword::Many,
        "properties" | "$defs" | "dependentSchemas" => Keyword::Named,
        "patternProperties" => Keyword::Patterns,
        "pattern" => Keyword::Pattern,
        "$ref" => Keyword::Ref,
        "format" => Keyword::Format,
        "enum" => Keyword::Values,
        "$schema" => Keyword::Dialect,
        "type" | "const" | "required" | "dependentRequired" | "minProperties" | "maxProperties"
        | "minItems" | "maxItems" | "uniqueItems" | "minContains" | "maxContains" | "minLength"
        | "maxLength" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
        | "title" | "description" | "default" | "examples" | "$comment" => Keyword::Plain,
        _ => return None,
    })
}

/// Checks that `schema` is within the bounds, before it is compiled.
pub(super) fn check(schema: &Value) -> Result<(), SchemaFault> {
    let mut walk = BoundsWalk { root: schema, nodes: 0, patterns: 0, active: vec![String::new()] };
    if !schema.is_object() {
        return fault("", "a schema is an object");
    }
    walk.schema(schema, "", 0)
}

fn fault(at: &str, what: impl Into<String>) -> Result<(), SchemaFault> {
    Err(SchemaFault { at: at.to_owned(), what: what.into() })
}

/// The place below `at`.
pub(super) fn below(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

struct BoundsWalk<'a> {
    root: &'a Value,
    /// Subschemas and listed values so far.
    nodes: usize,
    patterns: usize,
    /// The places that the `$ref`s on the way here led to.
    active: Vec<String>,
}

impl BoundsWalk<'_> {
    fn count(&mut self, nodes: usize, at: &str) -> Result<(), SchemaFault> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= limits::RESPONSE_SCHEMA_NODES_MAX {
            return Ok(());
        }
        let max = limits::RESPONSE_SCHEMA_NODES_MAX;
        fault(at, format!("with each `$ref` replaced by its schema, there are more than {max} subschemas"))
    }

    fn schema(&mut self, schema: &Value, at: &str, depth: usize) -> Result<(), SchemaFault> {
        if depth > limits::RESPONSE_SCHEMA_DEPTH_MAX {
            let max = limits::RESPONSE_SCHEMA_DEPTH_MAX;
            return fault(at, format!("subschemas are nested more than {max} deep"));
        }
        self.count(1, at)?;
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(members) => {
                members.iter().try_for_each(|(name, value)| self.member(name, value, at, depth))
            }
            _ => fault(at, "a schema is an object, true or false"),
        }
    }

    fn member(&mut self, name: &str, value: &Value, at: &str, depth: usize) -> Result<(), SchemaFault> {
        let at = below(at, name);
        let Some(keyword) = keyword(name) else {
            return fault(&at, "this keyword is not supported");
        };
        match (keyword, value) {
            (Keyword::One, schema) => self.schema(schema, &at, depth + 1),
            (Keyword::Many, Value::Array(schemas)) => {
                let mut each = schemas.iter().enumerate();
                each.try_for_each(|(index, one)| self.schema(one, &format!("{at}/{index}"), depth + 1))
            }
            (Keyword::Named, Value::Object(schemas)) => self.named(schemas, &at, depth),
            (Keyword::Patterns, Value::Object(schemas)) => {
                schemas.keys().try_for_each(|pattern| self.pattern(pattern, &below(&at, pattern)))?;
                self.named(schemas, &at, depth)
            }
            (Keyword::Pattern, Value::String(pattern)) => self.pattern(pattern, &at),
            (Keyword::Ref, Value::String(target)) => self.follow(target, &at, depth),
            (Keyword::Format, Value::String(format)) if FORMATS.contains(&format.as_str()) => Ok(()),
            (Keyword::Format, _) => fault(&at, format!("not one of the formats {}", FORMATS.join(", "))),
            (Keyword::Values, Value::Array(values)) => self.count(values.len(), &at),
            (Keyword::Dialect, Value::String(dialect)) if dialect.trim_end_matches('#') == DIALECT => Ok(()),
            (Keyword::Dialect, _) => fault(&at, format!("not `{DIALECT}`")),
            (Keyword::Plain, _) => Ok(()),
            (Keyword::Pattern | Keyword::Ref, _) => fault(&at, "not a string"),
            (Keyword::Many | Keyword::Values, _) => fault(&at, "not an array"),
            (Keyword::Named | Keyword::Patterns, _) => fault(&at, "not an object"),
        }
    }

    fn named(&mut self, schemas: &Map<String, Value>, at: &str, depth: usize) -> Result<(), SchemaFault> {
        schemas.iter().try_for_each(|(name, one)| self.schema(one, &below(at, name), depth + 1))
    }

    fn pattern(&mut self, pattern: &str, at: &str) -> Result<(), SchemaFault> {
        self.patterns += 1;
        let (bytes, count) = (limits::RESPONSE_PATTERN_BYTES_MAX, limits::RESPONSE_PATTERNS_MAX);
        if pattern.len() > bytes {
            return fault(at, format!("a pattern has at most {bytes} bytes"));
        }
        if self.patterns > count {
            return fault(at, format!("there are more than {count} patterns"));
        }
        Ok(())
    }

    fn follow(&mut self, target: &str, at: &str, depth: usize) -> Result<(), SchemaFault> {
        let place = target.strip_prefix('#').filter(|place| place.is_empty() || place.starts_with('/'));
        // A percent sign would write the same place in another way.
        let Some(place) = place.filter(|place| !place.contains('%')) else {
            return fault(at, "a `$ref` leads to a place in this schema, such as `#/$defs/name`");
        };
        let Some(schema) = self.root.pointer(place) else {
            return fault(at, "there is nothing at the place that this `$ref` leads to");
        };
        if self.active.iter().any(|known| known == place) {
            return fault(at, "this `$ref` leads back to a schema that it is in");
        }
        self.active.push(place.to_owned());
        self.schema(schema, place, depth + 1)?;
        self.active.pop();
        Ok(())
    }
}
