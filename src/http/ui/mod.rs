//! The dashboard: pages made on the server, one stylesheet, one script, nothing from elsewhere.
//!
//! # Layout
//!
//! `login` opens a login and ends it; `logins` holds them, `cookie` names them, `origin` turns away
//! what another site sends, `visitor` is who looks. `page` is the frame of every page, `words` makes
//! text from outside safe and short, `row` is an entry in a table. Then one file per page; `tail` is the
//! stream behind the live one, `chain` the check behind the badge, `dress` the headers and the pages of
//! errors.
//!
//! Architecture invariants: model and tool text reaches a page only as text, through maud's escaping and
//! [`words`]; a page needs the same power as its endpoint of the API.

mod approvals;
mod assets;
mod audit;
mod chain;
mod cookie;
mod dress;
mod entry;
mod health;
mod login;
mod origin;
mod overview;
mod page;
mod row;
mod run;
mod runs;
mod logins;
mod tail;
mod timeline;
mod tools;
mod visitor;
mod window;
pub(super) mod words;

use super::App;
use super::problem::{Code, Problem};
use super::stream::Streams;
use crate::types::limits;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::response::Redirect;
use axum::routing::{any, get, post};
use std::sync::Arc;

/// What the pages answer from. Cheap to clone.
#[derive(Clone, Debug)]
struct Ui {
    app: App,
    logins: Arc<logins::Logins>,
    chain: Arc<chain::Chain>,
    streams: Streams,
}

/// Every route of the dashboard. Logins live as long as what is made here.
pub(super) fn routes(app: App, streams: Streams) -> Router {
    let ui = Ui { app, logins: Arc::default(), chain: Arc::default(), streams };
    Router::new()
        .route("/", get(front))
        .route("/ui", get(front))
        .route("/ui/", get(overview::show))
        .route("/ui/login", get(login::form).post(login::open))
        .route("/ui/logout", post(login::close))
        .route("/ui/runs", get(runs::show))
        .route("/ui/runs/{id}", get(run::show))
        .route("/ui/audit", get(audit::show))
        .route("/ui/export", get(audit::export))
        .route("/ui/audit/{seq}", get(entry::show))
        .route("/ui/approvals", get(approvals::list))
        .route("/ui/approvals/{id}", get(approvals::show).post(approvals::answer))
        .route("/ui/events", get(tail::stream))
        .route("/ui/tools", get(tools::show))
        .route("/ui/health", get(health::show))
        .route("/ui/par.css", get(assets::style))
        .route("/ui/par.js", get(assets::script))
        .route("/ui/{*rest}", any(nothing))
        .route_layer(DefaultBodyLimit::max(limits::FORM_BYTES_MAX))
        .route_layer(from_fn(dress::dress))
        .with_state(ui)
}

async fn front() -> Redirect {
    Redirect::temporary("/ui/")
}

async fn nothing() -> Problem {
    Problem::new(Code::NotFound, "there is no such page")
}

/// Runs what reads the ledger where it may wait for the disk.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(read).await.map_err(Problem::internal)?
}
