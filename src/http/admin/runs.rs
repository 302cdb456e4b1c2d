//! The operations on runs: a manager reads those of all users. Nothing runs here.

use super::failure::{Failure, failed, known, text};
use super::room::Room;
use super::words::{FailureCode, Operation};
use crate::agent::{RunListError, RunQuery, RunStatus};
use crate::auth::Principal;
use crate::gate::Sight;
use crate::http::app::unknown_in_runs;
use crate::ledger::{Filter, ReadError};
use crate::policy::{Door, Over, Power};
use crate::types::{RunId, limits};
use serde_json::{Map, Value, json};

/// Performs an operation on the runs that the rules let `principal` read.
pub(super) async fn act(
    room: &Room,
    principal: &Principal,
    operation: Operation,
    asked: &Map<String, Value>,
) -> Result<Value, Failure> {
    let sight = room.agent.gate().sight(principal, Power::RunRead, Door::SOCKET)?;
    let answer = match operation {
        Operation::RunShow => {
            known(asked, &["op", "id"])?;
            show(room, sight, asked)?.await
        }
        _ => {
            known(asked, &["op", "query", "status", "after", "limit"])?;
            let read = room.agent.gate().may(principal, Power::AuditRead, Over::Server, Door::SOCKET);
            list(room, sight, query(asked)?, read.is_ok()).await
        }
    };
    answer.map_err(failed)?
}

type Blocking = tokio::task::JoinHandle<Result<Value, Failure>>;

/// The error of a query for what does not exist lists what does, for readers of the whole ledger.
fn list(room: &Room, sight: Sight, query: RunQuery, reads_all: bool) -> Blocking {
    let (agent, index) = (room.agent.clone(), room.index.clone());
    tokio::task::spawn_blocking(move || {
        if reads_all && let Some(unknown) = unknown_in_runs(&agent, index.as_deref(), &query.filter)? {
            return Err(Failure::new(FailureCode::Invalid, unknown.to_string()));
        }
        let rows = agent.runs(index.as_deref(), &sight, &query)?.rows;
        let next = rows.last().filter(|_| rows.len() == query.limit).map(|row| row.run.as_str().to_owned());
        Ok(json!({ "items": rows, "next": next }))
    })
}

fn show(room: &Room, sight: Sight, asked: &Map<String, Value>) -> Result<Blocking, Failure> {
    let none = || Failure::new(FailureCode::NotFound, "no run has this id");
    let id = text(asked, "id")?.and_then(RunId::parse).ok_or_else(none)?;
    let agent = room.agent.clone();
    Ok(tokio::task::spawn_blocking(move || Ok(json!({ "run": agent.find(&sight, &id)?.ok_or_else(none)? }))))
}

/// The parameters of `GET /runs`, as members.
fn query(asked: &Map<String, Value>) -> Result<RunQuery, Failure> {
    let unfit = |what: String| Failure::new(FailureCode::Invalid, what);
    let mut query = RunQuery { limit: limits::PAGE_ITEMS, ..RunQuery::default() };
    if let Some(words) = text(asked, "query")? {
        query.filter = Filter::of_runs(words).map_err(|e| unfit(e.to_string()))?;
    }
    if let Some(word) = text(asked, "status")? {
        let unknown = || unfit("`status` must be the status of a run, such as `done`".to_owned());
        query.status = Some(RunStatus::parse(word).ok_or_else(unknown)?);
    }
    if let Some(word) = text(asked, "after")? {
        let unknown = || unfit("`after` must be the `next` of a page".to_owned());
        query.before = Some(RunId::parse(word).ok_or_else(unknown)?);
    }
    if let Some(limit) = asked.get("limit").filter(|limit| !limit.is_null()) {
        let limit = limit.as_u64().and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.filter(|limit| (1..=limits::PAGE_ROWS_MAX).contains(limit));
        query.limit = limit.ok_or_else(|| unfit("`limit` must be a number from 1 to 200".to_owned()))?;
    }
    Ok(query)
}

impl From<RunListError> for Failure {
    fn from(error: RunListError) -> Self {
        Self::new(FailureCode::Ledger, error.to_string())
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::new((&error).into(), error.to_string())
    }
}
