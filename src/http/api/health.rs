//! `GET /livez`, `/readyz` and `/health`.

use crate::auth;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::middleware::AsIs;
use crate::http::problem::{Code, Problem};
use crate::ledger::{AppendError, ChainState};
use crate::policy::Power;
use crate::types::VERSION;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Extension, IntoResponse as _, Response};
use serde_json::{Value, json};

/// The process responds.
pub(in crate::http) async fn live() -> &'static str {
    "live\n"
}

/// Whether runs are accepted, or one word for why not; then the state of the ledger's verification.
/// A failing anchor does not stop runs; it is a warning.
pub(in crate::http) async fn ready(State(app): State<App>) -> Response {
    let chain = app.agent.ledger().chain();
    match obstacle(&app) {
        // Callers without a key see neither the size of the ledger nor the time.
        None => match app.anchor.warning(app.agent.ledger().head().size) {
            None => format!("ready\nledger: {}\n", chain.as_str()).into_response(),
            Some(_) => format!("ready\nwarning: anchor\nledger: {}\n", chain.as_str()).into_response(),
        },
        Some(word) => {
            let why = chain.damage().map_or(String::new(), |_| format!("ledger: {chain}\n"));
            (StatusCode::SERVICE_UNAVAILABLE, Extension(AsIs), format!("{word}\n{why}")).into_response()
        }
    }
}

/// The state of the server, for a caller with a key.
pub(in crate::http) async fn show(State(app): State<App>, caller: Caller) -> Result<Json<Value>, Problem> {
    caller.holding(Power::HealthRead)?;
    Ok(Json(report(&app)))
}

/// The state of the server as JSON.
pub(in crate::http) fn report(app: &App) -> Value {
    let word = obstacle(app);
    let rules = app.agent.gate().rules();
    let (ledger, head) = (app.agent.ledger(), app.agent.ledger().head());
    let damage = ledger.damage().map(|damage| AppendError::Damaged(Box::new(damage)).to_string());
    let obstacles = damage.into_iter().chain(app.agent.obstacle()).chain(app.authority.obstacle());
    let obstacles = obstacles.chain(app.agent.launcher().obstacle().map(str::to_owned));
    let obstacles: Vec<String> = obstacles.chain(rules.bundle.broken().iter().cloned()).collect();
    let chain = ledger.chain();
    let mut warnings: Vec<String> = app.anchor.warning(head.size).into_iter().collect();
    warnings.extend(app.agent.warning());
    if let ChainState::Verifying { hindered: Some(why), .. } = &chain {
        warnings.push(format!("the ledger cannot be verified at the moment: {why}"));
    }
    // Whatever makes the state what it is, in one sentence.
    let reason = obstacles.first().cloned().or_else(|| word.map(|word| format!("not ready: {word}")));
    json!({
        "reason": reason,
        "status": if word.is_none() && obstacles.is_empty() { "ok" } else { "degraded" },
        "ready": word.is_none(),
        "why": word,
        "obstacles": obstacles,
        "halts": halts(app),
        "warnings": warnings,
        "version": VERSION,
        "ledger": { "log": ledger.log(), "size": head.size, "root": head.root.hex(), "verification": chain.json() },
        "anchor": anchor(app),
    })
}

/// The halts in force; null if the names of keys cannot be read.
pub(in crate::http) fn halts(app: &App) -> Value {
    let names = app.agent.ledger().state(auth::key_names);
    let stops = app.agent.gate().stops();
    let halts = stops.iter().filter(|stop| stop.is_halt());
    names.map_or(Value::Null, |names| halts.map(|halt| halt.json(&names)).collect())
}

/// The state of the anchors; null without anchors.
fn anchor(app: &App) -> Value {
    let standing_json = app.anchor.standing().map(|standing| {
        json!({
            "place": standing.place,
            "size": standing.size,
            "age_s": app.anchor.age_us(&standing) / 1_000_000,
            "failures": standing.failures,
            "conflict": standing.is_conflict,
            "error": standing.error,
        })
    });
    standing_json.unwrap_or_default()
}

fn obstacle(app: &App) -> Option<&'static str> {
    let ledger = || app.agent.ledger().obstacle().map(|_| "ledger");
    let launcher = || app.agent.launcher().obstacle().map(|_| "launcher");
    let policy = || (!app.agent.gate().rules().bundle.broken().is_empty()).then_some("policy");
    let agent = || app.agent.obstacle().map(|_| "agent");
    let damage = || app.agent.ledger().damage().map(|_| Code::LedgerDamaged.as_str());
    app.ready.obstacle().or_else(damage).or_else(ledger).or_else(agent).or_else(policy).or_else(launcher)
}
