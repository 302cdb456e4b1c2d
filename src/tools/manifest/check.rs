//! Checks of single members of a manifest.

use super::error::with_lines;
use super::output_schema::{OutputSchema, SchemaWords};
use super::reserved::taken;
use super::words::Element;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The name of the top-level argument that `from` points to, a required string.
pub(super) fn required_string(from: &str, input: &Value) -> Result<String, String> {
    let argument = from.strip_prefix('/').filter(|name| !name.contains(['/', '~']));
    let argument =
        argument.ok_or_else(|| format!("`from = \"{from}\"` does not point to a top-level argument"))?;
    let required = input.pointer("/required").and_then(Value::as_array);
    let required = required.is_some_and(|names| names.iter().any(|name| name == argument));
    let string = input.pointer(&format!("/properties/{argument}/type")).is_some_and(|t| t == "string");
    if required && string {
        Ok(argument.to_owned())
    } else {
        let mend = format!(
            "required = [\"{argument}\"]    # below [input]\n\n[input.properties.{argument}]\ntype = \"string\""
        );
        Err(with_lines(&format!("`from = \"{from}\"` does not point to a required string"), &mend))
    }
}

/// Where a program is looked for if only its name is given, for the error alone.
const PROGRAM_FOLDERS: [&str; 6] =
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"];

/// An absolute path of an existing regular file.
///
/// # Errors
///
/// It is not one; if only a name is given, the error says where that program is.
pub fn program_path(path: &str) -> Result<PathBuf, String> {
    let given = PathBuf::from(path);
    if !given.is_absolute() {
        let is_name = !path.is_empty() && !path.contains('/');
        let mut found = PROGRAM_FOLDERS.iter().map(|folder| format!("{folder}/{path}"));
        let found = is_name.then(|| found.find(|path| Path::new(path).is_file())).flatten();
        let mend = found.map_or_else(String::new, |found| format!(": did you mean `{found}`?"));
        return Err(format!("`{path}` is not an absolute path{mend}"));
    }
    let there = std::fs::metadata(&given).map_err(|e| format!("program `{path}`: {e}"))?;
    if !there.is_file() {
        return Err(format!("program `{path}` is not a regular file"));
    }
    Ok(given)
}

pub(super) fn elements(words: &[String]) -> Result<Vec<Element>, String> {
    words.iter().map(|word| element(word)).collect()
}

fn element(word: &str) -> Result<Element, String> {
    if let Some((option, name)) = setting(word) {
        return Ok(Element::Setting(option.to_owned(), name.to_owned()));
    }
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match inner {
        Some(name) if !name.contains(['{', '}']) => Ok(Element::Argument(name.to_owned())),
        None if !word.contains(['{', '}']) => Ok(Element::Literal(word.to_owned())),
        _ => Err(format!("the placeholder in `{word}` must fill the whole element")),
    }
}

/// The parts of `--name={argument}`.
fn setting(word: &str) -> Option<(&str, &str)> {
    let (option, rest) = word.split_once("={")?;
    let name = rest.strip_suffix('}')?;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let long = option.strip_prefix("--").filter(|long| !long.is_empty() && long.bytes().all(is_word));
    (long.is_some() && !name.contains(['{', '}'])).then_some((option, name))
}

/// A reason for each element that is filled with an argument which `input` does not declare.
pub(super) fn undeclared(elements: &[Element], input: &Value) -> Vec<String> {
    let reason = |element: &Element| {
        let (Element::Argument(name) | Element::Setting(_, name)) = element else { return None };
        let kind = input.pointer(&format!("/properties/{name}/type")).and_then(Value::as_str);
        let is_declared = matches!(kind, Some("string" | "integer"));
        (!is_declared).then(|| format!("`{{{name}}}` is not a declared string or integer argument"))
    };
    elements.iter().filter_map(reason).collect()
}

pub(super) fn check_name(name: &str) -> Result<(), String> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
    let rest = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !first || !rest || name.len() > 64 {
        return Err(format!("`{name}` does not match `[a-z][a-z0-9_]*`, at most 64 bytes"));
    }
    match taken(name) {
        None => Ok(()),
        Some(what) => Err(format!("`{name}` is the name of {what} in policies: choose another name")),
    }
}

/// Every fault of the schema's top level.
pub(super) fn check_input(input: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if input.pointer("/type").is_none_or(|t| t != "object") {
        faults.push(with_lines("`type` is not \"object\": write below `[input]`", "type = \"object\""));
    }
    if input.pointer("/additionalProperties").is_none_or(|open| open != false) {
        faults.push(with_lines(
            "`additionalProperties = false` is missing, and an open object is refused: write below `[input]`",
            "additionalProperties = false",
        ));
    }
    faults
}

/// The schema of results. A tool that claims that they do not taint the session needs one:
/// otherwise whoever chooses a word in its output could speak to the model.
pub(super) fn output_schema(
    schema: Option<&Value>,
    is_untrusted: bool,
    is_structured: bool,
) -> Result<Option<OutputSchema>, (&'static str, String)> {
    match schema {
        None if is_untrusted => Ok(None),
        _ if !is_structured => Err((
            if is_untrusted { "[output_schema]" } else { "untrusted_output" },
            "only a result that is a JSON object can be trusted: write `output = \"json\"` and \
             `[output_schema]`, or `untrusted_output = true` without it"
                .to_owned(),
        )),
        None => Err((
            "untrusted_output",
            "`untrusted_output = false` needs `[output_schema]`, in which no string is free text: \
             write one, or `untrusted_output = true`"
                .to_owned(),
        )),
        Some(schema) => {
            let words = if is_untrusted { SchemaWords::Open } else { SchemaWords::Closed };
            OutputSchema::read(schema, words).map(Some).map_err(|reason| ("[output_schema]", reason))
        }
    }
}
