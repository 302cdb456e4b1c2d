//! Lists of sessions, from state.db.

use super::list::{COLUMNS, KnownRun, RunListError, RunRow, known_run, row};
use crate::agent::api::RunStatus;
use crate::auth::key_names;
use crate::ledger::Ledger;
use crate::types::{RunId, SessionId};
use rusqlite::OptionalExtension as _;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sessions that one statement reads while it looks for those that a reader may see.
const CHUNK: usize = 256;

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// The id of the session.
    pub session: SessionId,
    /// Whether it goes on: `open`, `busy` while a run of it has not ended, or `ended`.
    pub standing: SessionStanding,
    /// Its owner.
    pub principal: String,
    /// Its owner as people know it, such as `ops-ci (ben)`.
    pub who: String,
    /// Number of its runs.
    pub runs: u64,
    /// The status of the newest.
    pub status: RunStatus,
    /// The beginning of its first message; null if it was erased or is too long for a list.
    pub message: Option<String>,
    /// The same of its newest message.
    pub newest: Option<String>,
    /// Start of its first run, as RFC 3339 in UTC.
    pub started: String,
    /// Start of its newest run, as RFC 3339 in UTC.
    pub active: String,
    /// Its newest run.
    pub newest_run: RunId,
}

/// Whether a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStanding {
    /// A message goes on with it.
    Open,
    /// A run of it has not ended.
    Busy,
    /// It was ended.
    Ended,
}

/// A session in state.db.
struct KnownSession {
    id: String,
    owner: String,
    runs: u64,
    newest: i64,
}

/// Returns the sessions whose owners `sees` accepts, at most `limit`, the one with the newest run
/// first; those whose newest run is older than `before`, if it is given. Blocking.
pub fn list_sessions(
    ledger: &Ledger,
    before: Option<&SessionId>,
    limit: usize,
    sees: impl Fn(&str) -> bool,
) -> Result<Vec<SessionRow>, RunListError> {
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    let (mut found, mut after) = (Vec::new(), None);
    if let Some(before) = before {
        after = Some(newest_of(ledger, before)?.unwrap_or(0));
    }
    loop {
        let chunk = chunk(ledger, after)?;
        let is_last = chunk.len() < CHUNK;
        after = chunk.last().map(|session| session.newest);
        for session in chunk {
            let owner = session.owner.clone();
            if found.len() < limit && *known.entry(owner).or_insert_with_key(|owner| sees(owner)) {
                found.extend(shown(ledger, session)?);
            }
        }
        if is_last || found.len() == limit {
            return Ok(found);
        }
    }
}

/// Sessions whose newest run is older than the entry `after`, newest first.
fn chunk(ledger: &Ledger, after: Option<i64>) -> Result<Vec<KnownSession>, RunListError> {
    let found = ledger.state(|state| {
        let sql = "SELECT session, min(owner), count(*), max(first_seq) FROM run GROUP BY session \
                   HAVING ?1 IS NULL OR max(first_seq) < ?1 ORDER BY max(first_seq) DESC LIMIT ?2";
        let mut rows = state.prepare_cached(sql)?;
        let rows = rows.query_map((after, i64::try_from(CHUNK).unwrap_or(i64::MAX)), |row| {
            let runs = u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
            Ok(KnownSession { id: row.get(0)?, owner: row.get(1)?, runs, newest: row.get(3)? })
        })?;
        rows.collect::<Result<Vec<_>, rusqlite::Error>>()
    })?;
    Ok(found)
}

fn newest_of(ledger: &Ledger, session: &SessionId) -> Result<Option<i64>, RunListError> {
    let newest = ledger.state(|state| {
        let sql = "SELECT max(first_seq) FROM run WHERE session = ?1";
        state.prepare_cached(sql)?.query_row([session.as_str()], |row| row.get(0))
    })?;
    Ok(newest)
}

/// The row of a session, from its first and its newest run.
fn shown(ledger: &Ledger, known: KnownSession) -> Result<Option<SessionRow>, RunListError> {
    let Some(session) = SessionId::parse(&known.id) else { return Ok(None) };
    let names = ledger.state(key_names)?;
    let at = |order: &str| -> Result<Option<RunRow>, RunListError> {
        let sql = format!("SELECT {COLUMNS} FROM run WHERE session = ?1 ORDER BY first_seq {order} LIMIT 1");
        let run: Option<KnownRun> = ledger
            .state(|state| state.prepare_cached(&sql)?.query_row([session.as_str()], known_run).optional())?;
        Ok(run.map(|run| row(ledger, &names, run, None)).transpose()?)
    };
    let (Some(first), Some(newest)) = (at("ASC")?, at("DESC")?) else { return Ok(None) };
    let is_ended = ledger.state(|state| {
        let sql = "SELECT 1 FROM session_end WHERE session = ?1";
        state.prepare_cached(sql)?.query_row([session.as_str()], |_| Ok(())).optional()
    })?;
    let is_busy = !newest.status.is_recorded() || newest.status == RunStatus::Waiting;
    let standing = match (is_ended, is_busy) {
        (Some(()), _) => SessionStanding::Ended,
        (None, true) => SessionStanding::Busy,
        (None, false) => SessionStanding::Open,
    };
    Ok(Some(SessionRow {
        standing,
        principal: first.principal,
        who: first.who,
        runs: known.runs,
        status: newest.status,
        message: first.message,
        newest: newest.message,
        started: first.started,
        active: newest.started,
        newest_run: newest.run,
        session,
    }))
}
