//! The state of a run, as the ledger and the API write it.

use serde::{Deserialize, Serialize};

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "most names are the meaning")]
pub enum RunStatus {
    Pending,
    Running,
    Waiting,
    Paused,
    Done,
    Denied,
    /// A person refused a call of the run, or no person answered in time.
    Refused,
    Failed,
    Limit,
    Cancelled,
    Interrupted,
}

impl RunStatus {
    /// Every state.
    pub const ALL: [Self; 11] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Done,
        Self::Denied,
        Self::Refused,
        Self::Failed,
        Self::Limit,
        Self::Cancelled,
        Self::Interrupted,
    ];

    /// The word on the ledger and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Limit => "limit",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether a `run.reply` can have it.
    #[must_use]
    pub fn is_recorded(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Paused)
    }

    /// The state of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}
