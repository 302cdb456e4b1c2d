//! Single values of an approval, for a line or a table.

use crate::types::{limits, text};
use serde_json::Value;

pub(super) fn answered_line(answered: &Value) -> String {
    format!(
        "{} {}; its run {} resumes",
        word(answered, "/id"),
        word(answered, "/state"),
        word(answered, "/run")
    )
}

/// A value on one line, cut to fit a table.
pub(super) fn word(value: &Value, at: &str) -> String {
    text::prefix(&whole(value, at), limits::SHOWN_BYTES_MAX).to_owned()
}

/// A value on one line, complete.
pub(super) fn whole(value: &Value, at: &str) -> String {
    match value.pointer(at) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(words)) => text::visible_line(words),
        Some(other) => text::visible_line(&other.to_string()),
    }
}
