//! Users of this host, as identified by the kernel: of this process, or of a peer on the admin
//! socket.

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
/// `data`, with the role that the configuration sets.
pub fn local(data: &Path, role: Role) -> Result<Principal, NotOwner> {
    let meta = std::fs::metadata(data).map_err(|e| NotOwner::File(data.to_owned(), e))?;
    if rustix::process::geteuid().as_raw() != meta.uid() {
        return Err(NotOwner::Owner(data.to_owned(), meta.uid()));
    }
    Ok(Principal::from_owner(&meta, role))
}

/// Admits to the admin socket: uid 0 and the owner of `data/`, with the token of this start.
pub struct AdminDoor {
    owner: u32,
    token: Zeroizing<String>,
}

impl AdminDoor {
    /// Writes a new token to `data/admin.token`, mode 0600, replacing that of an earlier start.
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

    /// The path of the running server's token.
    #[must_use]
    pub fn token_path(data: &Path) -> PathBuf {
        data.join("admin.token")
    }

    /// Admits the peer of `stream` as `admin`, by its uid, as the kernel reports it, and the token.
    pub fn enter(&self, stream: &UnixStream, token: &str) -> Result<Principal, Refusal> {
        let peer = stream.peer_cred().map_err(|_| Refusal::Unreadable)?;
        let is_token = token.as_bytes().ct_eq(self.token.as_bytes());
        if (peer.uid() != 0 && peer.uid() != self.owner) || !bool::from(is_token) {
            return Err(Refusal::Wrong);
        }
        Ok(Principal::from_peer(&peer, Role::Admin))
    }
}

impl fmt::Debug for AdminDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminDoor(owner {})", self.owner)
    }
}
