//! Lists of runs.

use crate::agent::api::{RunStatus, Usage};
use crate::ledger::payload::{RunReplyPayload, RunRequestPayload};
use crate::ledger::{Filter, Header, Ledger, Order, Payload, ReadError};
use crate::types::{Decision, RunId, limits, text};
use serde::Serialize;
use serde_json::Value;

/// Longer payloads are not read for a list, in bytes.
const LISTED_PAYLOAD_BYTES_MAX: u64 = 256 << 10;

/// A filter for runs. Every given condition must hold.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// The status of the run.
    pub status: Option<RunStatus>,
    /// The principal that asked, such as `key:Ab3dEf9h`.
    pub principal: Option<String>,
    /// Only runs older than this one.
    pub before: Option<RunId>,
    /// Number of runs at most.
    pub limit: usize,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// The id of the run.
    pub run: RunId,
    /// The status of the run.
    pub status: RunStatus,
    /// The principal that asked.
    pub principal: String,
    /// The beginning of the message, with control characters made visible; absent if it was erased
    /// or is too long for a list.
    pub message: Option<String>,
    /// Start of the run, in microseconds since 1970.
    pub started_us: u64,
    /// Time at which it ended or began to wait, in microseconds since 1970.
    pub ended_us: Option<u64>,
    /// The counts of its reply, if there is one.
    pub figures: Option<Figures>,
    /// The number of its first entry.
    pub first_seq: u64,
    /// The number of the entry of its reply.
    pub reply_seq: Option<u64>,
}

/// The counts of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Proposed calls.
    pub calls: usize,
    /// Denied calls among them.
    pub denied: usize,
    /// Tokens and replies of the model.
    pub usage: Usage,
}

/// Returns the runs whose owners `sees` accepts, newest first.
///
/// `sees` is called for each owner and not for each run: owners are few, and the policy tells runs
/// apart only by owner.
pub(in crate::agent) fn list(
    ledger: &Ledger,
    query: &RunQuery,
    sees: impl Fn(&str) -> bool,
) -> Result<Vec<RunRow>, ReadError> {
    let mut owners = match &query.principal {
        Some(asked) => vec![asked.clone()],
        None => owners(ledger)?,
    };
    owners.retain(|owner| sees(owner));
    let owners = Value::from(owners).to_string();
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let rows: Vec<(String, String, i64, Option<i64>, String)> = ledger.state(|state| {
        let mut statement = state.prepare_cached(
            "SELECT id, owner, first_seq, reply_seq, status FROM run \
             WHERE (?1 IS NULL OR id < ?1) AND owner IN (SELECT value FROM json_each(?2)) AND (?3 IS NULL OR status = ?3) \
             ORDER BY id DESC LIMIT ?4",
        )?;
        let before = query.before.as_ref().map(RunId::as_str);
        let status = query.status.map(RunStatus::as_str);
        let rows = statement.query_map((before, owners, status, limit), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })?;
        rows.collect()
    })?;
    rows.into_iter()
        .map(|(id, owner, first, reply, status)| row(ledger, &id, owner, first, reply, &status))
        .collect()
}

/// The callers that have begun runs, by their names on the ledger.
pub(in crate::agent) fn owners(ledger: &Ledger) -> Result<Vec<String>, rusqlite::Error> {
    ledger.state(|state| {
        let mut owners = state.prepare_cached("SELECT DISTINCT owner FROM run")?;
        owners.query_map([], |row| row.get(0))?.collect()
    })
}

fn row(
    ledger: &Ledger,
    id: &str,
    principal: String,
    first: i64,
    reply: Option<i64>,
    status: &str,
) -> Result<RunRow, ReadError> {
    let number = |seq: i64| u64::try_from(seq).unwrap_or(0);
    let (first, reply) = (number(first), reply.map(number));
    let damaged = || ReadError::Damaged(first, "state.db names a run that the ledger does not".to_owned());
    let asked = header(ledger, first)?.filter(|header| header.str("run") == Some(id)).ok_or_else(damaged)?;
    let answered = reply.map(|seq| header(ledger, seq)).transpose()?.flatten();
    let message = payload(ledger, &asked)?.map(|asked: RunRequestPayload| asked.message);
    let recorded = answered.as_ref().map(|header| payload(ledger, header)).transpose()?.flatten();
    Ok(RunRow {
        run: RunId::parse(id).ok_or_else(damaged)?,
        status: RunStatus::parse(status).ok_or_else(damaged)?,
        principal,
        message: message.map(|text| text::visible_line(text::prefix(&text, limits::SHOWN_BYTES_MAX))),
        started_us: asked.u64("wall_us").unwrap_or(0),
        ended_us: answered.as_ref().and_then(|header| header.u64("wall_us")),
        figures: recorded.map(figures),
        first_seq: first,
        reply_seq: reply,
    })
}

fn header(ledger: &Ledger, seq: u64) -> Result<Option<Header>, ReadError> {
    let (found, _) = ledger.reader().headers(&Filter::default(), seq, Order::Ascending, 1, 1)?;
    Ok(found.into_iter().find(|header| header.seq == seq))
}

fn payload<P: Payload>(ledger: &Ledger, header: &Header) -> Result<Option<P>, ReadError> {
    if header.payload_len > LISTED_PAYLOAD_BYTES_MAX {
        return Ok(None);
    }
    Ok(ledger.reader().entry(header.seq)?.and_then(|stored| stored.payload()))
}

fn figures(reply: RunReplyPayload) -> Figures {
    Figures {
        calls: reply.steps.len(),
        denied: reply.steps.iter().filter(|step| step.decision == Decision::Deny).count(),
        usage: reply.usage,
    }
}
