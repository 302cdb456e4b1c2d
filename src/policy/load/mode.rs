//! Policies in shadow mode (`@mode("shadow")`) are set apart from those that decide.
//!
//! INVARIANT: what decides is a set without them. A shadow permit permits nothing, a shadow forbid forbids
//! nothing, and an error of either denies nothing.

use cedar_policy::{Policy, PolicySet};

/// The one value of `@mode`.
pub(in crate::policy) const MODE: &str = "shadow";

/// The policies that decide, and all of them where some are in shadow mode. A mode that is not known is an
/// error: it must neither decide nor be passed over.
pub(in crate::policy) fn apart(all: PolicySet) -> Result<(PolicySet, Option<PolicySet>), String> {
    let odd = all.policies().find(|policy| policy.annotation("mode").is_some_and(|mode| mode != MODE));
    if let Some(policy) = odd {
        return Err(format!("`{}` has an unknown `@mode`", policy.id()));
    }
    let decides = |policy: &&Policy| policy.annotation("mode").is_none();
    if all.policies().all(|policy| decides(&policy)) {
        return Ok((all, None));
    }
    let set = PolicySet::from_policies(all.policies().filter(decides).cloned()).map_err(|e| e.to_string())?;
    Ok((set, Some(all)))
}
