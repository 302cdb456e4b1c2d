//! Repeats the exclusions of a recorded call from its record.

use crate::gate::{UNNAMED_CHILD, is_left_out};
use crate::ledger::payload::{CallDecisionPayload, Excluded};
use crate::policy::{Bundle, RecordedRequest, Ruling};
use serde_json::Value;

/// What differs between the `beneath` and `exclusions` of a decision's payload and the answer of
/// the rules. Only a call that may run has them.
pub(super) fn difference(
    payload: &CallDecisionPayload,
    recorded: &RecordedRequest,
    bundle: &Bundle,
    is_allowed: bool,
) -> Option<String> {
    let mut exclusions = Vec::new();
    let in_folder = format!("/{UNNAMED_CHILD}");
    for one in payload.beneath.iter().flatten() {
        let id = one.resource.get("id").and_then(Value::as_str).unwrap_or_default();
        let answer = match recorded.about(&one.resource, &one.entities) {
            Ok(about) => bundle.decide_again(&about).answer,
            Err(e) => {
                return Some(format!("the record for `{id}` below the object cannot be read: {e}"));
            }
        };
        if one.decision != answer.decision() || one.policies != answer.policies() {
            let (then, now) = (one.decision, answer.word());
            return Some(format!("recorded `{then}` for `{id}` below the object; the rules say `{now}`"));
        }
        let is_unit = one.resource.get("type").is_some_and(|kind| kind == "PAR::Service");
        match is_unit {
            true if !is_left_out(&answer) => continue,
            true if id == UNNAMED_CHILD && is_allowed => {
                return Some("recorded `allow` for a call that may read nothing of units".to_owned());
            }
            true if id == UNNAMED_CHILD => continue,
            true | false => {}
        }
        if !matches!(answer, Ruling::Allow { .. }) {
            let canonical = id.trim_end_matches(&in_folder).to_owned();
            exclusions.push(Excluded { canonical, dev: one.dev.clone(), ino: one.ino.clone() });
        }
    }
    let is_object = |one: &Excluded| one.canonical == recorded.resource().1;
    if is_allowed && exclusions.iter().any(is_object) {
        return Some("recorded `allow` for a search that may read nothing below its object".to_owned());
    }
    let is_recorded = payload.exclusions.as_deref().unwrap_or_default() == exclusions;
    (!is_recorded).then(|| "the recorded exclusions below the object are not those of the rules".to_owned())
}
