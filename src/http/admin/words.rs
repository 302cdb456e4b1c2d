//! The words of the admin socket, which both sides speak: what is asked, and why it was not done.

use crate::auth::KeyError;
use crate::gate::AnswerError;
use crate::ledger::RedactError;
use crate::rules::ReloadError;

/// What may be asked; the member `op` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Make a key.
    KeyCreate,
    /// List keys.
    KeyList,
    /// Withdraw a key.
    KeyRevoke,
    /// List what waits for a person.
    ApprovalList,
    /// Show one approval.
    ApprovalShow,
    /// Answer it.
    ApprovalAnswer,
    /// Erase payloads.
    AuditRedact,
    /// Record an export.
    AuditExport,
    /// Put the rules on disk in force.
    Reload,
}

impl Operation {
    /// Every operation, as they are listed to who asks for another.
    pub const ALL: [Self; 9] = [
        Self::KeyCreate,
        Self::KeyList,
        Self::KeyRevoke,
        Self::ApprovalList,
        Self::ApprovalShow,
        Self::ApprovalAnswer,
        Self::AuditRedact,
        Self::AuditExport,
        Self::Reload,
    ];

    /// The word in a request.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KeyCreate => "key.create",
            Self::KeyList => "key.list",
            Self::KeyRevoke => "key.revoke",
            Self::ApprovalList => "approval.list",
            Self::ApprovalShow => "approval.show",
            Self::ApprovalAnswer => "approval.answer",
            Self::AuditRedact => "audit.redact",
            Self::AuditExport => "audit.export",
            Self::Reload => "reload",
        }
    }

    /// The operation of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str() == word)
    }
}

/// Why something was not done; the member `code` of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCode {
    /// The request cannot be read.
    Malformed,
    /// This user or this token may not use the socket.
    Refused,
    /// The policies do not grant the power for it.
    Forbidden,
    /// A value does not fit.
    Unfit,
    /// A key of that name is there.
    Taken,
    /// There is no such key.
    Unknown,
    /// A row of state.db is not the one that the ledger makes, of a key.
    Mismatch,
    /// The same of an approval.
    Damaged,
    /// There is no such approval.
    NotFound,
    /// Who asked cannot approve.
    OwnRequest,
    /// Another group is asked.
    NotInGroup,
    /// The approval's time is over.
    Expired,
    /// It is answered already.
    Answered,
    /// The answer is to another call.
    WrongCall,
    /// Policy or tools have changed since.
    Changed,
    /// The payload is one that is never erased.
    Kept,
    /// The files of the rules are at fault.
    Rules,
    /// The ledger cannot be written or read.
    Ledger,
    /// Anything else.
    Failed,
}

impl FailureCode {
    /// Every code.
    pub const ALL: [Self; 19] = [
        Self::Malformed,
        Self::Refused,
        Self::Forbidden,
        Self::Unfit,
        Self::Taken,
        Self::Unknown,
        Self::Mismatch,
        Self::Damaged,
        Self::NotFound,
        Self::OwnRequest,
        Self::NotInGroup,
        Self::Expired,
        Self::Answered,
        Self::WrongCall,
        Self::Changed,
        Self::Kept,
        Self::Rules,
        Self::Ledger,
        Self::Failed,
    ];

    /// The word in an answer.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Forbidden => "forbidden",
            Self::Unfit => "unfit",
            Self::Taken => "taken",
            Self::Unknown => "unknown",
            Self::Mismatch => "mismatch",
            Self::Damaged => "damaged",
            Self::NotFound => "not_found",
            Self::OwnRequest => "own_request",
            Self::NotInGroup => "not_in_group",
            Self::Expired => "expired",
            Self::Answered => "answered",
            Self::WrongCall => "wrong_call",
            Self::Changed => "changed",
            Self::Kept => "kept",
            Self::Rules => "rules",
            Self::Ledger => "ledger",
            Self::Failed => "failed",
        }
    }

    /// The code of this word; one that this version does not know says no more than that it failed.
    #[must_use]
    pub fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|code| code.as_str() == word).unwrap_or(Self::Failed)
    }
}

impl From<&KeyError> for FailureCode {
    fn from(error: &KeyError) -> Self {
        match error {
            KeyError::Unfit(..) => Self::Unfit,
            KeyError::Taken(_) => Self::Taken,
            KeyError::Unknown(_) => Self::Unknown,
            KeyError::Mismatch(_) => Self::Mismatch,
            KeyError::Ledger(_) => Self::Ledger,
            KeyError::DrawnTwice | KeyError::Failed(_) => Self::Failed,
        }
    }
}

impl From<&AnswerError> for FailureCode {
    fn from(error: &AnswerError) -> Self {
        match error {
            AnswerError::Unknown => Self::NotFound,
            AnswerError::MayRun | AnswerError::MayNot(_) => Self::Forbidden,
            AnswerError::OwnRequest => Self::OwnRequest,
            AnswerError::NotInGroup(_) => Self::NotInGroup,
            AnswerError::Expired => Self::Expired,
            AnswerError::Answered(_) => Self::Answered,
            AnswerError::WrongCall => Self::WrongCall,
            AnswerError::Changed => Self::Changed,
            AnswerError::Unfit(..) => Self::Unfit,
            AnswerError::Mismatch(_) => Self::Damaged,
            AnswerError::Ledger(_) | AnswerError::Read(_) => Self::Ledger,
        }
    }
}

impl From<&RedactError> for FailureCode {
    fn from(error: &RedactError) -> Self {
        match error {
            RedactError::Unfit(..) => Self::Unfit,
            RedactError::Kept(_) => Self::Kept,
            RedactError::Read(_) | RedactError::Append(_) => Self::Ledger,
            RedactError::Failed(_) => Self::Failed,
        }
    }
}

impl From<&ReloadError> for FailureCode {
    fn from(error: &ReloadError) -> Self {
        match error {
            ReloadError::Rules(_) => Self::Rules,
            ReloadError::Launcher(_) | ReloadError::Keep(_) => Self::Failed,
            ReloadError::Ledger(_) => Self::Ledger,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureCode, Operation};

    #[test]
    fn a_word_is_the_same_both_ways() {
        for operation in Operation::ALL {
            assert_eq!(Operation::parse(operation.as_str()), Some(operation));
        }
        for code in FailureCode::ALL {
            assert_eq!(FailureCode::parse(code.as_str()), code);
        }
        assert_eq!(FailureCode::parse("of a later version"), FailureCode::Failed);
    }
}
