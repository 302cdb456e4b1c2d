//! Every path of the dashboard and its handler.

use super::state::Ui;
use super::{approvals, assets, audit, entry, halts, headers, health, home, live, login, run, runs, tools};
use crate::http::app::App;
use crate::http::problem::{Code, Problem};
use crate::http::stream::Streams;
use crate::types::limits;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::{any, get, post};
use std::sync::Arc;

/// Every route of the dashboard. Logins live as long as the state created here.
pub(in crate::http) fn routes(app: App, streams: Streams) -> Router {
    let ui = Ui { app, logins: Arc::default(), streams };
    Router::new()
        .route("/", get(front))
        .route("/ui", get(front))
        .route("/ui/", get(home::show))
        .route("/ui/login", get(login::form).post(login::open))
        .route("/ui/logout", post(login::close))
        .route("/ui/runs", get(runs::show))
        .route("/ui/runs/{id}", get(run::show))
        .route("/ui/audit", get(audit::show))
        .route("/ui/export", get(audit::export))
        .route("/ui/audit/{seq}", get(entry::show))
        .route("/ui/runs/{id}/cancel", post(halts::cancel))
        .route("/ui/halts", get(halts::show).post(halts::set))
        .route("/ui/halts/lift", post(halts::lift))
        .route("/ui/approvals", get(approvals::list))
        .route("/ui/approvals/{id}", get(approvals::show).post(approvals::answer))
        .route("/ui/approvals/{id}/run", get(run::asked))
        .route("/ui/events", get(live::stream))
        .route("/ui/tools", get(tools::show))
        .route("/ui/health", get(health::show))
        .route("/ui/par.css", get(assets::style))
        .route("/ui/par.js", get(assets::script))
        .route("/ui/{*rest}", any(nothing))
        .route_layer(DefaultBodyLimit::max(limits::FORM_BYTES_MAX))
        .route_layer(from_fn_with_state(ui.clone(), headers::wrap))
        .with_state(ui)
}

async fn front() -> Redirect {
    Redirect::temporary("/ui/")
}

async fn nothing() -> Problem {
    Problem::new(Code::NotFound, "this page does not exist")
}
