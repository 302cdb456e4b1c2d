//! An accepted schema, and the check of an answer.

use super::bounds::{self, SchemaFault, below};
use crate::ledger::payload::UnfitAnswer;
use crate::secrets::{Clean, Secrets};
use crate::types::json::{INTEGER_MAX, canonical, parse_strict};
use crate::types::{limits, text};
use jsonschema::PatternOptions;
use serde_json::Value;
use std::collections::BTreeSet;

/// PAR's words between the message and the schema.
pub(in crate::agent) const FORM_WORDS: &str = "Your final answer must be one JSON value that matches the \
following JSON Schema, without any other text. Calls of tools before it are as always.";

/// How a request for the answer again ends.
const AGAIN: &str =
    "Send the whole answer again, as one JSON value that matches the JSON Schema, without any other text.";

/// A schema that answers are held to. Secrets in it were replaced, as they are in answers.
#[derive(Debug)]
pub(in crate::agent) struct AnswerSchema {
    text: Clean<String>,
    value: Value,
    /// Every name of a member in it.
    names: BTreeSet<String>,
    validator: jsonschema::Validator,
}

impl AnswerSchema {
    /// Reads the schema of a request.
    pub(in crate::agent) fn read(schema: &Value, secrets: &Secrets) -> Result<Self, SchemaFault> {
        let whole = |what: String| SchemaFault { at: String::new(), what };
        let text = canonical(schema).map_err(|e| whole(e.to_string()))?;
        Self::recorded(text, secrets)
    }

    /// Reads a schema from its canonical text, as the ledger has it.
    pub(in crate::agent) fn recorded(text: String, secrets: &Secrets) -> Result<Self, SchemaFault> {
        let whole = |what: String| SchemaFault { at: String::new(), what };
        let max = limits::RESPONSE_SCHEMA_BYTES_MAX;
        if text.len() > max {
            return Err(whole(format!("it is longer than {max} bytes")));
        }
        let text = secrets.clean(text);
        let value = parse_strict(text.as_bytes(), limits::JSON_DEPTH_MAX)
            .map_err(|_| whole("it is no JSON once secrets in it are replaced".to_owned()))?;
        bounds::check(&value)?;
        // The engine that takes a time linear in the length of the text.
        let patterns = PatternOptions::regex()
            .size_limit(limits::RESPONSE_PATTERN_SIZE_MAX)
            .dfa_size_limit(limits::RESPONSE_PATTERN_SIZE_MAX);
        let options = jsonschema::draft202012::options().with_pattern_options(patterns);
        let validator = options.should_validate_formats(true).build(&value).map_err(|error| {
            let at = error.instance_path().to_string();
            SchemaFault { at, what: text::visible_line(text::prefix(&error.to_string(), 200)) }
        })?;
        let mut names = BTreeSet::new();
        add_names(&value, &mut names);
        Ok(Self { text, value, names, validator })
    }

    /// The schema as canonical JSON.
    pub(in crate::agent) fn text(&self) -> &Clean<String> {
        &self.text
    }

    /// The schema.
    pub(in crate::agent) fn value(&self) -> &Value {
        &self.value
    }

    /// Holds an answer to the schema. Returns it as JSON.
    pub(in crate::agent) fn hold(&self, answer: &str, secrets: &Secrets) -> Result<Value, UnfitAnswer> {
        let unfit = |at: String, keyword: &str| UnfitAnswer {
            at: text::prefix(&at, limits::RESPONSE_POINTER_BYTES_MAX).to_owned(),
            keyword: keyword.to_owned(),
            schema_at: None,
            repair: None,
        };
        if answer.len() > limits::RESPONSE_BYTES_MAX {
            return Err(unfit(String::new(), "bytes"));
        }
        let value = parse_strict(bare(answer).as_bytes(), limits::JSON_DEPTH_MAX)
            .map_err(|_| unfit(String::new(), "json"))?;
        // An escape in JSON can hide a secret from a search of the text.
        let value = secrets.clean(value).into_inner();
        if let Some(at) = inexact(&value) {
            return Err(unfit(self.told(&at), "number"));
        }
        let Err(error) = self.validator.validate(&value) else { return Ok(value) };
        let (at, schema_at) = (error.instance_path().as_str(), error.schema_path().as_str());
        let schema_at = text::prefix(schema_at, limits::RESPONSE_POINTER_BYTES_MAX).to_owned();
        let keyword = error.kind().keyword();
        Err(UnfitAnswer { schema_at: Some(schema_at), ..unfit(self.told(at), keyword) })
    }

    /// A place in an answer without names that the answer has chosen.
    fn told(&self, at: &str) -> String {
        let name = |part: &str| {
            let name = part.replace("~1", "/").replace("~0", "~");
            let is_index = name.len() <= 6 && name.bytes().all(|b| b.is_ascii_digit());
            let is_known = self.names.contains(&name) || is_index;
            if is_known { below("", &name) } else { "/*".to_owned() }
        };
        at.split('/').skip(1).map(name).collect()
    }
}

/// What PAR writes to the model about its answer.
pub(in crate::agent) fn repair(unfit: &UnfitAnswer) -> String {
    format!("Your answer {}. {AGAIN}", unfit.words())
}

/// The text inside, if the whole answer is one fenced block of Markdown, as many models write.
fn bare(answer: &str) -> &str {
    let answer = answer.trim();
    let inside = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some((info, inside)) = inside.and_then(|inside| inside.split_once('\n')) else { return answer };
    let is_json = info.trim().is_empty() || info.trim().eq_ignore_ascii_case("json");
    if is_json { inside } else { answer }
}

/// The place of a number that not every reader keeps as it is written.
fn inexact(value: &Value) -> Option<String> {
    let each = |name: &str, value: &Value| inexact(value).map(|at| format!("{}{at}", below("", name)));
    match value {
        Value::Number(number) => {
            let is_exact = match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => integer.unsigned_abs() <= INTEGER_MAX.unsigned_abs(),
                (None, Some(float)) => number.is_f64() && float.abs() < 9e15,
                (None, None) => false,
            };
            (!is_exact).then(String::new)
        }
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| each(&index.to_string(), item))
        }
        Value::Object(members) => members.iter().find_map(|(name, member)| each(name, member)),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

fn add_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| add_names(item, names)),
        Value::Object(members) => {
            for (name, member) in members {
                names.insert(name.clone());
                add_names(member, names);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
