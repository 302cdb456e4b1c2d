//! The answer of the policies to a request.

use crate::types::Decision;

/// The answer of the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The call may run.
    Allow {
        /// The permits that matched.
        policies: Vec<String>,
    },
    /// The call may not run.
    Deny {
        /// The forbids that matched; empty if no permit matched either.
        policies: Vec<String>,
        /// For the caller and the model; never contains the text of a rule.
        reason: String,
        /// The `@advice` of the determining policies.
        advice: Vec<String>,
        /// Errors in the evaluation; any error is a deny.
        errors: Vec<String>,
    },
    /// The call may run once a person has approved it.
    NeedsApproval {
        /// The forbids that ask for approval.
        policies: Vec<String>,
        /// The required approvals.
        gates: Vec<Obligation>,
    },
}

/// The approval that a `forbid` requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obligation {
    /// Approval by another user, who is in this group: `@require_approval("group")`.
    Approval {
        /// The group.
        group: String,
    },
    /// Confirmation by the same user, at that user's own terminal: `@require_confirm`.
    Confirm,
}

impl Ruling {
    /// The decision, without its reasons.
    #[must_use]
    pub fn decision(&self) -> Decision {
        match self {
            Self::Allow { .. } => Decision::Allow,
            Self::Deny { .. } => Decision::Deny,
            Self::NeedsApproval { .. } => Decision::NeedsApproval,
        }
    }

    /// The value on the ledger and in the API.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.decision().as_str()
    }

    /// The determining policies.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        match self {
            Self::Allow { policies } | Self::Deny { policies, .. } | Self::NeedsApproval { policies, .. } => {
                policies
            }
        }
    }

    /// Errors in the evaluation; any error makes the answer a deny.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        match self {
            Self::Deny { errors, .. } => errors,
            Self::Allow { .. } | Self::NeedsApproval { .. } => &[],
        }
    }
}
