//! The decision on each step of a run, and its outcome.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The decision on a proposed call; the member `decision` of the ledger's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run, once.
    Allow,
    /// It does not run.
    Deny,
    /// It does not run until a person has approved it.
    NeedsApproval,
    /// It does not call an offered tool, or its arguments do not match the tool's schema.
    Invalid,
}

impl Decision {
    /// Every decision.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Deny, Self::NeedsApproval, Self::Invalid];

    /// The name on the ledger and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::NeedsApproval => "needs_approval",
            Self::Invalid => "invalid",
        }
    }

    /// Parses the name of a decision.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.as_str() == word)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a call was refused; the `status` of a `call.decision` that is `deny` or `invalid`, and the
/// member `class` of a step. A record without it is of an earlier version: see
/// [`RefusalClass::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalClass {
    /// The rules decided.
    Policy,
    /// The sandbox cannot run the call on this host: rights of its user, a missing socket or
    /// program.
    Host,
    /// PAR is at one of its limits, or the launcher is being replaced: the call may succeed later.
    Capacity,
    /// It does not call an offered tool, or its arguments do not match the tool's schema.
    Schema,
    /// A person refused it, or no person answered in time.
    Person,
    /// A question to a person about the same object is open: no second one is asked.
    Asked,
    /// A person halted PAR. Reserved: this version never records it.
    Halt,
}

impl RefusalClass {
    /// Every class.
    pub const ALL: [Self; 7] =
        [Self::Policy, Self::Host, Self::Capacity, Self::Schema, Self::Person, Self::Asked, Self::Halt];

    /// The name on the ledger and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Host => "host",
            Self::Capacity => "capacity",
            Self::Schema => "schema",
            Self::Person => "person",
            Self::Asked => "asked",
            Self::Halt => "halt",
        }
    }

    /// Parses the name of a class.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }

    /// The class of a recorded decision whose header has `status`. Earlier versions recorded none:
    /// their `deny` counts as the rules' and their `invalid` as the schema's.
    #[must_use]
    pub fn of(decision: Decision, status: Option<&str>) -> Option<Self> {
        let recorded = || status.and_then(Self::parse);
        match decision {
            Decision::Deny => Some(recorded().unwrap_or(Self::Policy)),
            Decision::Invalid => Some(recorded().unwrap_or(Self::Schema)),
            Decision::Allow | Decision::NeedsApproval => None,
        }
    }

    /// What refuses, in words.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            Self::Policy => "the rules do not permit it",
            Self::Host => "this host cannot do what it needs",
            Self::Capacity => "too many calls are running",
            Self::Schema => "no such tool, or the arguments do not match it",
            Self::Person => "a person refused it",
            Self::Asked => "another approval about the same object is open",
            Self::Halt => "a person halted it",
        }
    }

    /// What a person can do about a refusal of this class, as the end of a sentence.
    #[must_use]
    pub fn mend(self) -> &'static str {
        match self {
            Self::Policy => "`par policy explain` shows what the rules allow",
            Self::Host => "`par doctor` checks this host, `par doctor path FILE` the rights on a file",
            Self::Capacity => "try again when fewer calls are running",
            Self::Schema => "`par tool show TOOL` shows the arguments",
            Self::Person => "ask again if it is still needed",
            Self::Asked => "ask again once the open approval is answered: `par approval list`",
            Self::Halt => "a person has to lift the halt",
        }
    }
}

impl fmt::Display for RefusalClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The outcome of a decided call; the member `status` of a `call.result` header, and of a step in
/// the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// It ran and succeeded.
    Ok,
    /// It ran and failed, or its output did not match its manifest.
    Error,
    /// A signal ended it.
    Signal,
    /// It reached its deadline.
    Timeout,
    /// It ran out of memory.
    Oom,
    /// It printed more than its limit.
    OutputCap,
    /// It added more to its folders than its limits allow.
    Quota,
    /// The launcher ended it for another reason, or it ended together with the launcher.
    Killed,
    /// It did not run.
    Refused,
    /// A crash came between decision and result: whether it ran, and how far, is unknown.
    Interrupted,
    /// It waits for a person. Never on the ledger, because it has no result yet.
    Waiting,
    /// It is running. Never on the ledger either.
    Running,
}

impl StepStatus {
    /// Every status.
    pub const ALL: [Self; 12] = [
        Self::Ok,
        Self::Error,
        Self::Signal,
        Self::Timeout,
        Self::Oom,
        Self::OutputCap,
        Self::Quota,
        Self::Killed,
        Self::Refused,
        Self::Interrupted,
        Self::Waiting,
        Self::Running,
    ];

    /// The name on the ledger and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Signal => "signal",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::OutputCap => "output_cap",
            Self::Quota => "quota",
            Self::Killed => "killed",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
            Self::Waiting => "waiting",
            Self::Running => "running",
        }
    }

    /// Parses the name of a status.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether a `call.result` can have this status.
    #[must_use]
    pub fn is_recorded(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    /// Whether a call with this status ran and did not succeed. A call that the sandbox refused did
    /// not run.
    #[must_use]
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Ok | Self::Refused | Self::Waiting | Self::Running)
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, RefusalClass, StepStatus};
    use serde_json::json;

    #[test]
    fn names_are_the_same_in_serde_and_in_parse() {
        for decision in Decision::ALL {
            assert_eq!(json!(decision), json!(decision.as_str()));
            assert_eq!(Decision::parse(decision.as_str()), Some(decision));
        }
        for status in StepStatus::ALL {
            assert_eq!(json!(status), json!(status.as_str()));
            assert_eq!(StepStatus::parse(status.as_str()), Some(status));
        }
        for class in RefusalClass::ALL {
            assert_eq!(json!(class), json!(class.as_str()));
            assert_eq!(RefusalClass::parse(class.as_str()), Some(class));
        }
    }

    #[test]
    fn a_refusal_without_a_class_is_of_an_earlier_version() {
        let of = RefusalClass::of;
        assert_eq!(of(Decision::Deny, None), Some(RefusalClass::Policy));
        assert_eq!(of(Decision::Invalid, None), Some(RefusalClass::Schema));
        assert_eq!(of(Decision::Deny, Some("capacity")), Some(RefusalClass::Capacity));
        assert_eq!(of(Decision::Allow, Some("host")), None);
    }

    #[test]
    fn a_call_that_did_not_run_has_not_failed() {
        let failures: Vec<&str> = StepStatus::ALL
            .into_iter()
            .filter(|status| status.is_failure())
            .map(StepStatus::as_str)
            .collect();
        let expect = ["error", "signal", "timeout", "oom", "output_cap", "quota", "killed", "interrupted"];
        assert_eq!(failures, expect);
    }
}
