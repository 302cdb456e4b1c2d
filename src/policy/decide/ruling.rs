//! What the policies say to a request.

use crate::types::Decision;

/// What the policies say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may run.
    Allow {
        /// The permits that say so.
        policies: Vec<String>,
    },
    /// It may not run.
    Deny {
        /// The forbids that say so; empty where no permit matched.
        policies: Vec<String>,
        /// For the caller and the model; names no rule's text.
        reason: String,
        /// What the determining policies advise (`@advice`).
        advice: Vec<String>,
        /// Errors in the evaluation; any one of them is a deny.
        errors: Vec<String>,
    },
    /// It may run once a person said yes.
    NeedsApproval {
        /// The forbids that ask for it.
        policies: Vec<String>,
        /// Who is asked.
        gates: Vec<Obligation>,
    },
}

/// Whom a forbid asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obligation {
    /// Another user, of this group: `@require_approval("group")`.
    Approval {
        /// The group.
        group: String,
    },
    /// The same user, at a terminal of one's own: `@require_confirm`.
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

    /// The word on the ledger and in the API.
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

    /// Errors in the evaluation; any one of them made it a deny.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        match self {
            Self::Deny { errors, .. } => errors,
            Self::Allow { .. } | Self::NeedsApproval { .. } => &[],
        }
    }
}
