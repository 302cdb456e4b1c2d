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

/// A person's or a key's name at `at`. Servers of earlier versions give only the credential.
pub(super) fn who(value: &Value, at: &str) -> String {
    match word(value, &format!("{at}/who")) {
        who if who == "-" => word(value, &format!("{at}/principal")),
        who => who,
    }
}

/// A value on one line, complete.
pub(super) fn whole(value: &Value, at: &str) -> String {
    match value.pointer(at) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(words)) => text::visible_line(words),
        Some(other) => text::visible_line(&other.to_string()),
    }
}
