//! The policies on powers: those that decide whether a principal could ever hold one, and the
//! built-in ones that apply if no file permits a power.

use super::scope::looks_at_call;
use crate::policy::power::{Power, fits_power, permits_powers};
use cedar_policy::{Effect, Policy, PolicySet};
use serde_json::json;

/// The policies of `set` on powers, as if all their conditions on context and resource held.
pub(in crate::policy) fn ever(set: &PolicySet) -> Result<PolicySet, String> {
    let on_powers = |policy: &&Policy| Power::ALL.into_iter().any(|power| fits_power(policy, power));
    let mut ever = PolicySet::new();
    for policy in set.policies().filter(on_powers) {
        let mut tree = policy.to_json().map_err(|e| e.to_string())?;
        let looks = tree.get("conditions").is_some_and(looks_at_call);
        if looks && policy.effect() == Effect::Forbid {
            continue;
        }
        if let Some(members) = tree.as_object_mut().filter(|_| looks) {
            members.insert("conditions".to_owned(), json!([]));
        }
        let policy = Policy::from_json(Some(policy.id().clone()), tree).map_err(|e| e.to_string())?;
        ever.add(policy).map_err(|e| e.to_string())?;
    }
    Ok(ever)
}

/// The built-in policy that applies if no file permits a power.
pub(in crate::policy) const BARE: &str = "par.bare.read";

/// What an administrator may do if no file permits a power: read, and over the admin socket manage
/// keys, load the rules on disk and, with `halts`, halt. A home with broken or missing policies can
/// then be inspected and repaired, and nothing runs. Each policy with its id.
pub(in crate::policy) fn bare(set: &PolicySet, halts: &[Power]) -> Vec<(String, String)> {
    if set.policies().any(permits_powers) {
        return Vec::new();
    }
    let admin = "principal in PAR::Role::\"admin\"";
    let actions = |powers: &[Power]| {
        let names = powers.iter().map(|power| format!("PAR::Action::\"{}\"", power.as_str()));
        names.collect::<Vec<_>>().join(", ")
    };
    let reading = actions(&[
        Power::RunRead,
        Power::AuditRead,
        Power::ApprovalRead,
        Power::ToolsRead,
        Power::HealthRead,
    ]);
    let mending = actions(&[&[Power::KeyManage, Power::Reload], halts].concat());
    vec![
        (BARE.to_owned(), format!("permit({admin}, action in [{reading}], resource);")),
        (
            "par.bare.socket".to_owned(),
            format!("permit({admin}, action in [{mending}], resource) when {{ context.via == \"socket\" }};"),
        ),
    ]
}
