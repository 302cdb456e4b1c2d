//! Why an answer does not count.

use crate::gate::mint::granted::Refused;
use crate::gate::requested::State;
use crate::ledger::{AppendError, ReadError};
use crate::types::ApprovalId;

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// No approval request has this id.
    #[error("no such approval")]
    Unknown,
    /// A key that may run can answer nothing, whatever the policies say.
    #[error("only a key that may approve and may not run, or the admin socket, can answer")]
    MayRun,
    /// The policies do not let this credential answer.
    #[error(transparent)]
    MayNot(Box<Refused>),
    /// The answer comes from the requester.
    #[error("the requester cannot approve: another user in the group must")]
    OwnRequest,
    /// The answer comes from a user outside this group.
    #[error("only a user in the group `{0}` can answer")]
    NotInGroup(String),
    /// The request has expired.
    #[error("the approval has expired and the call was refused: request the call again")]
    Expired,
    /// It already has an answer, or no longer needs one.
    #[error("the approval is already {}", .0.as_str())]
    Answered(State),
    /// The answer names another card or call than the request.
    #[error("`card` or `call_hash` belongs to another call: read the approval again, then answer")]
    WrongCall,
    /// Policy or tools have changed since the request: the call is decided again.
    #[error("policies or tools have changed since: the call is decided again")]
    Changed,
    /// An invalid value: its name and the reason.
    #[error("`{0}`: {1}")]
    Invalid(&'static str, String),
    /// Its row in state.db differs from the one that the ledger leads to.
    #[error(
        "state.db: approval `{0}` does not match its ledger entries: stop the server and delete state.db, which is then rebuilt \
         from the ledger"
    )]
    Mismatch(ApprovalId),
    /// The ledger cannot be written: the answer does not count.
    #[error(transparent)]
    Ledger(AppendError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(ReadError),
}

impl<E: Into<ReadError>> From<E> for AnswerError {
    fn from(error: E) -> Self {
        Self::Read(error.into())
    }
}
