//! `GET /tools`.

use super::App;
use super::caller::Caller;
use super::problem::Problem;
use crate::policy::Power;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

/// The tools that the caller may use at all, in one page.
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Value>, Problem> {
    let principal = caller.holding(Power::ToolsRead)?;
    let tools = app.agent.tools(&principal);
    Ok(Json(json!({ "items": tools, "next": null })))
}
