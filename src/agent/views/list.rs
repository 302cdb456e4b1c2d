//! Runs in a list: what a person looks for a run by.

use crate::agent::api::{RunStatus, Usage};
use crate::ledger::payload::{RunReplyPayload, RunRequestPayload};
use crate::ledger::{Filter, Header, Ledger, Order, Payload, ReadError};
use crate::types::{Decision, RunId, limits, text};
use serde::Serialize;
use serde_json::Value;

/// Payloads beyond this are not read for a list, in bytes.
const LISTED_PAYLOAD_BYTES_MAX: u64 = 256 << 10;

/// Which runs; every condition given must hold.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// In this state.
    pub status: Option<RunStatus>,
    /// Of this principal, such as `key:Ab3dEf9h`.
    pub principal: Option<String>,
    /// Older than this one.
    pub before: Option<RunId>,
    /// How many.
    pub limit: usize,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub status: RunStatus,
    /// Who asked.
    pub principal: String,
    /// The head of the message, made visible; absent where it was erased or is too long for a list.
    pub message: Option<String>,
    /// When it began, in microseconds since 1970.
    pub started_us: u64,
    /// When it ended or began to wait.
    pub ended_us: Option<u64>,
    /// Its reply in figures, where there is one.
    pub figures: Option<Figures>,
    /// Its first entry.
    pub first_seq: u64,
    /// The entry of its reply.
    pub reply_seq: Option<u64>,
}

/// A reply in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Proposed calls.
    pub calls: usize,
    /// Those of them that were denied.
    pub denied: usize,
    /// What the model cost.
    pub usage: Usage,
}

/// Runs whose owners `sees` takes, newest first.
///
/// Each owner is asked about, and not each run: there are few of them, and nothing else tells runs apart.
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

fn owners(ledger: &Ledger) -> Result<Vec<String>, rusqlite::Error> {
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
    let told = answered.as_ref().map(|header| payload(ledger, header)).transpose()?.flatten();
    Ok(RunRow {
        run: RunId::parse(id).ok_or_else(damaged)?,
        status: RunStatus::parse(status).ok_or_else(damaged)?,
        principal,
        message: message.map(|text| text::visible_line(text::prefix(&text, limits::SHOWN_BYTES_MAX))),
        started_us: asked.u64("wall_us").unwrap_or(0),
        ended_us: answered.as_ref().and_then(|header| header.u64("wall_us")),
        figures: told.map(figures),
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
