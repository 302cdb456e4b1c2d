//! Connections of a permitted call: made before a builtin starts, or by a program through a proxy.

use crate::agent::front::{self, FrontAsker};
use crate::call::{Connection, Connections, End, Execution};
use crate::egress::proxy::{self, ProxyRules};
use crate::egress::{self, ConnectError, Connected};
use crate::gate::{Connecting, Order};
use crate::ledger::AppendError;
use crate::sandbox::Launcher;
use crate::tools::Runner;
use crate::types::{HostPort, limits};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Runs a permitted call to its end, with the connections that its permit lists.
pub(super) async fn run(launcher: Launcher, asker: FrontAsker, order: Order) -> Execution {
    if let Some(which) = order.manifest().front() {
        return front::run(asker, which, order).await;
    }
    let Some(connecting) = order.connecting().cloned() else { return launcher.run(order, None).await };
    match order.manifest().runner {
        Runner::Builtin(_) | Runner::Front(_) => connected(&launcher, order, &connecting).await,
        Runner::Program(_) => proxied(&launcher, order, connecting).await,
    }
}

/// A builtin works with one host and receives an open connection to it.
async fn connected(launcher: &Launcher, order: Order, connecting: &Connecting) -> Execution {
    let Some(to) = connecting.hosts().first() else { return launcher.run(order, None).await };
    let mut connection = Connection { to: to.as_str().to_owned(), ..Connection::default() };
    let mut execution = match open(to, &order, connecting).await {
        Ok((socket, address)) => {
            connection.address = Some(address);
            launcher.run(order, Some(socket)).await
        }
        Err(reason) => {
            connection.refused = Some(reason.to_string());
            Execution::without_output(End::Refused { reason: format!("no connection to `{to}`: {reason}") })
        }
    };
    // Only the child sees what passes over the connection.
    execution.connections = Connections { told: vec![connection], ..Connections::default() };
    execution
}

/// Why a builtin has no connection.
#[derive(Debug, thiserror::Error)]
enum NoConnection {
    #[error("it has no address")]
    NoAddress,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The attempt was not recorded and therefore not made.
    #[error(transparent)]
    Record(#[from] AppendError),
    #[error(transparent)]
    Socket(#[from] std::io::Error),
}

async fn open(
    to: &HostPort,
    order: &Order,
    connecting: &Connecting,
) -> Result<(OwnedFd, SocketAddr), NoConnection> {
    let until = Instant::now() + Duration::from_millis(limits::CONNECT_MS_MAX);
    let left = || until.saturating_duration_since(Instant::now());
    let named = &order.manifest().reach.named;
    let checked = egress::resolve(to, named, left()).await?;
    let mut last = NoConnection::NoAddress;
    for one in checked.each() {
        for address in one.addresses() {
            // Recorded before the attempt: whatever its outcome, others may have observed it.
            connecting.record(to, *address).await?;
        }
        match one.connect(left()).await {
            Ok(Connected { stream, address }) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                return Ok((stream.into(), address));
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// A program connects to the hosts of its permit through the proxy, for as long as it runs.
async fn proxied(launcher: &Launcher, order: Order, connecting: Connecting) -> Execution {
    let listener = launcher.listener(&order).map(|fd| listen(fd.into()));
    let listener = match listener {
        Some(Ok(listener)) => listener,
        Some(Err(e)) => return refused(&e.to_string()),
        None => return refused("its child has no network namespace"),
    };
    let manifest = order.manifest();
    let allowed = ProxyRules {
        hosts: connecting.hosts().to_vec(),
        named: manifest.reach.named.clone(),
        bytes_max: manifest.limits.network_bytes_max,
        connections_max: limits::PROXY_CONNECTIONS_MAX,
    };
    let (stop, stopped) = oneshot::channel::<()>();
    // If this future is dropped, `stop` is dropped with it and the proxy ends.
    let proxy =
        tokio::spawn(proxy::serve(listener, allowed, OnRecord(connecting), async { drop(stopped.await) }));
    let mut execution = launcher.run(order, None).await;
    drop(stop);
    execution.connections = proxy.await.unwrap_or_default();
    execution
}

fn listen(listener: std::net::TcpListener) -> std::io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn refused(why: &str) -> Execution {
    Execution::without_output(End::Refused { reason: format!("the proxy: {why}") })
}

struct OnRecord(Connecting);

impl proxy::Record for OnRecord {
    type Error = AppendError;

    async fn record(&self, to: &HostPort, address: SocketAddr) -> Result<(), AppendError> {
        self.0.record(to, address).await
    }
}
