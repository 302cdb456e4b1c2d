//! `GET /tools`.

use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::problem::Problem;
use crate::policy::Power;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

/// Returns the tools that the caller may use, on one page.
pub(in crate::http) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Value>, Problem> {
    let principal = caller.holding(Power::ToolsRead)?;
    let tools = app.agent.tools(&principal);
    Ok(Json(json!({ "items": tools, "next": null })))
}
