//! Shadow mode: policies that are evaluated in addition to the others, and only reported.

use super::ruling::Ruling;
use crate::ledger::payload::ShadowDecision;
use crate::types::Decision;

/// The answer if the policies in shadow mode had decided too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// The decision.
    pub decision: Decision,
    /// The determining policies.
    pub policies: Vec<String>,
    /// Errors of policies in shadow mode.
    pub errors: Vec<String>,
}

impl Shadow {
    /// The change that `shadowed`, the answer with the policies in shadow mode, makes to `answer`:
    /// another decision, an approval for other reasons, or an error. `None` if it changes nothing.
    pub(in crate::policy) fn from_rulings(answer: &Ruling, shadowed: &Ruling) -> Option<Self> {
        let errors: Vec<String> =
            shadowed.errors().iter().filter(|error| !answer.errors().contains(error)).cloned().collect();
        let asks_others = matches!(
            (answer, shadowed),
            (Ruling::NeedsApproval { gates: now, .. }, Ruling::NeedsApproval { gates: then, .. }) if now != then
        );
        let differs = answer.word() != shadowed.word() || asks_others || !errors.is_empty();
        differs.then(|| Self {
            decision: shadowed.decision(),
            policies: shadowed.policies().to_vec(),
            errors,
        })
    }

    /// As it is recorded on the ledger.
    #[must_use]
    pub fn record(&self) -> ShadowDecision {
        ShadowDecision {
            decision: self.decision,
            policies: self.policies.clone(),
            errors: (!self.errors.is_empty()).then(|| self.errors.clone()),
        }
    }
}
