//! The colour of an outcome. It accompanies the word and never stands alone.

use crate::auth::KeyState;
use crate::gate::State;
use crate::types::{Decision, RunStatus, StepStatus};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
    /// Less important than its surroundings.
    Faint,
}

impl Tone {
    /// The tone of a decision, a state or a status, by its word.
    pub(in crate::cli) fn of(word: &str) -> Self {
        let of_decision = Decision::parse(word).map(|decision| match decision {
            Decision::Allow => Self::Good,
            Decision::NeedsApproval => Self::Warn,
            Decision::Deny | Decision::Invalid => Self::Bad,
        });
        let of_step = || {
            StepStatus::parse(word).map(|status| match status {
                StepStatus::Ok => Self::Good,
                StepStatus::Waiting | StepStatus::Interrupted => Self::Warn,
                StepStatus::Running => Self::Plain,
                _ => Self::Bad,
            })
        };
        let of_run = || {
            RunStatus::parse(word).map(|status| match status {
                RunStatus::Done => Self::Good,
                RunStatus::Denied | RunStatus::Failed => Self::Bad,
                RunStatus::Running => Self::Plain,
                _ => Self::Warn,
            })
        };
        let of_approval = || {
            State::parse(word).map(|state| match state {
                State::Granted | State::Spent => Self::Good,
                State::Pending => Self::Warn,
                _ => Self::Bad,
            })
        };
        let of_key = || {
            KeyState::parse(word).map(|state| match state {
                KeyState::Live => Self::Plain,
                KeyState::Mismatch => Self::Bad,
                _ => Self::Faint,
            })
        };
        of_decision.or_else(of_step).or_else(of_run).or_else(of_approval).or_else(of_key).unwrap_or_default()
    }

    /// The parameter of the escape sequence (ECMA-48, SGR).
    pub(super) fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
            Self::Faint => Some("2"),
        }
    }
}
