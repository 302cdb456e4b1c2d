//! Why an answer does not count.

use crate::gate::mint::granted::Refused;
use crate::gate::requested::State;
use crate::ledger::{AppendError, ReadError};
use crate::types::ApprovalId;
use serde_json::json;
use std::fmt;

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
    #[error("{0}")]
    NotInGroup(NotMember),
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

/// A group that the user who answered is not in, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotMember {
    /// The group.
    pub group: String,
    /// The user, if the credential names one.
    pub user: Option<String>,
    /// Whether the group has other members. An answer does not say who they are.
    pub has_members: bool,
}

impl fmt::Display for NotMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, user, has_members } = self;
        write!(f, "only a user in the group `{group}` can answer")?;
        let Some(user) = user else {
            return f.write_str(
                ", and this key names no user: `par key create NAME --role approver --user USER` makes one that does",
            );
        };
        // A JSON string is a TOML string too.
        let (group, user) = (key(group), json!(user));
        if *has_members {
            write!(f, "; to add {user}, put it into the list `{group}` below `[groups]` in par.toml")?;
        } else {
            write!(f, "; to add {user}, write in par.toml\n\n    [groups]\n    {group} = [{user}]\n\n")?;
        }
        let start = if *has_members { ", " } else { "" };
        write!(f, "{start}then run `par reload`: PAR asks about the call again, under another id")
    }
}

/// A key of TOML, quoted if it is not a bare one.
fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { json!(name).to_string() }
}

impl<E: Into<ReadError>> From<E> for AnswerError {
    fn from(error: E) -> Self {
        Self::Read(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::NotMember;

    /// B1: who may not answer reads the lines that would allow it.
    #[test]
    fn a_missing_membership_says_how_to_add_it() {
        let check = |group: &str, user: Option<&str>, has_members: bool, expect: &str| {
            let told = NotMember { group: group.to_owned(), user: user.map(str::to_owned), has_members };
            assert_eq!(told.to_string(), expect);
        };
        check(
            "release",
            Some("os:root"),
            false,
            "only a user in the group `release` can answer; to add \"os:root\", write in par.toml\n\n    \
             [groups]\n    release = [\"os:root\"]\n\nthen run `par reload`: PAR asks about the call again, \
             under another id",
        );
        check(
            "night shift",
            Some("ana"),
            true,
            "only a user in the group `night shift` can answer; to add \"ana\", put it into the list `\"night \
             shift\"` below `[groups]` in par.toml, then run `par reload`: PAR asks about the call again, under \
             another id",
        );
        check(
            "release",
            None,
            false,
            "only a user in the group `release` can answer, and this key names no user: `par key create NAME \
             --role approver --user USER` makes one that does",
        );
    }
}
