//! The vocabulary of the admin socket, shared by both sides: operations and error codes.

use crate::auth::KeyError;
use crate::gate::AnswerError;
use crate::ledger::{AppendError, ReadError, RedactError};
use crate::rules::ReloadError;

/// An operation; the member `op` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create a key.
    KeyCreate,
    /// List keys.
    KeyList,
    /// Revoke a key.
    KeyRevoke,
    /// Halt PAR, a caller, a tool or a session.
    HaltSet,
    /// List the halts in force.
    HaltList,
    /// Lift a halt.
    HaltLift,
    /// Cancel a run.
    RunCancel,
    /// List runs.
    RunList,
    /// Show one run.
    RunShow,
    /// List approvals.
    ApprovalList,
    /// Show one approval.
    ApprovalShow,
    /// Answer an approval.
    ApprovalAnswer,
    /// Make a login link.
    LoginCreate,
    /// Erase payloads.
    AuditRedact,
    /// Record an export.
    AuditExport,
    /// Verify an entry that a reader of the files found damaged.
    LedgerCheck,
    /// Load the rules on disk.
    Reload,
}

impl Operation {
    /// Every operation, in the order of the error message.
    pub const ALL: [Self; 17] = [
        Self::KeyCreate,
        Self::KeyList,
        Self::KeyRevoke,
        Self::HaltSet,
        Self::HaltList,
        Self::HaltLift,
        Self::RunCancel,
        Self::RunList,
        Self::RunShow,
        Self::ApprovalList,
        Self::ApprovalShow,
        Self::ApprovalAnswer,
        Self::LoginCreate,
        Self::AuditRedact,
        Self::AuditExport,
        Self::LedgerCheck,
        Self::Reload,
    ];

    /// The name in a request.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KeyCreate => "key.create",
            Self::KeyList => "key.list",
            Self::KeyRevoke => "key.revoke",
            Self::HaltSet => "halt.set",
            Self::HaltList => "halt.list",
            Self::HaltLift => "halt.lift",
            Self::RunCancel => "run.cancel",
            Self::RunList => "run.list",
            Self::RunShow => "run.show",
            Self::ApprovalList => "approval.list",
            Self::ApprovalShow => "approval.show",
            Self::ApprovalAnswer => "approval.answer",
            Self::LoginCreate => "login.create",
            Self::AuditRedact => "audit.redact",
            Self::AuditExport => "audit.export",
            Self::LedgerCheck => "ledger.check",
            Self::Reload => "reload",
        }
    }

    /// Whether it reads or answers approvals, or makes a login that does.
    #[must_use]
    pub fn answers(self) -> bool {
        matches!(self, Self::ApprovalList | Self::ApprovalShow | Self::ApprovalAnswer | Self::LoginCreate)
    }

    /// Whether it halts, lifts or lists halts, or cancels a run.
    #[must_use]
    pub fn stops(self) -> bool {
        matches!(self, Self::HaltSet | Self::HaltList | Self::HaltLift | Self::RunCancel)
    }

    /// Parses the name of an operation.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str() == word)
    }
}

/// Why an operation failed; the member `code` of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCode {
    /// The request cannot be parsed.
    Malformed,
    /// This user or this token may not use the socket.
    Refused,
    /// The policies do not grant the power.
    Forbidden,
    /// A value is not valid.
    Invalid,
    /// A live key has that name already.
    Taken,
    /// No such key exists.
    Unknown,
    /// A key's row in state.db does not match the ledger.
    Mismatch,
    /// An entry does not verify, or an approval's row in state.db does not match the ledger.
    Damaged,
    /// The ledger is damaged, and the server is read-only.
    LedgerDamaged,
    /// No such approval exists.
    NotFound,
    /// The requester of a call cannot approve it.
    OwnRequest,
    /// The user is not in the required group.
    NotInGroup,
    /// The approval has expired.
    Expired,
    /// The approval is already answered.
    Answered,
    /// The answer is for another call.
    WrongCall,
    /// Policy or tools have changed since the request.
    Changed,
    /// A person halted it.
    Halted,
    /// Payloads of this kind are never erased.
    Kept,
    /// The files of the rules are invalid.
    Rules,
    /// The ledger cannot be written or read.
    Ledger,
    /// Any other failure.
    Failed,
}

impl FailureCode {
    /// Every code.
    pub const ALL: [Self; 21] = [
        Self::Malformed,
        Self::Refused,
        Self::Forbidden,
        Self::Invalid,
        Self::Taken,
        Self::Unknown,
        Self::Mismatch,
        Self::Damaged,
        Self::LedgerDamaged,
        Self::NotFound,
        Self::OwnRequest,
        Self::NotInGroup,
        Self::Expired,
        Self::Answered,
        Self::WrongCall,
        Self::Changed,
        Self::Halted,
        Self::Kept,
        Self::Rules,
        Self::Ledger,
        Self::Failed,
    ];

    /// The name in a response.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Forbidden => "forbidden",
            Self::Invalid => "unfit",
            Self::Taken => "taken",
            Self::Unknown => "unknown",
            Self::Mismatch => "mismatch",
            Self::Damaged => "damaged",
            Self::LedgerDamaged => "ledger_damaged",
            Self::NotFound => "not_found",
            Self::OwnRequest => "own_request",
            Self::NotInGroup => "not_in_group",
            Self::Expired => "expired",
            Self::Answered => "answered",
            Self::WrongCall => "wrong_call",
            Self::Changed => "changed",
            Self::Halted => "halted",
            Self::Kept => "kept",
            Self::Rules => "rules",
            Self::Ledger => "ledger",
            Self::Failed => "failed",
        }
    }

    /// Parses a code. One that this version does not know becomes `Failed`.
    #[must_use]
    pub fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|code| code.as_str() == word).unwrap_or(Self::Failed)
    }
}

impl From<&AppendError> for FailureCode {
    fn from(error: &AppendError) -> Self {
        if matches!(error, AppendError::Damaged(_)) { Self::LedgerDamaged } else { Self::Ledger }
    }
}

impl From<&ReadError> for FailureCode {
    fn from(error: &ReadError) -> Self {
        if matches!(error, ReadError::Damaged(..)) { Self::Damaged } else { Self::Ledger }
    }
}

impl From<&KeyError> for FailureCode {
    fn from(error: &KeyError) -> Self {
        match error {
            KeyError::Invalid(..) => Self::Invalid,
            KeyError::Taken(_) => Self::Taken,
            KeyError::Unknown(_) => Self::Unknown,
            KeyError::Mismatch(_) => Self::Mismatch,
            KeyError::Ledger(error) => error.into(),
            KeyError::DrawnTwice | KeyError::Failed(_) => Self::Failed,
        }
    }
}

impl From<&AnswerError> for FailureCode {
    fn from(error: &AnswerError) -> Self {
        match error {
            AnswerError::Unknown => Self::NotFound,
            AnswerError::MayRun | AnswerError::MayNot(_) => Self::Forbidden,
            AnswerError::OwnRequest(_) => Self::OwnRequest,
            AnswerError::NotInGroup(_) => Self::NotInGroup,
            AnswerError::Expired => Self::Expired,
            AnswerError::Answered(_) => Self::Answered,
            AnswerError::WrongCall => Self::WrongCall,
            AnswerError::Changed => Self::Changed,
            AnswerError::Halted(_) => Self::Halted,
            AnswerError::Invalid(..) => Self::Invalid,
            AnswerError::Mismatch(_) => Self::Damaged,
            AnswerError::Ledger(error) => error.into(),
            AnswerError::Read(error) => error.into(),
        }
    }
}

impl From<&RedactError> for FailureCode {
    fn from(error: &RedactError) -> Self {
        match error {
            RedactError::Invalid(..) => Self::Invalid,
            RedactError::Kept(_) => Self::Kept,
            RedactError::Read(error) => error.into(),
            RedactError::Append(error) => error.into(),
            RedactError::Failed(_) => Self::Failed,
        }
    }
}

impl From<&ReloadError> for FailureCode {
    fn from(error: &ReloadError) -> Self {
        match error {
            ReloadError::Rules(_) => Self::Rules,
            ReloadError::Launcher(_) | ReloadError::Keep(_) => Self::Failed,
            ReloadError::Ledger(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureCode, Operation};

    #[test]
    fn names_parse_back_to_the_same_value() {
        for operation in Operation::ALL {
            assert_eq!(Operation::parse(operation.as_str()), Some(operation));
        }
        for code in FailureCode::ALL {
            assert_eq!(FailureCode::parse(code.as_str()), code);
        }
        assert_eq!(FailureCode::parse("of a later version"), FailureCode::Failed);
    }
}
