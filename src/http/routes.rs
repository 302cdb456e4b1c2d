//! Every path of the API and its handler.

use super::api::{approval, approvals, audit, evidence, export, health, metrics, runs, sessions, tools};
use super::app::App;
use super::stream::Streams;
use super::ui;
use axum::routing::{get, post};
use axum::{Extension, Router};

/// The routes of `par.sock`: they ask, and none of them answers an approval, manages the server or
/// reads what others asked. The proofs let a caller check the ledger before it asks, and `/readyz`
/// says whether it is damaged.
pub(super) fn asking(app: App) -> Router {
    let streams = Streams::default();
    Router::new()
        .route("/agent/run", post(runs::start).layer(Extension(streams)))
        .route("/runs", get(runs::list))
        .route("/runs/{id}", get(runs::show))
        .route("/runs/{id}/cancel", post(runs::cancel))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{id}", get(sessions::show))
        .route("/sessions/{id}/end", post(sessions::end))
        .route("/tools", get(tools::list))
        .route("/tools/{name}", post(runs::call))
        .route("/audit/key", get(evidence::key))
        .route("/audit/checkpoint", get(evidence::checkpoint))
        .route("/audit/consistency", get(evidence::consistency))
        .route("/readyz", get(health::ready))
        .with_state(app)
}

/// Every route. Unknown paths and wrong methods become problems in `middleware`.
pub(super) fn routes(app: App) -> Router {
    let streams = Streams::default();
    Router::new()
        .route("/agent/run", post(runs::start).layer(Extension(streams.clone())))
        .route("/runs", get(runs::list))
        .route("/runs/{id}", get(runs::show))
        .route("/runs/{id}/cancel", post(runs::cancel))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{id}", get(sessions::show))
        .route("/sessions/{id}/end", post(sessions::end))
        .route("/approvals", get(approvals::list).layer(Extension(streams.clone())))
        .route("/approvals/{id}", get(approval::show).post(approval::answer))
        .route("/tools", get(tools::list))
        .route("/audit", get(audit::list).layer(Extension(streams.clone())))
        .route("/audit/entries", get(audit::list).layer(Extension(streams.clone())))
        .route("/audit/export", get(export::export))
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
