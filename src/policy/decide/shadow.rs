//! Shadow mode: policies that are evaluated beside the others, and only reported.
//!
//! INVARIANT: what decides is a set without them. A shadow permit permits nothing, a shadow forbid forbids
//! nothing, and an error of either denies nothing.

use super::decision::Answer;
use cedar_policy::{Policy, PolicySet};
use serde_json::{Value, json};

/// The one value of `@mode`.
pub(in crate::policy) const MODE: &str = "shadow";

/// What the answer would have been, had the policies in shadow mode decided too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// `allow`, `deny` or `needs_approval`.
    pub decision: &'static str,
    /// The policies that would have determined it.
    pub policies: Vec<String>,
    /// Errors of policies in shadow mode.
    pub errors: Vec<String>,
}

impl Shadow {
    /// What `beside`, the answer with the policies in shadow mode, changes in `answer`: another word, a
    /// question for other reasons, or an error. `None` where it changes nothing.
    pub(in crate::policy) fn of(answer: &Answer, beside: &Answer) -> Option<Self> {
        let errors: Vec<String> =
            beside.errors().iter().filter(|error| !answer.errors().contains(error)).cloned().collect();
        let asks_others = matches!(
            (answer, beside),
            (Answer::NeedsApproval { gates: now, .. }, Answer::NeedsApproval { gates: then, .. }) if now != then
        );
        let differs = answer.word() != beside.word() || asks_others || !errors.is_empty();
        differs.then(|| Self { decision: beside.word(), policies: beside.policies().to_vec(), errors })
    }

    /// As the ledger keeps it.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut told = json!({ "decision": self.decision, "policies": self.policies });
        if let Some(members) = told.as_object_mut().filter(|_| !self.errors.is_empty()) {
            members.insert("errors".to_owned(), json!(self.errors));
        }
        told
    }
}

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
