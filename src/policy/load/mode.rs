//! Separates policies in shadow mode (`@mode("shadow")`) from those that decide.
//!
//! INVARIANT: the set that decides contains none of them. A shadow permit permits nothing, a shadow
//! forbid forbids nothing, and an error in either denies nothing.

use cedar_policy::{Policy, PolicySet};

/// The only value of `@mode`.
pub(in crate::policy) const MODE: &str = "shadow";

/// The policies that decide, and the set of all policies if some are in shadow mode. An unknown
/// mode is an error: such a policy must neither decide nor be ignored.
pub(in crate::policy) fn separate(all: PolicySet) -> Result<(PolicySet, Option<PolicySet>), String> {
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
