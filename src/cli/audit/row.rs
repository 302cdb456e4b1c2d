//! An entry as columns.

use crate::types::clock::Wall;
use crate::types::text;
use serde_json::{Map, Value};

/// The fields of an entry that people read first, as columns.
pub(super) fn row(fields: &Map<String, Value>) -> Vec<String> {
    let word = |name: &str| text::visible_line(fields.get(name).and_then(Value::as_str).unwrap_or_default());
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let policies = fields.get("policies").and_then(Value::as_array).into_iter().flatten();
    let policies: Vec<&str> = policies.filter_map(Value::as_str).collect();
    let outcome = [word("decision"), word("status"), policies.join(",")];
    let outcome: Vec<String> = outcome.into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        number("seq").unwrap_or_default().to_string(),
        number("wall_us").map(|us| Wall(us).rfc3339()).unwrap_or_default(),
        word("kind"),
        word("principal"),
        word("tool"),
        outcome.join(" "),
    ]
}
