//! Repeats a decision from the request in its entry.

use super::beneath;
use super::kept::KeptBundles;
use super::share::WalkShare;
use crate::ledger::payload::{CallDecisionPayload, ShadowDecision};
use crate::ledger::{Header, Stored};
use crate::policy::{Bundle, RecordedRequest, RepeatedDecision, Ruling};
use crate::types::json::parse_strict;
use crate::types::{Decision, Digest, limits, text};
use serde_json::Value;

/// Repeats one decision: under its own rules, and under those in `against`.
pub(super) fn check(
    stored: &Stored,
    against: Option<&Bundle>,
    kept: &KeptBundles<'_>,
    share: &mut WalkShare,
) {
    let header = &stored.header;
    let policy = header.str("policy").unwrap_or_default();
    share.report.decisions += 1;
    share.under(policy, header.seq);
    let word = header.str("decision").unwrap_or_default();
    let payload = stored.body.as_deref().map(|body| parse_strict(body, limits::JSON_DEPTH_MAX + 8));
    let payload = match payload {
        None => return share.report.without_payload += 1,
        Some(Err(e)) => return share.differs(header.seq, format!("the payload is not JSON: {e}")),
        Some(Ok(payload)) if payload.get("cut").is_some() => return share.report.without_payload += 1,
        Some(Ok(payload)) => payload,
    };
    let payload = match serde_json::from_value::<CallDecisionPayload>(payload) {
        Ok(payload) => payload,
        Err(e) => return share.differs(header.seq, format!("the payload cannot be read: {e}")),
    };
    let is_empty = |request: &Value| request.as_object().is_none_or(serde_json::Map::is_empty);
    let request = payload.request.as_ref().filter(|request| !is_empty(request));
    if header.decision() == Some(Decision::Invalid) {
        // An invalid call was never a question to the policies.
        if request.is_some() || header.fields.contains_key("policies") {
            return share.differs(
                header.seq,
                "recorded `invalid` for a call that policies were asked about".to_owned(),
            );
        }
        share.report.invalid += 1;
        return;
    }
    let Some(request) = request else {
        if header.decision() != Some(Decision::Deny) || header.fields.contains_key("policies") {
            let what = format!("recorded `{word}` for a call that no policy evaluated");
            return share.differs(header.seq, what);
        }
        share.report.without_request += 1;
        return;
    };
    match RecordedRequest::read(request) {
        Err(e) => share.differs(header.seq, format!("the recorded request cannot be read: {e}")),
        Ok(recorded) => {
            check_own(header, &payload, &recorded, against.is_none(), kept, share);
            if let Some(against) = against {
                share.report.compared += 1;
                let again = against.decide_other(&recorded);
                share.report.filled += u64::from(again.filled);
                share.compare(header, &recorded, &again);
            }
        }
    }
}

/// Under its own bundle the request must lead to what is recorded. `counts_shadow`: the decision's
/// own bundle also reports what its policies in shadow mode would change.
fn check_own(
    header: &Header,
    payload: &CallDecisionPayload,
    recorded: &RecordedRequest,
    counts_shadow: bool,
    kept: &KeptBundles<'_>,
    share: &mut WalkShare,
) {
    let seq = header.seq;
    let Some(digest) = header.str("policy").and_then(Digest::from_hex) else {
        return share.differs(seq, "the decision names no policy bundle".to_owned());
    };
    if let Some(what) = is_of_another(header, recorded) {
        return share.differs(seq, what);
    }
    let bundle = kept.find(digest);
    match &*bundle {
        Err(what) => share.differs(seq, format!("the kept bundle is not the one that decided: {what}")),
        Ok(None) => *share.report.not_kept.entry(digest.hex()).or_default() += 1,
        Ok(Some(bundle)) => {
            if let Some(engine) = bundle.other_engine() {
                *share.report.other_engines.entry(engine.to_owned()).or_default() += 1;
            }
            *share.report.bundles.entry(digest.hex()).or_default() += 1;
            let again = bundle.decide_again(recorded);
            if counts_shadow {
                share.count_shadow(header, recorded, &again);
            }
            let is_allowed = matches!(again.answer, Ruling::Allow { .. });
            let may_run = !matches!(again.answer, Ruling::Deny { .. });
            let below = || beneath::difference(payload, recorded, bundle, is_allowed).filter(|_| may_run);
            let differs = difference(header, payload.errors.as_deref(), payload.shadow.as_ref(), &again);
            match differs.or_else(below) {
                None => share.report.as_recorded += 1,
                Some(what) => share.differs(seq, format!("{what}, under the bundle {}", digest.short())),
            }
        }
    }
}

/// Describes a request that belongs to another call than the header.
fn is_of_another(header: &Header, recorded: &RecordedRequest) -> Option<String> {
    let tool = recorded.tool();
    if header.str("tool").unwrap_or_default() != tool {
        return Some(format!("the request names the tool `{tool}`, and the header another"));
    }
    is_of_another_session(header, recorded)
}

/// Describes a request of another session, or of another principal, than the header's.
pub(super) fn is_of_another_session(header: &Header, recorded: &RecordedRequest) -> Option<String> {
    let session = recorded.session();
    if header.str("session").unwrap_or_default() != session {
        return Some(format!("the request names the session `{session}`, and the header another"));
    }
    let by = header.str("principal").unwrap_or_default();
    (!recorded.is_by(by))
        .then(|| format!("the header names `{}`, and the request another principal", text::visible_line(by)))
}

/// What differs between a record and the answer that its request leads to.
pub(super) fn difference(
    header: &Header,
    errors: Option<&[String]>,
    shadow: Option<&ShadowDecision>,
    again: &RepeatedDecision,
) -> Option<String> {
    let word = header.str("decision").unwrap_or_default();
    let policies = header.policies();
    let answer = &again.answer;
    let say = |word: &str, policies: &[String]| match policies {
        [] => format!("`{word}`"),
        some => format!("`{word}` by {}", some.join(", ")),
    };
    if header.decision() != Some(answer.decision()) || policies != answer.policies() {
        let (then, now) = (say(word, &policies), say(answer.word(), answer.policies()));
        return Some(format!("recorded {then}; the rules say {now}"));
    }
    let has_errors = errors.is_some_and(|errors| !errors.is_empty());
    if has_errors == answer.errors().is_empty() {
        let (then, now) = if has_errors { ("an error", "none") } else { ("no error", "one") };
        return Some(format!("recorded {then}; the rules lead to {now}"));
    }
    // The text of errors may change between versions: only whether there are any is compared.
    let then = shadow.map(|shadow| (shadow.decision, &shadow.policies));
    let now = again.shadow.as_ref().map(|shadow| (shadow.decision, &shadow.policies));
    (then != now).then(|| "the record of policies in shadow mode differs from what they say".to_owned())
}
