//! Repeats the decision on a request to a model from the request in its entry.

use super::decision::{difference, is_of_another_session};
use super::kept::KeptBundles;
use super::share::WalkShare;
use crate::ledger::payload::{CutPayload, ModelAskPayload};
use crate::ledger::{Header, Stored};
use crate::policy::{Bundle, MODEL_ASK, RecordedRequest};
use crate::types::{Digest, ModelSink};

/// Repeats one decision: under its own rules, and under those in `against`.
pub(super) fn check(
    stored: &Stored,
    against: Option<&Bundle>,
    kept: &KeptBundles<'_>,
    share: &mut WalkShare,
) {
    let header = &stored.header;
    share.report.decisions += 1;
    share.under(header.str("policy").unwrap_or_default(), header.seq);
    let is_cut = |body: &[u8]| CutPayload::read(body).is_some();
    if stored.body.as_deref().is_none_or(is_cut) {
        return share.report.without_payload += 1;
    }
    let recorded = stored
        .payload::<ModelAskPayload>()
        .ok_or_else(|| "the payload cannot be read".to_owned())
        .and_then(|payload| {
            let recorded = RecordedRequest::read(&payload.request);
            Ok((recorded.map_err(|e| format!("the recorded request cannot be read: {e}"))?, payload))
        });
    let (recorded, payload) = match recorded {
        Ok(recorded) => recorded,
        Err(what) => return share.differs(header.seq, what),
    };
    check_own(header, &payload, &recorded, against.is_none(), kept, share);
    if let Some(against) = against {
        share.report.compared += 1;
        let again = against.decide_other(&recorded);
        share.report.filled += u64::from(again.filled);
        share.compare(header, &recorded, &again);
    }
}

/// Under its own bundle the request must lead to what is recorded.
fn check_own(
    header: &Header,
    payload: &ModelAskPayload,
    recorded: &RecordedRequest,
    counts_shadow: bool,
    kept: &KeptBundles<'_>,
    share: &mut WalkShare,
) {
    let seq = header.seq;
    let Some(digest) = header.str("policy").and_then(Digest::from_hex) else {
        return share.differs(seq, "the decision names no policy bundle".to_owned());
    };
    let sink = format!("{}{}", ModelSink::PREFIX, payload.name);
    if recorded.tool() != MODEL_ASK || recorded.resource() != ("Sink", &sink) {
        return share.differs(seq, format!("the request is not about asking `{sink}`"));
    }
    if let Some(what) = is_of_another_session(header, recorded) {
        return share.differs(seq, what);
    }
    match &*kept.find(digest) {
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
            match difference(header, payload.errors.as_deref(), payload.shadow.as_ref(), &again) {
                None => share.report.as_recorded += 1,
                Some(what) => share.differs(seq, format!("{what}, under the bundle {}", digest.short())),
            }
        }
    }
}
