//! Checks of single members of a manifest.

use super::output_schema::OutputSchema;
use super::reserved::taken;
use super::words::{Element, Limits, Program};
use serde_json::Value;
use std::path::PathBuf;

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
        Err(format!("`from = \"{from}\"` does not point to a required string"))
    }
}

/// An absolute path of an existing regular file.
pub(super) fn program_path(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        return Err(format!("`{}` is not an absolute path", path.display()));
    }
    let there = std::fs::metadata(&path).map_err(|e| format!("program `{}`: {e}", path.display()))?;
    if !there.is_file() {
        return Err(format!("program `{}` is not a regular file", path.display()));
    }
    Ok(path)
}

pub(super) fn element(word: &str) -> Result<Element, String> {
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match inner {
        Some(name) if !name.contains(['{', '}']) => Ok(Element::Argument(name.to_owned())),
        None if !word.contains(['{', '}']) => Ok(Element::Literal(word.to_owned())),
        _ => Err(format!("the placeholder in `{word}` must fill the whole element")),
    }
}

pub(super) fn check_elements(program: &Program, input: &Value) -> Result<(), String> {
    for element in &program.args {
        let Element::Argument(name) = element else { continue };
        let kind = input.pointer(&format!("/properties/{name}/type")).and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer")) {
            return Err(format!("`{{{name}}}` is not a declared string or integer argument"));
        }
    }
    Ok(())
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

pub(super) fn check_input(input: &Value) -> Result<(), String> {
    if input.pointer("/type").is_none_or(|t| t != "object") {
        return Err("`type` is not \"object\"".to_owned());
    }
    if input.pointer("/additionalProperties").is_none_or(|open| open != false) {
        return Err("`additionalProperties = false` is missing: an open object is refused".to_owned());
    }
    Ok(())
}

/// The schema of results that do not taint the session. A tool that claims such results needs one:
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
        Some(schema) => OutputSchema::read(schema).map(Some).map_err(|reason| ("[output_schema]", reason)),
    }
}

pub(super) fn check_limits(limits: &Limits) -> Result<(), String> {
    let bounds = [
        ("wall_ms_max", limits.wall_ms_max, 3_600_000),
        ("output_bytes_max", limits.output_bytes_max as u64, 1 << 20),
        ("memory_bytes_max", limits.memory_bytes_max, 1 << 40),
        ("processes_max", limits.processes_max, 1 << 16),
        // Absent is 0, which is for tools that write nothing.
        ("file_bytes_max", limits.file_bytes_max.max(1), 1 << 40),
        ("network_bytes_max", limits.network_bytes_max.max(1), 1 << 40),
        ("written_bytes_max", limits.written_bytes_max.max(1), 1 << 50),
        ("written_files_max", limits.written_files_max.max(1), 1 << 40),
    ];
    for (name, value, most) in bounds {
        if value == 0 || value > most {
            return Err(format!("`{name} = {value}` is not between 1 and {most}"));
        }
    }
    Ok(())
}
