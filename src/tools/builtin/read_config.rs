//! The values of a configuration file.
//!
//! Values whose names look like a secret's are left out. That is a courtesy and not a wall: a tool
//! that reads the file as text shows them.

use super::answer::{Answer, FRAME_BYTES, NOT_FOUND, json_len, stamped};
use super::secret_names::{LEFT_OUT, is_private_key, is_secret_name, without_credentials};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, pread};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

/// Size of a file that is read, in bytes.
const FILE_BYTES_MAX: usize = 512 << 10;
/// Depth of tables and lists.
const DEPTH_MAX: usize = 32;

/// Reads `file`, which is open for reading; `path` is its name.
///
/// The answer holds `format`, `values` and `left_out`, how many values were left out. If the values
/// do not fit `output_bytes_max`, it holds the names of the outer ones in `names`, and `truncated`
/// is set: the argument `key` selects one.
pub fn read_config(
    file: BorrowedFd<'_>,
    path: &str,
    arguments: &Value,
    output_bytes_max: usize,
    host: &str,
) -> Answer {
    let word = |name: &str| arguments.get(name).and_then(Value::as_str);
    let format = word("format").or_else(|| format_of(path)).ok_or_else(|| without_format(path))?;
    let text = read(file, path)?;
    let mut values = match format {
        "toml" => toml_values(&text),
        "json" => serde_json::from_str(&text).map_err(|e| place(e.line())),
        _ => ini(&text),
    }
    .map_err(|line| format!("`{path}` is not {}: {line}", format.to_uppercase()))?;
    let mut left_out = 0;
    clean(&mut values, "", 0, &mut left_out);
    if let Some(key) = word("key") {
        values = select(&values, key).cloned().ok_or_else(|| format!("`{path}` has no `{key}`"))?;
    }
    let room = output_bytes_max.saturating_sub(FRAME_BYTES + json_len(path));
    let mut answer = json!({ "path": path, "format": format, "left_out": left_out, "truncated": false });
    if let Some(members) = answer.as_object_mut() {
        if values.to_string().len() <= room {
            members.insert("values".to_owned(), values);
        } else {
            members.insert("names".to_owned(), json!(names(&values, room)));
            members.insert("truncated".to_owned(), json!(true));
        }
    }
    Ok(stamped(answer, host))
}

/// By the end of the name.
fn format_of(path: &str) -> Option<&'static str> {
    let (_, end) = path.rsplit_once('/')?.1.rsplit_once('.')?;
    match end.to_ascii_lowercase().as_str() {
        "toml" => Some("toml"),
        "json" => Some("json"),
        "ini" | "cfg" | "conf" | "cnf" | "service" | "timer" | "socket" | "desktop" => Some("ini"),
        _ => None,
    }
}

/// Why the format of a file is not known.
fn without_format(path: &str) -> String {
    let end = path.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).unwrap_or_default();
    match end.as_str() {
        "yaml" | "yml" => {
            format!(
                "`{path}` is YAML, which this tool does not read: `read_file` or `search_files` show its text"
            )
        }
        _ => {
            format!(
                "`{path}` does not end in .toml, .json, .ini, .cfg, .conf, .cnf or .service: give `format`"
            )
        }
    }
}

fn read(file: BorrowedFd<'_>, path: &str) -> Result<String, String> {
    let stat = fstat(file).map_err(|_| NOT_FOUND.to_owned())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(format!("`{path}` is not a regular file"));
    }
    let mut bytes = vec![0; FILE_BYTES_MAX + 1];
    let mut filled = 0;
    while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
        match pread(file, free, filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(e) => return Err(format!("`{path}`: {e}")),
        }
    }
    bytes.truncate(filled);
    if filled > FILE_BYTES_MAX {
        return Err(format!("`{path}` is larger than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| format!("`{path}` is not UTF-8"))
}

/// Where a file is not as expected. The line's own words are not repeated: they may be a secret.
fn place(line: usize) -> String {
    format!("line {line} is malformed")
}

fn toml_values(text: &str) -> Result<Value, String> {
    let table = toml::from_str::<toml::Table>(text).map_err(|e| {
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        place(before.matches('\n').count() + 1)
    })?;
    Ok(of_toml(toml::Value::Table(table)))
}

fn of_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => json!(text),
        toml::Value::Integer(number) => json!(number),
        // PAR's JSON has no fractions.
        toml::Value::Float(number) => json!(number.to_string()),
        toml::Value::Boolean(is_so) => json!(is_so),
        toml::Value::Datetime(time) => json!(time.to_string()),
        toml::Value::Array(items) => items.into_iter().map(of_toml).collect(),
        toml::Value::Table(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, of_toml(value))).collect())
        }
    }
}

/// Sections with `name = value`, as systemd and many others have them. A name that occurs again
/// makes a list.
fn ini(text: &str) -> Result<Value, String> {
    let (mut plain, mut sections) = (Map::new(), BTreeMap::<String, Map<String, Value>>::new());
    let mut section = String::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            name.strip_suffix(']').ok_or_else(|| place(at + 1))?.trim().clone_into(&mut section);
            continue;
        }
        let (name, value) = match line.split_once(['=', ':']) {
            Some((name, value)) => (name.trim(), typed(value.trim())),
            // A name alone, as in `skip-networking`.
            None if line.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) => {
                (line, json!(true))
            }
            None => return Err(place(at + 1)),
        };
        let members =
            if section.is_empty() { &mut plain } else { sections.entry(section.clone()).or_default() };
        put(members, name, value);
    }
    // A section takes the place of a plain value of the same name.
    plain.extend(sections.into_iter().map(|(name, members)| (name, Value::Object(members))));
    Ok(Value::Object(plain))
}

fn put(members: &mut Map<String, Value>, name: &str, value: Value) {
    match members.get_mut(name) {
        Some(Value::Array(list)) => list.push(value),
        Some(earlier) => *earlier = json!([earlier.take(), value]),
        None => {
            members.insert(name.to_owned(), value);
        }
    }
}

/// A number, a truth value or a text, without quotes around it.
fn typed(text: &str) -> Value {
    let is_number = text == "0" || !text.trim_start_matches('-').starts_with('0');
    match text.parse::<i64>() {
        Ok(number) if is_number && !text.starts_with('+') => return json!(number),
        _ => {}
    }
    match text {
        "true" => json!(true),
        "false" => json!(false),
        _ => {
            let quoted = |mark| text.strip_prefix(mark)?.strip_suffix(mark);
            json!(quoted('"').or_else(|| quoted('\'')).unwrap_or(text))
        }
    }
}

/// Leaves out what looks like a secret, what is too deep, and fractions.
fn clean(value: &mut Value, name: &str, depth: usize, left_out: &mut u64) {
    let is_secret = is_secret_name(name) && !matches!(value, Value::Object(_) | Value::Bool(_) | Value::Null);
    if is_secret || depth > DEPTH_MAX {
        *left_out += 1;
        *value = json!(LEFT_OUT);
        return;
    }
    match value {
        Value::Object(members) => {
            let mut inside = members.iter_mut();
            inside.by_ref().for_each(|(inner, value)| {
                // A table of secrets, such as `[tokens]`.
                let name = if is_secret_name(name) { name } else { inner };
                clean(value, name, depth + 1, left_out);
            });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, name, depth + 1, left_out)),
        Value::String(text) if is_private_key(text) => {
            *left_out += 1;
            *value = json!(LEFT_OUT);
        }
        Value::String(text) => {
            let shown = without_credentials(text);
            *left_out += u64::from(shown != *text);
            *text = shown;
        }
        Value::Number(number) if !number.is_i64() && !number.is_u64() => *value = json!(number.to_string()),
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// The value at a path of names and positions between dots; a name may contain dots itself.
fn select<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    if let Some(found) = value.get(key) {
        return Some(found);
    }
    if let Some(found) = key.parse::<usize>().ok().and_then(|at| value.get(at)) {
        return Some(found);
    }
    key.match_indices('.').find_map(|(at, _)| {
        let (name, rest) = (key.get(..at)?, key.get(at + 1..)?);
        let inner = value.get(name).or_else(|| value.get(name.parse::<usize>().ok()?))?;
        select(inner, rest)
    })
}

/// The outer names, or the number of entries of a list, as far as they fit.
fn names(values: &Value, mut room: usize) -> Vec<String> {
    let all: Vec<String> = match values {
        Value::Object(members) => members.keys().cloned().collect(),
        Value::Array(items) => (0..items.len()).map(|at| at.to_string()).collect(),
        _ => Vec::new(),
    };
    let fits = |name: &String| {
        room = room.checked_sub(json_len(name) + 1)?;
        Some(name.clone())
    };
    all.iter().map_while(fits).collect()
}

#[cfg(test)]
mod tests;
