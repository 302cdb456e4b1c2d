//! `GET /sessions`, `GET /sessions/{id}` and `POST /sessions/{id}/end`.

use crate::agent::{RunQuery, SessionRefusal, SessionRow, list_sessions};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::blocking::blocking;
use crate::http::body::read_json;
use crate::http::problem::{Code, Problem};
use crate::policy::Power;
use crate::types::{SessionId, limits, text};
use axum::Json;
use axum::extract::{Path, Query, Request, State};
use serde::Deserialize;
use serde_json::{Value, json};

/// Returns the sessions whose runs the caller may read, the one with the newest run first. `next`
/// is the `after` of the next page, and null on the last one.
pub(in crate::http) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let sight = caller.seeing(Power::RunRead)?;
    let (mut before, mut limit) = (None, limits::PAGE_ITEMS);
    for (name, value) in asked {
        let unfit = |must: &str| Problem::new(Code::Invalid, format!("`{name}` must be {must}"));
        match name.as_str() {
            "after" => {
                before = Some(SessionId::parse(&value).ok_or_else(|| unfit("the `next` of a page"))?);
            }
            "limit" => {
                let asked = value.parse().ok().filter(|limit| (1..=limits::PAGE_ROWS_MAX).contains(limit));
                limit = asked.ok_or_else(|| unfit("a number from 1 to 200"))?;
            }
            _ => {
                let name = text::visible_line(text::prefix(&name, limits::SHOWN_BYTES_MAX));
                return Err(Problem::new(Code::Invalid, format!("`{name}` is not a parameter of this list")));
            }
        }
    }
    let found: Vec<SessionRow> = blocking(move || {
        Ok(list_sessions(app.agent.ledger(), before.as_ref(), limit, |owner| sight.sees(owner))?)
    })
    .await?;
    let next = found.last().filter(|_| found.len() == limit).map(|row| row.session.as_str());
    Ok(Json(json!({ "items": found, "next": next })))
}

/// Returns the runs of a session that the caller may read, oldest first.
pub(in crate::http) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let sight = caller.seeing(Power::RunRead)?;
    let none = || Problem::new(Code::NotFound, "no such session, or this key may not see it");
    let session = SessionId::parse(&id).ok_or_else(none)?;
    let query = RunQuery { session: Some(session), limit: limits::SESSION_RUNS_MAX, ..RunQuery::default() };
    let index = app.index.clone();
    let found = blocking(move || Ok(app.agent.runs(index.as_deref(), &sight, &query)?)).await?;
    if found.rows.is_empty() {
        return Err(none());
    }
    let runs: Vec<_> = found.rows.into_iter().rev().collect();
    Ok(Json(json!({ "session": id, "runs": runs })))
}

/// The body of a request to end a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndRequest {
    #[serde(default)]
    reason: Option<String>,
}

/// Ends a session of the caller, once the `session.end` is durable.
pub(in crate::http) async fn end(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    let (principal, granted) = caller.granted(Power::Run)?;
    let session = SessionId::parse(&id).ok_or_else(|| Problem::from(SessionRefusal::Unknown))?;
    let (parts, body) = request.into_parts();
    let asked: EndRequest = serde_json::from_value(read_json(&parts.headers, body, &app.bounds).await?)
        .map_err(|_| Problem::new(Code::Invalid, "the body may have one member, `reason`, a string"))?;
    let reason = asked.reason.as_deref();
    let entry = app.agent.end_session(&principal, Some(&granted), &session, reason).await?;
    Ok(Json(json!({ "session": session, "ended_by": entry })))
}
