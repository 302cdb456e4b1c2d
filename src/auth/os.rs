//! Users of this host, as the kernel names them: of this process, or behind the admin socket.

use super::principal::{Principal, Role};
use super::refused::Refusal;
use crate::types::digest::hex;
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq as _;
use tokio::net::UnixStream;
use zeroize::Zeroizing;

/// Why a process may not act by itself.
#[derive(Debug)]
pub enum NotOwner {
    /// The folder belongs to another uid.
    Owner(PathBuf, u32),
    /// It cannot be looked at.
    File(PathBuf, io::Error),
}

impl fmt::Display for NotOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(path, uid) => write!(f, "{}: belongs to uid {uid}, not to you", path.display()),
            Self::File(path, e) => write!(f, "{}: {e}", path.display()),
        }
    }
}

impl std::error::Error for NotOwner {}

/// The principal of a command without a server, with the role that the configuration gives: the user
/// of this process, who must own `data`.
pub fn local(data: &Path, role: Role) -> Result<Principal, NotOwner> {
    let owner = std::fs::metadata(data).map_err(|e| NotOwner::File(data.to_owned(), e))?.uid();
    let uid = rustix::process::geteuid().as_raw();
    if uid != owner {
        return Err(NotOwner::Owner(data.to_owned(), owner));
    }
    Ok(Principal::of_os_user(name_of(uid), role))
}

/// The owner of `data`: who a command without a server was run by, however long ago.
pub(super) fn owner(data: &Path, role: Role) -> io::Result<Principal> {
    Ok(Principal::of_os_user(name_of(std::fs::metadata(data)?.uid()), role))
}

/// Who may come in by the admin socket: uid 0 and the owner of `data/`, with the token of this start.
pub struct AdminDoor {
    owner: u32,
    token: Zeroizing<String>,
}

impl AdminDoor {
    /// Writes a fresh token to `data/admin.token`, mode 0600, in place of the one of an earlier start.
    pub fn open(data: &Path) -> io::Result<Self> {
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
        Ok(Self { owner: std::fs::metadata(data)?.uid(), token })
    }

    /// Where the token of the running server stands.
    #[must_use]
    pub fn token_path(data: &Path) -> PathBuf {
        data.join("admin.token")
    }

    /// Lets the peer of `stream` in as `admin`: by its uid, which the kernel tells, and the token.
    pub fn enter(&self, stream: &UnixStream, token: &str) -> Result<Principal, Refusal> {
        let uid = stream.peer_cred().map_err(|_| Refusal::Unreadable)?.uid();
        let is_token = token.as_bytes().ct_eq(self.token.as_bytes());
        if (uid != 0 && uid != self.owner) || !bool::from(is_token) {
            return Err(Refusal::Wrong);
        }
        Ok(Principal::of_os_user(name_of(uid), Role::Admin))
    }
}

impl fmt::Debug for AdminDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminDoor(owner {})", self.owner)
    }
}

/// The name of a user, or its number where the host knows none.
fn name_of(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}
