//! What a recorded call leaves out below its object, made again from the record.

use crate::gate::ANY_NAME;
use crate::policy::{Bundle, Recorded, Ruling};
use serde_json::{Map, Value};

/// What differs between the `beneath` and `exclusions` of a decision's payload and what the rules say to them.
/// Only a call that may come to run has them.
pub(super) fn difference(
    payload: &Value,
    recorded: &Recorded,
    bundle: &Bundle,
    is_allowed: bool,
) -> Option<String> {
    let list =
        |name: &str| payload.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut exclusions = Vec::new();
    let in_folder = format!("/{ANY_NAME}");
    for one in list("beneath") {
        let word = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = one.pointer("/resource/id").and_then(Value::as_str).unwrap_or_default();
        let entities = one.get("entities").unwrap_or(&Value::Null);
        let about = recorded.about(one.get("resource").unwrap_or(&Value::Null), entities);
        let answer = match about {
            Ok(about) => bundle.decide_again(&about).answer,
            Err(e) => {
                return Some(format!("what is recorded of `{id}` below the object cannot be read: {e}"));
            }
        };
        let listed = one.get("policies").and_then(Value::as_array).into_iter().flatten();
        let policies: Vec<&str> = listed.filter_map(Value::as_str).collect();
        if word("decision") != answer.word() || policies != answer.policies() {
            let (then, now) = (word("decision"), answer.word());
            return Some(format!("recorded `{then}` of `{id}` below the object; the rules say `{now}`"));
        }
        if !matches!(answer, Ruling::Allow { .. }) {
            exclusions.push(exclusion(id.trim_end_matches(&in_folder), one));
        }
    }
    let is_object = |one: &Value| one.get("canonical").is_some_and(|path| path == recorded.resource().1);
    if is_allowed && exclusions.iter().any(is_object) {
        return Some("recorded `allow` of a search that may read nothing below its object".to_owned());
    }
    let is_recorded = list("exclusions") == exclusions.as_slice();
    (!is_recorded)
        .then(|| "what is recorded as left out below the object is not what the rules leave out".to_owned())
}

fn exclusion(id: &str, one: &Value) -> Value {
    let number = |name: &str| Some((name.to_owned(), one.get(name)?.clone()));
    let numbers = ["dev", "ino"].into_iter().filter_map(number);
    Value::Object(
        Map::from_iter([("canonical".to_owned(), Value::from(id))]).into_iter().chain(numbers).collect(),
    )
}
