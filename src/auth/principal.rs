//! The only place that makes principals: the fields are private to this file, and each constructor
//! here requires the evidence for one.

use super::os_users::{KnownUser, OsUsers};
use super::record::{Created, state_row};
use super::refused::Refusal;
use super::revoked::Revoked;
use super::subject::{Role, Source, Subject};
use crate::ledger::{Kind, Ledger};
use crate::types::Ceiling;
use crate::types::clock::Wall;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use tokio::net::unix::UCred;

/// The requester, as far as the credential proves it. Constructed only in this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    subject: Subject,
    /// When the key expires, in microseconds since 1970.
    expires_us: Option<u64>,
    /// The only tools that its runs may use.
    ceiling: Arc<Ceiling>,
}

impl Principal {
    /// The principal of the key `created`, if the key is valid now: its row matches its entry,
    /// neither row nor ledger revokes it, and it has not expired. Blocking.
    ///
    /// The authority knows whether the caller has presented the key's secret, or was recorded under
    /// the key before.
    pub(super) fn from_key(created: &Created, ledger: &Ledger, revoked: &Revoked) -> Result<Self, Refusal> {
        let row = ledger.state(|state| state_row(state, &created.id)).map_err(Refusal::unreadable)?;
        let row = row.filter(|row| row.cells == created.cells()).ok_or(Refusal::Mismatch)?;
        let is_revoked = revoked.contains(ledger.reader(), created.seq).map_err(Refusal::unreadable)?;
        match row.revoked_seq {
            Some(seq) if is_revoked && revokes(ledger, seq, created)? => return Err(Refusal::Revoked),
            None if !is_revoked => {}
            Some(_) | None => return Err(Refusal::Mismatch),
        }
        if created.expires_us.is_some_and(|end| Wall::now().0 >= end) {
            return Err(Refusal::Expired);
        }
        let Created { id, name, role, user, expires_us, tools, .. } = created.clone();
        let subject = Subject { source: Source::Key { id, name }, role, user };
        Ok(Self { subject, expires_us, ceiling: Arc::new(tools) })
    }

    /// The owner of the folder that `data` describes; in the role `role`, or else in the role that
    /// the configuration gives.
    pub(super) fn from_owner(data: &Metadata, users: &OsUsers, role: Option<Role>) -> Option<Self> {
        let known = users.find(data.uid(), name_of(data.uid()), data.uid())?;
        Some(Self::from_known(known, role))
    }

    /// The process at the other end of a socket, as the kernel reports it, if the configuration
    /// knows its user. `owner` owns `data/`. Also returns what the configuration says of the user.
    pub(super) fn from_peer(
        peer: &UCred,
        users: &OsUsers,
        owner: u32,
        role: Option<Role>,
    ) -> Option<(Self, KnownUser)> {
        let known = users.find(peer.uid(), name_of(peer.uid()), owner)?;
        Some((Self::from_known(known.clone(), role), known))
    }

    /// The user of this host that an entry names as `os:NAME`, if the configuration still knows it.
    /// `owner` owns `data/`.
    pub(super) fn from_entry(name: &str, users: &OsUsers, owner: u32, role: Option<Role>) -> Option<Self> {
        let uid = uid_of(name)?;
        Some(Self::from_known(users.find(uid, name.to_owned(), owner)?, role))
    }

    fn from_known(known: KnownUser, role: Option<Role>) -> Self {
        let KnownUser { name, user, role: own, .. } = known;
        let subject = Subject { user: Some(user), source: Source::Os { name }, role: role.unwrap_or(own) };
        Self { subject, expires_us: None, ceiling: Arc::default() }
    }

    /// The same user of this host in the role of an approver. That role can run nothing.
    pub(super) fn as_approver(&self) -> Self {
        Self { subject: Subject { role: Role::Approver, ..self.subject.clone() }, ..self.clone() }
    }

    /// When the key expires, in microseconds since 1970; `None` if it does not expire.
    #[must_use]
    pub fn expires_us(&self) -> Option<u64> {
        self.expires_us
    }

    /// The only tools that its runs may use, by its key.
    #[must_use]
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// The principal as data.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The credential.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.subject.source
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.subject.role
    }

    /// The user of the credential, if it names one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.subject.user.as_deref()
    }

    /// The name on the ledger: `key:Ab3dEf9h` or `os:root`.
    #[must_use]
    pub fn id(&self) -> String {
        self.subject.id()
    }
}

/// Whether the entry `seq` revokes this key.
fn revokes(ledger: &Ledger, seq: u64, created: &Created) -> Result<bool, Refusal> {
    let stored = ledger.reader().entry(seq).map_err(Refusal::unreadable)?;
    Ok(stored.is_some_and(|stored| {
        stored.header.is(Kind::KeyRevoke) && stored.header.u64("ref") == Some(created.seq)
    }))
}

/// The uid of the user that [`name_of`] calls `name`.
fn uid_of(name: &str) -> Option<u32> {
    let user = nix::unistd::User::from_name(name).ok().flatten();
    let uid = user.map(|user| user.uid.as_raw()).or_else(|| name.parse().ok())?;
    (name_of(uid) == name).then_some(uid)
}

/// The name of a user, or the uid if the host knows no name.
fn name_of(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}
