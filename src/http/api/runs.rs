//! `POST /agent/run`, `GET /runs`, `GET /runs/{id}` and `POST /runs/{id}/cancel`.

use super::follow::wants_events;
use super::responded::respond;
use super::run_events;
use crate::agent::{RunQuery, RunReply, RunRequest, RunStatus};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::blocking::blocking;
use crate::http::body::read_json;
use crate::http::middleware::KeptAlive;
use crate::http::problem::{Code, Problem};
use crate::http::stream::Streams;
use crate::ledger::Filter;
use crate::policy::Power;
use crate::types::{RunId, limits, text};
use axum::extract::{Path, Query, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

/// Runs a message to its end, or until it waits for an approval. With `Accept: text/event-stream`,
/// sends what the run does as it happens.
///
/// The handler is a separate task (see `middleware`): the run continues and is recorded even if the
/// client goes away.
pub(in crate::http) async fn start(
    State(app): State<App>,
    Extension(streams): Extension<Streams>,
    Extension(alive): Extension<KeptAlive>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let door = caller.door();
    let principal = caller.holding(Power::Run)?;
    let (parts, body) = request.into_parts();
    refuse_unsupported(&parts.headers)?;
    let asked = fit(read_json(&parts.headers, body, &app.bounds).await?)?;
    if wants_events(&parts.headers) {
        return run_events::answer(app, &streams, alive, (principal, door), asked).await;
    }
    let reply = app.agent.run(&principal, door, asked).await?;
    Ok(respond(reply))
}

/// Returns a run that the caller may read.
pub(in crate::http) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<RunReply>, Problem> {
    let sight = caller.seeing(Power::RunRead)?;
    let id = RunId::parse(&id).ok_or_else(|| Problem::no_run(None))?;
    let wanted = id.clone();
    let found = tokio::task::spawn_blocking(move || app.agent.find(&sight, &wanted)).await;
    let found = found.map_err(Problem::internal)??;
    found.map(Json).ok_or_else(|| Problem::no_run(Some(id)))
}

/// Cancels a run that has not ended, once the `run.cancel` is durable. The run ends after that.
pub(in crate::http) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let door = caller.door();
    let principal = caller.able(Power::RunCancel)?;
    let id = RunId::parse(&id).ok_or_else(|| Problem::no_run(None))?;
    let (parts, body) = request.into_parts();
    let asked: CancelRequest = serde_json::from_value(read_json(&parts.headers, body, &app.bounds).await?)
        .map_err(|_| Problem::new(Code::Invalid, "the body may have one member, `reason`, a string"))?;
    let stop = app.agent.cancel(&principal, door, &id, asked.reason).await?;
    let location = [(LOCATION, format!("/runs/{id}"))];
    Ok((StatusCode::ACCEPTED, location, Json(json!({ "run": id, "cancelled_by": stop.seq }))).into_response())
}

/// The body of a request to cancel a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelRequest {
    #[serde(default)]
    reason: Option<String>,
}

/// Returns the runs that the caller may read, newest first. `next` is the `after` of the next page,
/// and null on the last one.
pub(in crate::http) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let (principal, reads_all) = caller.reader();
    let sight = caller.seeing(Power::RunRead)?;
    let query = run_query(&asked)?;
    let limit = query.limit;
    let found = blocking(move || {
        if let Some(unknown) = app.unknown_tool_of_runs(&query.filter, &sight, &principal, reads_all)? {
            return Err(Problem::new(Code::Invalid, format!("`q`: {unknown}")));
        }
        Ok(app.agent.runs(app.index.as_deref(), &sight, &query)?)
    });
    let rows = found.await?.rows;
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.run.as_str());
    Ok(Json(json!({ "items": rows, "next": next })))
}

/// Parses the filter. The pages use the same parameters.
pub(in crate::http) fn run_query(asked: &[(String, String)]) -> Result<RunQuery, Problem> {
    let mut query = RunQuery { limit: limits::PAGE_ITEMS, ..RunQuery::default() };
    for (name, value) in asked {
        let unfit = |must: &str| Problem::new(Code::Invalid, format!("`{name}` must be {must}"));
        match name.as_str() {
            // A form sends an empty value for an unused field.
            "status" | "principal" if value.is_empty() => {}
            "status" => {
                let status = RunStatus::parse(value);
                query.status = Some(status.ok_or_else(|| unfit("the status of a run, such as `done`"))?);
            }
            "q" => {
                let filter = Filter::of_runs(value);
                query.filter = filter.map_err(|what| Problem::new(Code::Invalid, format!("`q`: {what}")))?;
            }
            "principal" => query.principal = Some(value.clone()),
            "after" => query.before = Some(RunId::parse(value).ok_or_else(|| unfit("the `next` of a page"))?),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=limits::PAGE_ROWS_MAX).contains(limit));
                query.limit = limit.ok_or_else(|| unfit("a number from 1 to 200"))?;
            }
            _ => {
                let name = text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
                return Err(Problem::new(Code::Invalid, format!("`{name}` is not a parameter of this list")));
            }
        }
    }
    Ok(query)
}

/// Calls one tool with the arguments in the body, through every check that applies to a model's
/// call. Only on `par.sock`.
pub(in crate::http) async fn call(
    State(app): State<App>,
    caller: Caller,
    Path(tool): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let door = caller.door();
    let principal = caller.holding(Power::Run)?;
    let (parts, body) = request.into_parts();
    let arguments = read_json(&parts.headers, body, &app.bounds).await?;
    let reply = app.agent.call(&principal, door, tool, arguments.to_string()).await?;
    Ok(respond(reply))
}

/// Known but unsupported features are refused, never ignored.
fn refuse_unsupported(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key("idempotency-key") {
        return Err(Problem::new(Code::NotSupported, "`Idempotency-Key` is not supported yet"));
    }
    Ok(())
}

/// The type that a member of the request must have.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    TextOrNull,
    Flag,
    Limits,
    NamesOrNull,
    SchemaOrNull,
}

const MEMBERS: [(&str, Shape); 9] = [
    ("message", Shape::Text),
    ("session", Shape::TextOrNull),
    ("agent", Shape::TextOrNull),
    ("dry_run", Shape::Flag),
    ("background", Shape::Flag),
    ("untrusted", Shape::Flag),
    ("limits", Shape::Limits),
    ("tools", Shape::NamesOrNull),
    ("response_schema", Shape::SchemaOrNull),
];

/// Converts well-formed JSON into the request. Types are checked by name first, so that the error
/// names the member and no internal type.
pub(in crate::http) fn fit(asked: Value) -> Result<RunRequest, Problem> {
    let unfit = |what: String| Problem::new(Code::Invalid, what);
    let members = asked.as_object().ok_or_else(|| unfit("the body must be an object".to_owned()))?;
    for (name, value) in members {
        let Some((_, shape)) = MEMBERS.iter().find(|(known, _)| known == name) else {
            let name = text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
            return Err(unfit(format!("unknown member `{name}` in the request")));
        };
        shape.check(value).map_err(|wrong| unfit(format!("`{name}` {wrong}")))?;
    }
    let request: RunRequest = serde_json::from_value(asked).map_err(|e| unfit(e.to_string()))?;
    if request.message.trim().is_empty() {
        return Err(unfit("`message` is empty".to_owned()));
    }
    if request.message.contains('\0') {
        return Err(unfit("`message` contains a NUL character".to_owned()));
    }
    Ok(request)
}

/// Why a member has the wrong type. The text continues after the member's name.
#[derive(Debug, thiserror::Error)]
enum WrongShape {
    #[error("{0}")]
    Must(&'static str),
    #[error("has no member `{0}`")]
    NoMember(String),
    #[error("has a `calls_max` that is not a whole number")]
    NotWhole,
}

impl Shape {
    fn check(self, value: &Value) -> Result<(), WrongShape> {
        let (fits, must) = match self {
            Self::Text => (value.is_string(), "must be a string"),
            Self::TextOrNull => (value.is_string() || value.is_null(), "must be a string"),
            Self::Flag => (value.is_boolean(), "must be true or false"),
            Self::Limits => return check_limits(value),
            Self::SchemaOrNull => (value.is_object() || value.is_null(), "must be a JSON Schema: an object"),
            Self::NamesOrNull => {
                let names = value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
                (names || value.is_null(), "must be an array of names of tools")
            }
        };
        if fits { Ok(()) } else { Err(WrongShape::Must(must)) }
    }
}

fn check_limits(value: &Value) -> Result<(), WrongShape> {
    let members = value.as_object().ok_or(WrongShape::Must("must be an object"))?;
    for (name, bound) in members {
        if name != "calls_max" {
            let name = text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
            return Err(WrongShape::NoMember(name));
        }
        if bound.as_u64().is_none_or(|bound| bound > u64::from(u32::MAX)) {
            return Err(WrongShape::NotWhole);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::agent::RunError;
    use crate::http::problem::Problem;
    use axum::response::IntoResponse as _;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn a_refused_run_says_why_and_reveals_no_internals() {
        let inside = "/var/lib/par/data/ledger.db: disk I/O error".to_owned();
        for (error, code, retry_after) in [
            (RunError::Invalid("session", "not supported yet".to_owned()), 422, None),
            (RunError::Busy { of_key: true }, 429, Some("1")),
            (RunError::Busy { of_key: false }, 429, Some("1")),
            (RunError::Spent { of: "runs", retry_after_s: 77 }, 429, Some("77")),
            (RunError::Ledger(inside), 503, None),
        ] {
            let mut response = ().into_response();
            Problem::from(error).fill(&mut response, "req");
            assert_eq!(response.status(), code);
            let wait = response.headers().get("retry-after").map(|wait| wait.to_str().expect("text"));
            assert_eq!(wait, retry_after);
            let body = response.into_body().collect().await.expect("body").to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            assert!(!body.contains("ledger.db"), "{body}");
        }
    }
}
