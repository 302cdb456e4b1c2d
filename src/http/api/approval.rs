//! `GET /approvals/{id}` and `POST /approvals/{id}`.

use crate::gate::{Answer, AnswerError, Approval};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::read_json;
use crate::http::problem::{Code, Problem};
use crate::policy::Power;
use crate::types::{ApprovalId, limits, text};
use axum::Json;
use axum::extract::{Path, Request, State};
use serde_json::{Map, Value};

/// Returns one approval with the exact call.
pub(in crate::http) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Approval>, Problem> {
    let sight = caller.seeing(Power::ApprovalRead)?;
    let id = ApprovalId::parse(&id).ok_or(AnswerError::Unknown)?;
    let found = tokio::task::spawn_blocking(move || Approval::find(app.agent.ledger(), &id)).await;
    let found = found.map_err(Problem::internal)??.filter(|found| sight.sees(&found.requester.principal));
    Ok(Json(found.ok_or(AnswerError::Unknown)?))
}

/// Grants or refuses exactly the call whose card or hash the answer repeats. The run resumes by
/// itself.
pub(in crate::http) async fn answer(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Approval>, Problem> {
    let door = caller.door();
    let principal = caller.able(Power::Approve)?;
    let (parts, body) = request.into_parts();
    let asked = read_json(&parts.headers, body, &app.bounds).await?;
    let answer = fit(&asked)?;
    let id = ApprovalId::parse(&id).ok_or(AnswerError::Unknown)?;
    Ok(Json(app.agent.gate().answer(&principal, door, &id, answer).await?))
}

fn fit(asked: &Value) -> Result<Answer, Problem> {
    let members = asked.as_object();
    let members = members.ok_or_else(|| Problem::new(Code::Invalid, "the body must be an object"))?;
    if let Some(name) =
        members.keys().find(|name| !["answer", "card", "call_hash", "reason"].contains(&name.as_str()))
    {
        return Err(unfit(name, "unknown member of the request"));
    }
    let grant = match word(members, "answer")? {
        Some("grant") => true,
        Some("refuse") => false,
        _ => return Err(unfit("answer", "must be `grant` or `refuse`")),
    };
    let owned = |name| word(members, name).map(|word| word.map(str::to_owned));
    Ok(Answer { grant, card: owned("card")?, call_hash: owned("call_hash")?, reason: owned("reason")? })
}

fn word<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Problem> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) => Ok(Some(word)),
        Some(_) => Err(unfit(name, "must be a string")),
    }
}

pub(in crate::http) fn unfit(name: &str, what: &str) -> Problem {
    let shown = text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
    Problem::new(Code::Invalid, format!("`{shown}`: {what}"))
}
