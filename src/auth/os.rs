//! The doors for users of this host, whom the kernel identifies: of this process, and of a peer on
//! the admin socket or on `par.sock`.

use super::os_users::OsUsers;
use super::principal::Principal;
use super::refused::Refusal;
use super::subject::Role;
use crate::types::digest::hex;
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq as _;
use tokio::net::UnixStream;
use zeroize::Zeroizing;

/// Why a command may not act without a server.
#[derive(Debug, thiserror::Error)]
pub enum NotOwner {
    /// The folder belongs to another uid.
    #[error("{folder}: belongs to uid {1}, expected the user who runs this command", folder = .0.display())]
    Owner(PathBuf, u32),
    /// Its metadata cannot be read.
    #[error("{folder}: {1}", folder = .0.display())]
    File(PathBuf, #[source] io::Error),
}

/// The principal of a command that runs without a server: the user of this process, who must own
/// `data`, in the role `role`.
pub fn local(data: &Path, role: Role) -> Result<Principal, NotOwner> {
    local_user(data, &OsUsers::owner_only(role), None)
}

/// Like [`local`], as the user and, without `role`, in the role that the configuration gives.
pub fn local_user(data: &Path, users: &OsUsers, role: Option<Role>) -> Result<Principal, NotOwner> {
    let meta = std::fs::metadata(data).map_err(|e| NotOwner::File(data.to_owned(), e))?;
    if rustix::process::geteuid().as_raw() != meta.uid() {
        return Err(NotOwner::Owner(data.to_owned(), meta.uid()));
    }
    let owner = Principal::from_owner(&meta, users, role);
    owner.ok_or_else(|| NotOwner::Owner(data.to_owned(), meta.uid()))
}

/// Admits to `par.sock`: root, the owner of `data/` and the users in `[auth.os_users]`.
#[derive(Clone, Debug)]
pub struct AskDoor {
    owner: u32,
    users: OsUsers,
}

impl AskDoor {
    /// The door of the server whose ledger is in `data`.
    pub fn open(data: &Path, users: OsUsers) -> io::Result<Self> {
        Ok(Self { owner: std::fs::metadata(data)?.uid(), users })
    }

    /// Admits the peer of `stream` by its uid, as the kernel reports it, in its configured role.
    pub fn enter(&self, stream: &UnixStream) -> Result<Principal, Refusal> {
        let peer = stream.peer_cred().map_err(|_| Refusal::Unreadable)?;
        let known = Principal::from_peer(&peer, &self.users, self.owner, None);
        known.map(|(principal, _)| principal).ok_or(Refusal::Unknown)
    }
}

/// A peer of the admin socket.
#[derive(Clone, Debug)]
pub enum Admitted {
    /// Root or the owner of `data/`, who presented the token: manages and answers.
    Manager(Principal),
    /// A user in `[auth.os_users]` with the role approver: answers.
    Approver(Principal),
    /// Any other user in `[auth.os_users]`: answers only where a group asks that the user is in.
    Member(Principal),
}

impl Admitted {
    /// The same person in the role of an approver, for a login that answers; `None` for a user who
    /// answers only for a group.
    #[must_use]
    pub fn answering(&self) -> Option<Principal> {
        match self {
            Self::Manager(principal) => Some(principal.as_approver()),
            Self::Approver(principal) => Some(principal.clone()),
            Self::Member(_) => None,
        }
    }
}

/// Admits to the admin socket: uid 0 and the owner of `data/` with the token of this start, and the
/// users in `[auth.os_users]`.
pub struct AdminDoor {
    owner: u32,
    token: Zeroizing<String>,
    users: OsUsers,
}

impl AdminDoor {
    /// Writes a new token to `data/admin.token`, mode 0600, replacing that of an earlier start.
    pub fn open(data: &Path, users: OsUsers) -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut()).map_err(io::Error::other)?;
        let token = Zeroizing::new(hex(bytes.as_ref()));
        let (path, fresh) = (Self::token_path(data), data.join("admin.token.new"));
        match std::fs::remove_file(&fresh) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(token.as_bytes())?;
        std::fs::rename(&fresh, path)?;
        Ok(Self { owner: std::fs::metadata(data)?.uid(), token, users })
    }

    /// The path of the running server's token.
    #[must_use]
    pub fn token_path(data: &Path) -> PathBuf {
        data.join("admin.token")
    }

    /// The uid of the peer of `stream`, and whether it is root or the owner of `data/`; `None` for
    /// a user whom the configuration does not know.
    #[must_use]
    pub fn knows(&self, stream: &UnixStream) -> Option<(u32, Option<bool>)> {
        let peer = stream.peer_cred().ok()?;
        let known = Principal::from_peer(&peer, &self.users, self.owner, None);
        Some((peer.uid(), known.map(|(_, known)| known.is_owner)))
    }

    /// Admits the peer of `stream` by its uid, as the kernel reports it. Root and the owner must
    /// present the token, because the tools of a server that an ordinary user starts have the
    /// owner's uid.
    pub fn enter(&self, stream: &UnixStream, token: &str) -> Result<Admitted, Refusal> {
        let peer = stream.peer_cred().map_err(|_| Refusal::Unreadable)?;
        let is_owner = peer.uid() == 0 || peer.uid() == self.owner;
        let role = if is_owner { Role::Admin } else { Role::Approver };
        let known = Principal::from_peer(&peer, &self.users, self.owner, Some(role));
        let (principal, known) = known.ok_or(Refusal::Wrong)?;
        let is_token = bool::from(token.as_bytes().ct_eq(self.token.as_bytes()));
        match known.role {
            _ if known.is_owner && is_token => Ok(Admitted::Manager(principal)),
            _ if known.is_owner => Err(Refusal::Wrong),
            Role::Approver => Ok(Admitted::Approver(principal)),
            Role::Viewer | Role::Operator | Role::Admin => Ok(Admitted::Member(principal)),
        }
    }
}

impl fmt::Debug for AdminDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminDoor(owner {})", self.owner)
    }
}
