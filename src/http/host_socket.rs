//! A unix socket for users of this host: a file in `data/`, and any sockets that the service
//! manager passed, which users without access to `data/` can reach.

use std::future::poll_fn;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::task::Poll;
use tokio::net::{UnixListener, UnixStream};

/// The socket of a running server. Its file in `data/` is removed when the server stops.
#[derive(Debug)]
pub(super) struct UserSocket {
    listeners: Vec<UnixListener>,
    path: PathBuf,
}

impl UserSocket {
    /// Creates the socket `path` (mode 0600), replacing that of an earlier start, and takes over
    /// `passed`. The caller holds the ledger's lock, so no other server uses the path.
    pub(super) fn open(path: PathBuf, passed: Vec<std::os::unix::net::UnixListener>) -> io::Result<Self> {
        let fresh = path.with_extension("sock.new");
        match std::fs::remove_file(&fresh) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let own = UnixListener::bind(&fresh)?;
        // It gets its name only once no other user can connect to it.
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&fresh, &path)?;
        let mut listeners = vec![own];
        for listener in passed {
            listener.set_nonblocking(true)?;
            listeners.push(UnixListener::from_std(listener)?);
        }
        Ok(Self { listeners, path })
    }

    /// Accepts the next connection to any of the sockets.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        poll_fn(|context| {
            for listener in &self.listeners {
                if let Poll::Ready(accepted) = listener.poll_accept(context) {
                    return Poll::Ready(accepted.map(|(stream, _)| stream));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Removes the file in `data/`.
    pub(super) fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "a socket was not removed");
        }
    }
}
