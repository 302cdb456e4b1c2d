//! Shadow mode: policies that are evaluated beside the others, and only reported.

use super::ruling::Ruling;
use crate::ledger::payload::ShadowDecision;
use crate::types::Decision;

/// What the answer would have been, had the policies in shadow mode decided too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// What would have been decided.
    pub decision: Decision,
    /// The policies that would have determined it.
    pub policies: Vec<String>,
    /// Errors of policies in shadow mode.
    pub errors: Vec<String>,
}

impl Shadow {
    /// What `beside`, the answer with the policies in shadow mode, changes in `answer`: another word, a
    /// question for other reasons, or an error. `None` where it changes nothing.
    pub(in crate::policy) fn from_rulings(answer: &Ruling, beside: &Ruling) -> Option<Self> {
        let errors: Vec<String> =
            beside.errors().iter().filter(|error| !answer.errors().contains(error)).cloned().collect();
        let asks_others = matches!(
            (answer, beside),
            (Ruling::NeedsApproval { gates: now, .. }, Ruling::NeedsApproval { gates: then, .. }) if now != then
        );
        let differs = answer.word() != beside.word() || asks_others || !errors.is_empty();
        differs.then(|| Self { decision: beside.decision(), policies: beside.policies().to_vec(), errors })
    }

    /// As the ledger keeps it.
    #[must_use]
    pub fn record(&self) -> ShadowDecision {
        ShadowDecision {
            decision: self.decision,
            policies: self.policies.clone(),
            errors: (!self.errors.is_empty()).then(|| self.errors.clone()),
        }
    }
}
