//! `POST /agent/run`, `GET /runs` and `GET /runs/{id}`.

use crate::agent::{RunQuery, RunReply, RunRequest, RunStatus};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::blocking::blocking;
use crate::http::body::read_json;
use crate::http::problem::{Code, Problem};
use crate::ledger::Filter;
use crate::policy::Power;
use crate::types::{RunId, limits, text};
use axum::Json;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{ACCEPT, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

/// Runs a message to its end, or until it waits for an approval.
///
/// The handler is a separate task (see `middleware`): the run continues and is recorded even if the
/// client goes away.
pub(in crate::http) async fn start(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let door = caller.door();
    let principal = caller.holding(Power::Run)?;
    let (parts, body) = request.into_parts();
    refuse_unsupported(&parts.headers)?;
    let asked = read_json(&parts.headers, body, &app.bounds).await?;
    let reply = app.agent.run(&principal, door, fit(asked)?).await?;
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

/// The response: 200 if the run has ended, 202 with a `Location` if it continues.
fn respond(reply: RunReply) -> Response {
    use RunStatus::{
        Cancelled, Denied, Done, Failed, Interrupted, Limit, Paused, Pending, Refused, Running, Waiting,
    };
    match reply.status {
        Done | Denied | Refused | Failed | Limit | Cancelled | Interrupted => Json(reply).into_response(),
        Pending | Running | Waiting | Paused => {
            let location = format!("/runs/{}", reply.run);
            (StatusCode::ACCEPTED, [(LOCATION, location)], Json(reply)).into_response()
        }
    }
}

/// Known but unsupported features are refused, never ignored.
fn refuse_unsupported(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key("idempotency-key") {
        return Err(Problem::new(Code::NotSupported, "`Idempotency-Key` is not supported yet"));
    }
    let accepts = |kind: &str| {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|one| one.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(kind)))
    };
    let wants_stream = accepts("text/event-stream");
    if wants_stream && !["application/json", "application/*", "*/*"].into_iter().any(accepts) {
        return Err(Problem::new(Code::NotAcceptable, "`Accept: text/event-stream` is not supported yet"));
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
}

const MEMBERS: [(&str, Shape); 7] = [
    ("message", Shape::Text),
    ("session", Shape::TextOrNull),
    ("agent", Shape::TextOrNull),
    ("dry_run", Shape::Flag),
    ("background", Shape::Flag),
    ("untrusted", Shape::Flag),
    ("limits", Shape::Limits),
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
    use super::respond;
    use crate::agent::{RunError, RunReply};
    use crate::http::problem::Problem;
    use axum::response::IntoResponse as _;
    use http_body_util::BodyExt as _;
    use serde_json::json;

    #[test]
    fn a_finished_run_is_200_and_an_unfinished_one_is_202() {
        for (status, code) in [
            ("done", 200),
            ("denied", 200),
            ("refused", 200),
            ("failed", 200),
            ("limit", 200),
            ("cancelled", 200),
            ("interrupted", 200),
            ("waiting", 202),
            ("pending", 202),
            ("running", 202),
            ("paused", 202),
        ] {
            let reply: RunReply = serde_json::from_value(json!({
                "run": "run_01JD0000000000000000000000", "session": "ses_01JD0000000000000000000000",
                "status": status, "answer": null, "steps": [],
                "usage": { "model_calls": 0, "input_tokens": 0, "output_tokens": 0 }
            }))
            .expect("reply");
            let response = respond(reply);
            assert_eq!(response.status(), code, "{status}");
            let location = response.headers().get("location").map(|at| at.to_str().expect("text"));
            assert_eq!(location, (code == 202).then_some("/runs/run_01JD0000000000000000000000"));
        }
    }

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
