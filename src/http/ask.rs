//! `par.sock`: users of this host ask without a key. The kernel reports who connects, and
//! `[auth.os_users]` says as whom.
//!
//! The socket speaks the same HTTP as the network, with the routes that ask and no other: nothing
//! here answers an approval, manages keys or reloads rules.

use super::app::App;
use super::host_socket::UserSocket;
use super::middleware::{self, Alive, RequestOrigin, SocketPeer};
use super::problem::{Code, Problem};
use super::routes::asking;
use super::server::{ACCEPT_PAUSE, builder, raised};
use crate::auth::{AskDoor, OsUsers};
use crate::types::{Shares, limits};
use axum::Router;
use axum::http::Request;
use axum::response::IntoResponse as _;
use axum::routing::any;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

/// Returns the path of the socket in `folder`.
#[must_use]
pub fn socket_path(folder: &Path) -> PathBuf {
    folder.join("par.sock")
}

/// The asking socket of a running server. Its file is removed when the server stops.
#[derive(Debug)]
pub struct AskSocket {
    socket: UserSocket,
    door: AskDoor,
}

impl AskSocket {
    /// Creates the socket in `data`, replacing that of an earlier start, and takes over `passed`.
    pub fn open(
        data: &Path,
        users: OsUsers,
        passed: Vec<std::os::unix::net::UnixListener>,
    ) -> io::Result<Self> {
        let door = AskDoor::open(data, users)?;
        Ok(Self { socket: UserSocket::open(socket_path(data), passed)?, door })
    }

    /// Serves until `shutdown` is ready, then removes the socket and lets open requests finish, as
    /// the server of the network does.
    pub async fn serve(self, app: App, shutdown: impl Future<Output = ()>) {
        let (stop, stopping) = watch::channel(false);
        let (alive, mut all_ended) = mpsc::channel(1);
        tokio::select! {
            () = shutdown => {}
            () = accept(&self.socket, &self.door, &app, &stopping, alive) => {}
        }
        self.socket.remove();
        // The receivers are gone only if every connection is.
        let _ = stop.send(true);
        if tokio::time::timeout(app.bounds.stop_max, all_ended.recv()).await.is_err() {
            tracing::warn!("stopped with requests of `par.sock` still open: the time for stopping is over");
        }
    }
}

/// Accepts connections forever.
async fn accept(
    socket: &UserSocket,
    door: &AskDoor,
    app: &App,
    stopping: &watch::Receiver<bool>,
    alive: Alive,
) {
    let routes = asking(app.clone());
    let shares = Shares::new(limits::ASK_CONNECTIONS_MAX, limits::USER_ASK_CONNECTIONS_MAX);
    loop {
        match socket.accept().await {
            Ok(stream) => {
                let user = door.enter(&stream).ok().map(SocketPeer);
                let holder = user.as_ref().map_or_else(|| "unknown".to_owned(), |user| user.0.id());
                let Ok(share) = shares.try_take(&holder) else {
                    tracing::warn!(
                        user = holder,
                        "a connection to `par.sock` was closed: there are too many"
                    );
                    continue;
                };
                let routes = if user.is_some() { routes.clone() } else { refusing() };
                let (app, stopping, alive) = (app.clone(), stopping.clone(), alive.clone());
                tokio::spawn(async move {
                    connection(stream, user, app, routes, stopping, alive).await;
                    drop(share);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to `par.sock` was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The routes for a user whom the configuration does not name.
fn refusing() -> Router {
    let refuse = || async {
        let why = "this user of the host may not ask: add it to `[auth.os_users]` in par.toml and restart the \
                   server, or use an API key";
        Problem::new(Code::Forbidden, why).into_response()
    };
    Router::new().fallback(any(refuse))
}

async fn connection(
    stream: UnixStream,
    user: Option<SocketPeer>,
    app: App,
    routes: Router,
    stopping: watch::Receiver<bool>,
    alive: Alive,
) {
    let http = builder(&app.bounds);
    let service = service_fn(|request: Request<Incoming>| {
        let origin = RequestOrigin::Host(user.clone());
        middleware::answer(app.clone(), routes.clone(), origin, request, alive.clone())
    });
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = raised(stopping) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection to `par.sock` ended early");
    }
}
