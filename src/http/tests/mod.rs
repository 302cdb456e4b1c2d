//! The real server on its own port, over a real ledger.

mod admin;
mod client;
mod doors;
mod halts;
mod keys;
mod own;
mod reading;
mod requests;
mod serving;
mod ui;

use self::client::{RawResponse, exchange};
use super::routes::routes;
use super::{Answered, App, Bounds, Ready, server};
use crate::agent::{self, Agent};
use crate::auth::fixture::Fixture;
use crate::auth::{self, LoginLinks, Role};
use crate::gate;
use crate::ledger::Projection;
use axum::Router;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

static PROJECTIONS: [Projection; 3] = [auth::PROJECTION, gate::PROJECTION, agent::PROJECTION];

/// A running server.
struct TestApp {
    home: Fixture,
    app: App,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl TestApp {
    async fn start() -> Self {
        Self::start_with(Bounds::default(), |router| router).await
    }

    /// A server whose state.db has every table filled from the ledger.
    async fn start_whole() -> Self {
        Self::start_on(Fixture::open_with(&PROJECTIONS).await, Bounds::default(), |router| router).await
    }

    async fn start_with(bounds: Bounds, add: impl FnOnce(Router) -> Router) -> Self {
        Self::start_on(Fixture::open().await, bounds, add).await
    }

    async fn start_on(home: Fixture, bounds: Bounds, add: impl FnOnce(Router) -> Router) -> Self {
        let app = App {
            agent: Agent::without_sandbox(home.ledger.clone()),
            authority: home.authority.clone(),
            ready: Ready::starting(),
            hosts: ["par.example".to_owned()].into(),
            index: None,
            exports: crate::http::Exports::default(),
            anchor: crate::ledger::Anchor::none(),
            links: LoginLinks::empty().expect("links"),
            answered: Answered::default(),
            bounds,
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("port");
        let address = listener.local_addr().expect("address");
        let (stop, stopped) = oneshot::channel::<()>();
        let (router, serving) = (add(routes(app.clone())), app.clone());
        let served = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            server::serve_routes(listener, router, serving, shutdown).await
        });
        Self { home, app, address, stop, served }
    }

    async fn key(&self, role: Role) -> String {
        self.home.key(role.as_str(), role).await.0.expose().to_owned()
    }

    /// Sends bytes unchanged and reads the whole response.
    async fn raw(&self, request: impl Into<Vec<u8>>) -> RawResponse {
        exchange(self.address, request.into()).await
    }

    /// Sends a request with the usual headers and `more` header lines.
    async fn send(&self, method: &str, path: &str, more: &str, body: &[u8]) -> RawResponse {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n",
            self.address,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.raw(request).await
    }

    async fn get(&self, path: &str, key: &str) -> RawResponse {
        self.send("GET", path, &bearer(key), b"").await
    }

    async fn run(&self, key: &str, body: &[u8]) -> RawResponse {
        let more = format!("{}Content-Type: application/json\r\n", bearer(key));
        self.send("POST", "/agent/run", &more, body).await
    }

    async fn stop(self) -> Fixture {
        self.stop.send(()).expect("running");
        let served = tokio::time::timeout(Duration::from_secs(20), self.served).await;
        served.expect("stops in time").expect("no panic").expect("served");
        self.home
    }
}

fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}
