//! Messages to the service manager (sd_notify(3)). Without a service manager nothing is sent.

use crate::agent::Agent;
use crate::cli::exit::Fail;
use crate::config::{notify_socket, watchdog_us};
use crate::ledger::AppendError;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The connection to the service manager.
#[derive(Debug)]
pub(super) struct Notify {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Connects if the environment names a socket. To be called before the front locks itself,
    /// because it can reach no abstract socket after that.
    pub(super) fn open() -> Result<Self, Fail> {
        let Some(name) = notify_socket() else { return Ok(Self { socket: None, watchdog: None }) };
        let socket = connect(&name).map_err(|e| Fail::failed(format!("NOTIFY_SOCKET: {e}")))?;
        Ok(Self { socket: Some(socket), watchdog: watchdog_us().map(Duration::from_micros) })
    }

    /// Requests are answered from here on.
    pub(super) fn ready(&self, url: &str) {
        self.send(&format!("READY=1\nSTATUS=listening on {url}"));
    }

    /// No more requests are accepted.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// Sends a watchdog message at the required interval while the ledger's writer and the launcher
    /// answer.
    pub(super) async fn watch(&self, agent: &Agent) -> Infallible {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        // Three times per interval, so that one message may be late.
        let every = watchdog / 3;
        loop {
            match tokio::time::timeout(every, signs(agent)).await {
                Ok(Ok(())) => self.send("WATCHDOG=1"),
                Ok(Err(why)) => tracing::error!(why = why.to_string(), "no watchdog message was sent"),
                Err(_) => {
                    tracing::error!(
                        why = "neither answer nor refusal in time",
                        "no watchdog message was sent"
                    )
                }
            }
            tokio::time::sleep(every).await;
        }
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(e) = socket.send(message.as_bytes()) {
            tracing::warn!(error = %e, "the service manager did not receive the message");
        }
    }
}

/// Why no watchdog message is sent.
#[derive(Debug, thiserror::Error)]
enum NoSign {
    #[error("the ledger: {0}")]
    Ledger(#[from] AppendError),
    #[error("{0}")]
    Launcher(&'static str),
}

async fn signs(agent: &Agent) -> Result<(), NoSign> {
    agent.ledger().ping().await?;
    agent.launcher().obstacle().map_or(Ok(()), |what| Err(NoSign::Launcher(what)))
}

/// Connects to a path, or to the abstract socket whose name follows an `@`.
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
