//! Repeats the grant of a power from the request in the entry that it led to.

use super::kept::KeptBundles;
use super::share::WalkShare;
use crate::ledger::payload::PowerUsed;
use crate::ledger::{Header, Kind, Stored};
use crate::policy::{Power, RecordedRequest};
use crate::types::json::parse_strict;
use crate::types::{Decision, Digest, limits};
use serde::Deserialize;

/// The compared members, in the payloads of all kinds that record a power.
#[derive(Deserialize)]
struct RecordedPower {
    power: PowerUsed,
    /// The id of an approval, a key or its revocation.
    #[serde(default)]
    id: Option<String>,
    /// The earlier bundle of a reload.
    #[serde(default)]
    was: Option<Digest>,
}

/// The power that entries of this kind require.
pub(super) fn power_of(header: &Header) -> Option<Power> {
    [
        (Kind::ApprovalGrant, Power::Approve),
        (Kind::ApprovalRefuse, Power::Approve),
        (Kind::KeyCreate, Power::KeyManage),
        (Kind::KeyRevoke, Power::KeyManage),
        (Kind::PolicyLoad, Power::Reload),
        (Kind::ToolsLoad, Power::Reload),
        (Kind::RunCancel, Power::RunCancel),
        (Kind::SessionEnd, Power::Run),
        (Kind::HaltSet, Power::Halt),
        (Kind::HaltLift, Power::Halt),
        (Kind::Redaction, Power::Redact),
        (Kind::Export, Power::Export),
    ]
    .into_iter()
    .find_map(|(kind, power)| header.is(kind).then_some(power))
}

/// Repeats the grant that `stored` records. Entries without a caller, and those of commands without
/// a server, record none.
pub(super) fn check(stored: &Stored, kept: &KeptBundles<'_>, share: &mut WalkShare) {
    let (header, seq) = (&stored.header, stored.header.seq);
    let Some(wanted) = power_of(header) else { return };
    let payload = stored.body.as_deref().map(|body| parse_strict(body, limits::JSON_DEPTH_MAX + 8));
    let Some(Ok(payload)) = payload else { return };
    if payload.get("power").is_none() {
        return;
    }
    share.report.powers += 1;
    let entry = RecordedPower::deserialize(&payload).map_err(|e| e.to_string());
    let recorded = entry.and_then(|entry| {
        Ok((RecordedRequest::read(&entry.power.request).map_err(|e| e.to_string())?, entry))
    });
    let (recorded, entry) = match recorded {
        Ok(recorded) => recorded,
        Err(e) => return share.differs(seq, format!("the request of its power cannot be read: {e}")),
    };
    let power = entry.power;
    let (kind, id) = recorded.resource();
    let of_another = [
        (recorded.tool() != wanted.as_str() || power.name != wanted.as_str(), "another power"),
        (header.str("principal") != Some(recorded.principal()), "another caller"),
        (kind == "Approval" && entry.id.as_deref() != Some(id), "another approval"),
    ];
    if let Some((_, what)) = of_another.iter().find(|(is_other, _)| *is_other) {
        return share.differs(seq, format!("the request of its power names {what}"));
    }
    // The rules before a load granted it; everything else is done under the rules in force.
    let in_force = match wanted {
        Power::Reload => entry.was,
        Power::Approve => header.str("policy").and_then(Digest::from_hex),
        _ => None,
    };
    if in_force.is_some_and(|in_force| in_force != power.policy) {
        return share.differs(seq, "its power was granted under other rules than those in force".to_owned());
    }
    match &*kept.find(power.policy) {
        Err(what) => {
            share.differs(seq, format!("the kept bundle is not the one that granted its power: {what}"))
        }
        Ok(None) => *share.report.not_kept.entry(power.policy.hex()).or_default() += 1,
        Ok(Some(bundle)) => {
            let answer = bundle.decide_again(&recorded).answer;
            if answer.decision() != Decision::Allow || answer.policies() != power.policies {
                let (then, now) = (power.policies.join(", "), answer.policies().join(", "));
                let what =
                    format!("its power was granted by {then}; the rules say `{}` by {now}", answer.word());
                share.differs(seq, what);
            }
        }
    }
}
