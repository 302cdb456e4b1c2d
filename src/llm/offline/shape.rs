//! Parts that answers are made of: words, numbers, sizes and lists from results.

use crate::types::{limits, text};
use serde_json::Value;

/// Items of a list that an answer shows.
pub(super) const ITEMS_SHOWN_MAX: usize = 5;

/// Untrusted text on one line, printable and bounded.
pub(super) fn shown(from: &str) -> String {
    let head = text::prefix(from, limits::REASON_BYTES_MAX);
    let mark = if head.len() < from.len() { "…" } else { "" };
    format!("{}{mark}", text::visible_line(head))
}

pub(super) fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64()
}

pub(super) fn word(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(shown)
}

/// A size in the unit that leaves one to four digits: `31 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let (mut rest, mut unit) = (bytes, "bytes");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if rest < 10_000 {
            break;
        }
        (rest, unit) = (rest >> 10, larger);
    }
    format!("{rest} {unit}")
}

/// A line for each of the first items of the list `name`.
pub(super) fn items(result: &Value, name: &str, line: impl Fn(&Value) -> Option<String>) -> Option<String> {
    let all = result.get(name)?.as_array()?;
    let lines: Vec<String> = all.iter().take(ITEMS_SHOWN_MAX).filter_map(line).collect();
    let is_cut = all.len() > ITEMS_SHOWN_MAX || result.get("truncated") == Some(&Value::Bool(true));
    let rest = if is_cut { "\n  …" } else { "" };
    Some(lines.iter().map(|line| format!("\n  {line}")).collect::<String>() + rest)
}

/// The texts of the list `name`, separated by commas; `None` without any.
pub(super) fn texts(result: &Value, name: &str) -> Option<String> {
    let all = result.get(name)?.as_array()?.iter().filter_map(Value::as_str).map(shown);
    Some(all.collect::<Vec<_>>().join(", ")).filter(|texts| !texts.is_empty())
}

/// How many files, folders and paths that may be either the tools' user may not read, after a
/// comma; empty without any.
pub(super) fn unreadable(result: &Value) -> String {
    let many = |list: &str| result.get(list)?.get("unreadable")?.as_u64().filter(|many| *many > 0);
    let files = many("files_skipped_by").map(|many| count(many, "file"));
    let folders = many("folders_skipped_by").map(|many| count(many, "folder"));
    let paths = many("skipped_by").map(|many| count(many, "path"));
    let all: Vec<String> = files.into_iter().chain(folders).chain(paths).collect();
    if all.is_empty() { String::new() } else { format!(", {} may not be read", all.join(" and ")) }
}

/// The tool's own output: the member `result` or `output`, parsed as JSON if it is a text that
/// contains JSON; else the whole value.
pub(super) fn unwrapped(told: &Value) -> Value {
    let inner = ["result", "output", "stdout"].into_iter().find_map(|name| told.get(name)).unwrap_or(told);
    let parsed = inner.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.filter(Value::is_object).unwrap_or_else(|| inner.clone())
}

/// A number with its noun: `1 entry`, `2 entries`.
pub(super) fn count(many: u64, one: &str) -> String {
    match (many, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{many} {stem}ies"),
        (_, None) => format!("{many} {one}s"),
    }
}

/// A time to the second.
pub(super) fn time(result: &Value, name: &str) -> Option<String> {
    let whole = word(result, name)?;
    let end = whole.find('.').unwrap_or(whole.len());
    let second = whole.get(..end)?;
    Some(if second.ends_with('Z') { second.to_owned() } else { format!("{second}Z") })
}

/// The parts that there are, separated by semicolons.
pub(super) fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
