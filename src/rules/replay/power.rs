//! What was done by a power of the API: granted again from the request that the entry carries.

use super::{Replay, Share, Shelf};
use crate::ledger::{Header, Kind, Stored};
use crate::policy::Recorded;
use crate::types::json::parse_strict;
use crate::types::{Digest, limits};
use serde_json::Value;

/// The power that an entry of this kind is written by.
pub(super) fn power_of(header: &Header) -> Option<&'static str> {
    [
        (Kind::ApprovalGrant, "approve"),
        (Kind::ApprovalRefuse, "approve"),
        (Kind::KeyCreate, "key_manage"),
        (Kind::KeyRevoke, "key_manage"),
        (Kind::PolicyLoad, "reload"),
        (Kind::ToolsLoad, "reload"),
        (Kind::Redaction, "redact"),
        (Kind::Export, "export"),
    ]
    .into_iter()
    .find_map(|(kind, power)| header.is(kind).then_some(power))
}

impl Replay<'_> {
    /// Grants again what `stored` was written by, where it says so: what nobody asked for, and what was done without
    /// a server, does not.
    pub(super) fn power(&self, stored: &Stored, shelf: &Shelf<'_>, share: &mut Share) {
        let (header, seq) = (&stored.header, stored.header.seq);
        let Some(wanted) = power_of(header) else { return };
        let payload = stored.body.as_deref().map(|body| parse_strict(body, limits::JSON_DEPTH_MAX + 8));
        let Some(Ok(payload)) = payload else { return };
        let Some(power) = payload.get("power") else { return };
        share.told.powers += 1;
        let word = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
        };
        let recorded = power.get("request").map_or_else(|| Err("it has none".to_owned()), Recorded::read);
        let recorded = match recorded {
            Ok(recorded) => recorded,
            Err(e) => return share.differs(seq, format!("the request of its power cannot be read: {e}")),
        };
        let (kind, id) = recorded.resource();
        let of_another = [
            (recorded.tool() != wanted || word(power, "name") != wanted, "another power"),
            (header.str("principal") != Some(recorded.principal()), "another caller"),
            (kind == "Approval" && word(&payload, "id") != id, "another approval"),
        ];
        if let Some((_, what)) = of_another.iter().find(|(is_other, _)| *is_other) {
            return share.differs(seq, format!("the request of its power is of {what}"));
        }
        // The rules before a load let it in; all else is done under the rules in force.
        let digest = word(power, "policy");
        let in_force = match wanted {
            "reload" => payload.get("was").map(|_| word(&payload, "was")),
            "approve" => header.str("policy").map(str::to_owned),
            _ => None,
        };
        if in_force.is_some_and(|in_force| in_force != digest) {
            return share
                .differs(seq, "its power was granted under other rules than those in force".to_owned());
        }
        let Some(digest) = Digest::from_hex(&digest) else {
            return share.differs(seq, "its power names no policy bundle".to_owned());
        };
        match &*shelf.find(digest) {
            Err(what) => share.differs(seq, format!("the kept bundle is not what granted its power: {what}")),
            Ok(None) => *share.told.not_kept.entry(digest.hex()).or_default() += 1,
            Ok(Some(bundle)) => {
                let answer = bundle.decide_again(&recorded).answer;
                let policies = power.get("policies").and_then(Value::as_array).into_iter().flatten();
                let policies: Vec<&str> = policies.filter_map(Value::as_str).collect();
                if answer.word() != "allow" || answer.policies() != policies {
                    let (then, now) = (policies.join(", "), answer.policies().join(", "));
                    let what =
                        format!("its power was granted by {then}; the rules say `{}` {now}", answer.word());
                    share.differs(seq, what);
                }
            }
        }
    }
}
