//! Why an answer does not count.

use crate::gate::mint::granted::Refused;
use crate::gate::requested::State;
use crate::gate::stops::StopInForce;
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
    #[error("{0}")]
    OwnRequest(OtherNeeded),
    /// The answer comes from a user outside this group.
    #[error("{0}")]
    NotInGroup(NotMember),
    /// The request has expired.
    #[error("the approval has expired and the call was refused: request the call again")]
    Expired,
    /// It already has an answer, or no longer needs one.
    #[error("the approval is already {}", .0.as_str())]
    Answered(State),
    /// A person halted what the call belongs to.
    #[error("{0}: the question stays open until the halt is lifted")]
    Halted(Box<StopInForce>),
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

/// The groups that another user than the requester must answer from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherNeeded {
    /// Each group that must approve.
    pub groups: Vec<OtherMember>,
    /// The requester, if the credential names a user.
    pub user: Option<String>,
}

/// A group that must approve, seen by the requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherMember {
    /// The group.
    pub group: String,
    /// Whether it has a member other than the requester.
    pub exists: bool,
    /// Whether the requester is a member.
    pub is_own: bool,
}

impl fmt::Display for OtherNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.groups.iter().map(|one| format!("`{}`", one.group)).collect();
        let kind = if named.len() == 1 { "the group" } else { "each of the groups" };
        write!(f, "the requester cannot approve: another user in {kind} {} must", named.join(" and "))?;
        let empty: Vec<&OtherMember> = self.groups.iter().filter(|one| !one.exists).collect();
        if empty.is_empty() {
            return Ok(());
        }
        let which: Vec<String> = empty.iter().map(|one| format!("`{}`", one.group)).collect();
        let has = if which.len() == 1 { "has" } else { "have" };
        let no = if empty.iter().any(|one| one.is_own) { "no other member" } else { "no member" };
        write!(f, ", and {} {has} {no}: write in par.toml\n\n    [groups]\n", which.join(" and "))?;
        for one in empty {
            let own = self.user.as_ref().filter(|_| one.is_own).map(|user| format!("{}, ", json!(user)));
            writeln!(f, "    {} = [{}\"USER\"]", key(&one.group), own.unwrap_or_default())?;
        }
        f.write_str(
            "\nwith another person as USER: the user that a key names (`par key create NAME --role approver \
             --user USER`), or `os:NAME` for a user of this host. Then run `par reload`: PAR asks about the call \
             again, under another id",
        )
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
    use super::{NotMember, OtherMember, OtherNeeded};

    /// The requester learns which group must approve, and how someone else gets into an empty one.
    #[test]
    fn a_requester_reads_which_group_is_missing_a_member() {
        let check = |groups: &[(&str, bool, bool)], expect: &str| {
            let groups = groups.iter().map(|(group, exists, is_own)| OtherMember {
                group: (*group).to_owned(),
                exists: *exists,
                is_own: *is_own,
            });
            let told = OtherNeeded { groups: groups.collect(), user: Some("os:root".to_owned()) };
            let told = told.to_string();
            assert!(told.starts_with(expect), "{told}");
            assert_eq!(told.ends_with(" must"), expect.ends_with(" must"), "{told}");
        };
        check(
            &[("release", true, true)],
            "the requester cannot approve: another user in the group `release` must",
        );
        check(
            &[("release", false, false)],
            "the requester cannot approve: another user in the group `release` must, and `release` has no member: \
             write in par.toml\n\n    [groups]\n    release = [\"USER\"]\n\nwith another person as USER: ",
        );
        check(
            &[("release", false, true), ("night shift", false, false)],
            "the requester cannot approve: another user in each of the groups `release` and `night shift` must, \
             and `release` and `night shift` have no other member: write in par.toml\n\n    [groups]\n    \
             release = [\"os:root\", \"USER\"]\n    \"night shift\" = [\"USER\"]\n\nwith another",
        );
    }

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
