//! The HTTP surface and the admin socket.
//!
//! # Layout
//!
//! `server` accepts connections; `places` says which of them ends when there are too many; `frame` is around every request (id, host, panics, headers);
//! `problem` is every error; `caller` who asks; `body` reads JSON; `stream` is what streams of events are
//! made of. Then one file per group of endpoints: `run`, `approval`, `approvals`, `tools`, `audit`, `export`,
//! `evidence`, `health`, `metrics`. `ui` is the dashboard. `admin` is
//! the socket for the host's own users.
//!
//! Architecture invariants: only this room knows status codes; a principal comes out of a request only
//! together with the power that it is to use (`caller::Caller`).

pub mod admin;
mod approval;
mod approvals;
mod audit;
mod body;
mod caller;
mod evidence;
mod export;
mod follow;
mod frame;
mod health;
mod metrics;
mod places;
mod problem;
mod run;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod tools;
mod ui;

pub use export::Exports;
pub use health::Ready;
pub use metrics::Answered;
pub use server::serve;

use crate::agent::Agent;
use crate::auth::Authority;
use crate::ledger::{Anchor, Filter, Found, Index, Order, ReadError};
use crate::types::limits;
use axum::routing::{get, post};
use axum::{Extension, Router};
use problem::Problem;
use std::sync::Arc;
use std::time::Duration;

/// What the endpoints answer from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// The agent.
    pub agent: Agent,
    /// Knows keys.
    pub authority: Authority,
    /// Whether runs are taken.
    pub ready: Ready,
    /// Host names that requests may carry, beside the loopback's and the address that was connected to.
    pub hosts: Arc<[String]>,
    /// Tells the ledger's checkpoints to a place outside.
    pub anchor: Anchor,
    /// What queries look into; without it they read the ledger.
    pub index: Option<Arc<Index>>,
    /// Bounds those under way.
    pub exports: Exports,
    /// Counts the answers.
    pub answered: Answered,
    /// Bounds of requests and connections.
    pub bounds: Bounds,
}

impl App {
    /// A page of the headers that match. Blocking.
    fn headers(&self, filter: &Filter, from: u64, order: Order, limit: usize) -> Result<Found, ReadError> {
        let scan_max = limits::PAGE_SCAN_MAX;
        if let Some(index) = &self.index {
            return index.headers(filter, from, order, limit, scan_max);
        }
        let (headers, next) = self.agent.ledger().reader().headers(filter, from, order, limit, scan_max)?;
        Ok(Found { headers, next, index: None })
    }
}

/// Bounds of requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open connections; for those beyond others end that wait for their clients.
    pub connections_max: usize,
    /// Request line and headers, in bytes.
    pub header_bytes_max: usize,
    /// To receive them; also how long a connection may be idle.
    pub header_read_max: Duration,
    /// A request body, in bytes.
    pub request_bytes_max: usize,
    /// To receive it.
    pub body_read_max: Duration,
    /// To receive one without a valid key.
    pub body_unproven_read_max: Duration,
    /// For open requests to end at a stop.
    pub stop_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: limits::CONNECTIONS_MAX,
            header_bytes_max: limits::HEADER_BYTES_MAX,
            header_read_max: Duration::from_millis(limits::HEADER_READ_MS_MAX),
            request_bytes_max: limits::REQUEST_BYTES_MAX,
            body_read_max: Duration::from_millis(limits::BODY_READ_MS_MAX),
            body_unproven_read_max: Duration::from_millis(limits::BODY_UNPROVEN_READ_MS_MAX),
            stop_max: Duration::from_millis(limits::STOP_MS_MAX),
        }
    }
}

/// Every route. Unknown ones and wrong methods become problems in `frame`.
fn routes(app: App) -> Router {
    let streams = stream::Streams::default();
    Router::new()
        .route("/agent/run", post(run::start))
        .route("/runs", get(run::list))
        .route("/runs/{id}", get(run::show))
        .route("/approvals", get(approvals::list).layer(Extension(streams.clone())))
        .route("/approvals/{id}", get(approval::show).post(approval::answer))
        .route("/tools", get(tools::list))
        .route("/audit", get(audit::list).layer(Extension(streams.clone())))
        .route("/audit/entries", get(audit::list).layer(Extension(streams.clone())))
        .route("/audit/export", get(export::tell))
        .route("/audit/entries/{seq}", get(audit::show))
        .route("/audit/key", get(evidence::key))
        .route("/audit/checkpoint", get(evidence::checkpoint))
        .route("/audit/consistency", get(evidence::consistency))
        .route("/audit/proof", get(evidence::proof))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/health", get(health::show))
        .route("/metrics", get(metrics::show))
        .with_state(app.clone())
        .merge(ui::routes(app, streams))
}

/// Reads from the disk, aside from the threads that serve.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(read).await.map_err(Problem::internal)?
}
