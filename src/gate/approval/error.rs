//! Why an answer does not count.

use crate::gate::mint::granted::Refused;
use crate::gate::requested::State;
use crate::ledger::{AppendError, ReadError};
use crate::types::ApprovalId;

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// There is no such question.
    #[error("there is no such approval")]
    Unknown,
    /// A key that may run answers nothing, whatever the policies say.
    #[error("only a key that may approve and may not run, or the admin socket, can answer")]
    MayRun,
    /// The policies do not let this credential answer.
    #[error(transparent)]
    MayNot(Box<Refused>),
    /// The answerer is who asked.
    #[error("the requester cannot approve: another user of the group must")]
    OwnRequest,
    /// The answerer is not in this group.
    #[error("this needs a user of the group `{0}`")]
    NotInGroup(String),
    /// Its time is over.
    #[error("it expired and is refused: ask again")]
    Expired,
    /// It was answered already, or needs no answer any more.
    #[error("it is already {}", .0.as_str())]
    Answered(State),
    /// The answer is to another call than the one that was asked about.
    #[error("`call_hash` belongs to another call: read the approval again")]
    WrongCall,
    /// Policy or tools are not those that asked: the call is decided anew.
    #[error("policy or tools have changed since: the call is decided and asked again")]
    Changed,
    /// A value does not fit: its name and the reason.
    #[error("`{0}`: {1}")]
    Unfit(&'static str, String),
    /// Its row in state.db is not the one that the ledger makes.
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
