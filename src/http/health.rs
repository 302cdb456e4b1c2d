//! `GET /livez`, `/readyz` and `/health`.

use super::App;
use super::caller::Caller;
use super::frame::AsIs;
use super::problem::Problem;
use crate::policy::Power;
use crate::types::VERSION;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Extension, IntoResponse as _, Response};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

const STARTING: &str = "starting";

/// Whether runs are taken, as one word for why not. Shared by all clones.
#[derive(Clone, Debug)]
pub struct Ready(Arc<Mutex<Option<&'static str>>>);

impl Ready {
    /// Not yet.
    #[must_use]
    pub fn starting() -> Self {
        Self(Arc::new(Mutex::new(Some(STARTING))))
    }

    /// Sets the word, such as `stopping` or `policy`; `None` is ready. It is told without a key.
    pub fn set(&self, obstacle: Option<&'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = obstacle;
    }

    /// The listener is open: what was set meanwhile stays.
    pub(super) fn begin(&self) {
        let mut word = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *word = word.filter(|word| *word != STARTING);
    }

    pub(super) fn obstacle(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process answers.
pub(super) async fn live() -> &'static str {
    "live\n"
}

/// Runs are taken, or one word for why not. An anchor that fails keeps nobody from running, and is told.
pub(super) async fn ready(State(app): State<App>) -> Response {
    match obstacle(&app) {
        None => match app.anchor.warning(app.agent.ledger().head().size) {
            None => "ready\n".into_response(),
            Some(_) => "ready\nwarning: anchor\n".into_response(),
        },
        Some(word) => (StatusCode::SERVICE_UNAVAILABLE, Extension(AsIs), format!("{word}\n")).into_response(),
    }
}

/// How it stands, for a key.
pub(super) async fn show(State(app): State<App>, caller: Caller) -> Result<Json<Value>, Problem> {
    caller.holding(Power::HealthRead)?;
    Ok(Json(told(&app)))
}

/// How it stands, in words.
pub(super) fn told(app: &App) -> Value {
    let word = obstacle(app);
    let rules = app.agent.gate().rules();
    let obstacles = app.agent.obstacle().into_iter().chain(app.authority.obstacle());
    let obstacles = obstacles.chain(app.agent.launcher().obstacle().map(str::to_owned));
    let obstacles: Vec<String> = obstacles.chain(rules.bundle.broken().iter().cloned()).collect();
    let (ledger, head) = (app.agent.ledger(), app.agent.ledger().head());
    json!({
        "status": if word.is_none() && obstacles.is_empty() { "ok" } else { "degraded" },
        "ready": word.is_none(),
        "why": word,
        "obstacles": obstacles,
        "warnings": app.anchor.warning(head.size).into_iter().collect::<Vec<_>>(),
        "version": VERSION,
        "ledger": { "log": ledger.log(), "size": head.size, "root": head.root.hex() },
        "anchor": anchor(app),
    })
}

/// How the anchors stand; null where there are none.
fn anchor(app: &App) -> Value {
    let told = app.anchor.standing().map(|standing| {
        json!({
            "place": standing.place,
            "size": standing.size,
            "age_s": app.anchor.age_us(&standing) / 1_000_000,
            "failures": standing.failures,
            "conflict": standing.is_conflict,
            "error": standing.error,
        })
    });
    told.unwrap_or_default()
}

fn obstacle(app: &App) -> Option<&'static str> {
    let ledger = || app.agent.ledger().obstacle().map(|_| "ledger");
    let launcher = || app.agent.launcher().obstacle().map(|_| "launcher");
    let policy = || (!app.agent.gate().rules().bundle.broken().is_empty()).then_some("policy");
    let agent = || app.agent.obstacle().map(|_| "agent");
    app.ready.obstacle().or_else(ledger).or_else(agent).or_else(policy).or_else(launcher)
}
