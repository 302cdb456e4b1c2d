//! Lists of runs.
//!
//! Which runs there are, and how each stands, comes from state.db, which follows every commit. A
//! search, and the counts of calls, come from the index; how far it goes is said with the result.

use crate::agent::api::RunStatus;
use crate::auth::key_names;
use crate::ledger::payload::RunRequestPayload;
use crate::ledger::query::{KeyNames, RunLine};
use crate::ledger::{Filter, Header, Index, IndexError, Ledger, Order, ReadError};
use crate::types::clock::Wall;
use crate::types::{RunId, SessionId, limits, text};
use rusqlite::{OptionalExtension as _, Row as RowRef};
use serde::Serialize;
use std::collections::BTreeMap;

/// Longer messages are not read for a list, in bytes.
const LISTED_PAYLOAD_BYTES_MAX: u64 = 256 << 10;
/// Runs that one statement reads while it looks for those that a reader may see.
const CHUNK: usize = 256;

/// Entries that a list without an index reads for one run.
const COUNTED_ENTRIES_MAX: usize = 2_048;

/// A filter for runs. Every given condition must hold.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// The status of the run.
    pub status: Option<RunStatus>,
    /// The principal that asked, such as `key:Ab3dEf9h`.
    pub principal: Option<String>,
    /// The session of the run.
    pub session: Option<SessionId>,
    /// A search: words of the message, names of keys and users, and terms of the query grammar.
    pub filter: Filter,
    /// Only runs older than this one.
    pub before: Option<RunId>,
    /// Number of runs at most.
    pub limit: usize,
}

/// A page of runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunsPage {
    /// The runs, newest first.
    pub rows: Vec<RunRow>,
    /// For a search: number of entries that were searched.
    pub covered: Option<u64>,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// The id of the run.
    pub run: RunId,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// The status of the run.
    pub status: RunStatus,
    /// The principal that asked.
    pub principal: String,
    /// The principal as people know it, such as `ops-ci (ben)`.
    pub who: String,
    /// The name of the key; null for a user of the host.
    pub key: Option<String>,
    /// The user that asked, if it is known.
    pub user: Option<String>,
    /// The beginning of the message, with control characters made visible; null if it was erased or
    /// is too long for a list.
    pub message: Option<String>,
    /// Start of the run, as RFC 3339 in UTC.
    pub started: String,
    /// Time at which it ended or began to wait, as RFC 3339 in UTC.
    pub ended: Option<String>,
    /// [`RunRow::started`] in microseconds since 1970.
    pub started_us: u64,
    /// [`RunRow::ended`] in microseconds since 1970.
    pub ended_us: Option<u64>,
    /// Number of proposed calls; null while the index does not have the run.
    pub calls: Option<u64>,
    /// Number of those that were denied, but not by a person.
    pub denied: Option<u64>,
    /// Number of those that were not valid.
    pub invalid: Option<u64>,
    /// Number of those that a person refused.
    pub refused: Option<u64>,
    /// The tools that were called.
    pub tools: Vec<String>,
    /// The number of its first entry.
    pub first_seq: u64,
    /// The number of the entry of its reply.
    pub reply_seq: Option<u64>,
    /// An entry of the run that does not verify: what it would say is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<u64>,
}

/// Why runs were not listed.
#[derive(Debug, thiserror::Error)]
pub enum RunListError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A search needs the index.
    #[error("runs cannot be searched: {0}")]
    Index(IndexError),
    /// There is no index to search.
    #[error("runs cannot be searched without an index")]
    NoIndex,
}

impl From<rusqlite::Error> for RunListError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(error.into())
    }
}

/// A row of state.db.
pub(super) struct KnownRun {
    id: String,
    pub(super) owner: String,
    first: u64,
    reply: Option<u64>,
    status: String,
    session: String,
}

/// Its columns, in the order of [`known_run`].
pub(super) const COLUMNS: &str = "id, owner, first_seq, reply_seq, status, session";

/// Returns the runs whose owners `sees` accepts, newest first. `sees` is asked once per owner: the
/// policy tells runs apart only by owner.
pub fn list(
    ledger: &Ledger,
    index: Option<&Index>,
    query: &RunQuery,
    sees: impl Fn(&str) -> bool,
) -> Result<RunsPage, RunListError> {
    let names = ledger.state(key_names)?;
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    let mut sees = |owner: &str| match known.get(owner) {
        Some(is) => *is,
        None => *known.entry(owner.to_owned()).or_insert_with_key(|owner| sees(owner)),
    };
    let (found, covered) = if query.filter.is_empty() {
        (all(ledger, query, &mut sees)?, None)
    } else if let Some(run) = only_run(&query.filter) {
        // After damage, lines of intact runs may be missing in the index; state.db has them.
        let found = of_state(ledger, run)?.filter(|run| is_asked(query, run) && sees(&run.owner));
        (found.into_iter().collect(), Some(ledger.head().size))
    } else {
        let index = index.ok_or(RunListError::NoIndex)?;
        let (found, covered) = searched(ledger, index, query, &names, &mut sees)?;
        (found, Some(covered))
    };
    let lines = index.map(|index| index.run_lines(found.iter().map(|run| run.id.as_str())));
    let lines = lines.transpose().unwrap_or_else(|error| {
        tracing::error!(%error, "the index cannot be read: runs are listed without their calls");
        None
    });
    let mut lines: BTreeMap<String, RunLine> =
        lines.unwrap_or_default().into_iter().map(|line| (line.run.clone(), line)).collect();
    let rows = found.into_iter().map(|run| {
        let line = match index {
            Some(_) => lines.remove(&run.id),
            None => counted(ledger, &run)?,
        };
        row(ledger, &names, run, line)
    });
    Ok(RunsPage { rows: rows.collect::<Result<_, _>>()?, covered })
}

/// The line of a run from its own entries, for a list without an index; `None` if it lasted for so
/// many entries that a list does not read them.
fn counted(ledger: &Ledger, run: &KnownRun) -> Result<Option<RunLine>, ReadError> {
    let last = run.reply.unwrap_or_else(|| ledger.head().size.saturating_sub(1));
    let span = usize::try_from(last.saturating_sub(run.first).saturating_add(1)).unwrap_or(usize::MAX);
    if span > COUNTED_ENTRIES_MAX {
        return Ok(None);
    }
    let filter = Filter::field("run", &run.id);
    let (headers, _) = ledger.reader().listed(&filter, run.first, Order::Ascending, span, span)?;
    Ok(RunLine::of_headers(&headers))
}

/// The callers that have begun runs, by their names on the ledger.
pub(in crate::agent) fn owners(ledger: &Ledger) -> Result<Vec<String>, rusqlite::Error> {
    ledger.state(|state| {
        let mut owners = state.prepare_cached("SELECT DISTINCT owner FROM run")?;
        owners.query_map([], |row| row.get(0))?.collect()
    })
}

/// The runs that match status and principal, from state.db.
fn all(
    ledger: &Ledger,
    query: &RunQuery,
    sees: &mut impl FnMut(&str) -> bool,
) -> Result<Vec<KnownRun>, RunListError> {
    let status = query.status.map(RunStatus::as_str);
    let mut before = query.before.as_ref().map(|before| before.as_str().to_owned());
    let mut found = Vec::new();
    loop {
        let chunk = ledger.state(|state| {
            let mut statement = state.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM run \
                 WHERE (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR owner = ?2) AND (?3 IS NULL OR status = ?3) \
                 AND (?5 IS NULL OR session = ?5) ORDER BY id DESC LIMIT ?4",
            ))?;
            let limit = i64::try_from(CHUNK.max(query.limit)).unwrap_or(i64::MAX);
            let session = query.session.as_ref().map(SessionId::as_str);
            let asked = (before.as_deref(), query.principal.as_deref(), status, limit, session);
            statement.query_map(asked, known_run)?.collect::<Result<Vec<_>, _>>()
        })?;
        let is_last = chunk.len() < CHUNK.max(query.limit);
        before = chunk.last().map(|run| run.id.clone());
        for run in chunk {
            if found.len() < query.limit && sees(&run.owner) {
                found.push(run);
            }
        }
        if is_last || found.len() == query.limit {
            return Ok(found);
        }
    }
}

/// The runs that match a search, from the index; each as state.db has it now.
fn searched(
    ledger: &Ledger,
    index: &Index,
    query: &RunQuery,
    names: &KeyNames,
    sees: &mut impl FnMut(&str) -> bool,
) -> Result<(Vec<KnownRun>, u64), RunListError> {
    let mut before = query.before.as_ref().map(|before| before.as_str().to_owned());
    let mut found = Vec::new();
    loop {
        let chunk = CHUNK.max(query.limit);
        let (lines, covered) =
            index.runs(&query.filter, names, before.as_deref(), chunk).map_err(RunListError::Index)?;
        let is_last = lines.len() < chunk;
        before = lines.last().map(|line| line.run.clone());
        for line in lines {
            if found.len() == query.limit || !sees(&line.owner) {
                continue;
            }
            let Some(run) = of_state(ledger, &line.run)? else { continue };
            // The index may be wrong about the owner; state.db decides.
            if is_asked(query, &run) && sees(&run.owner) {
                found.push(run);
            }
        }
        if is_last || found.len() == query.limit {
            return Ok((found, covered));
        }
    }
}

/// The run that the query names, if that is all it asks for.
fn only_run(filter: &Filter) -> Option<&str> {
    let run = filter.runs()?.into_iter().next()?;
    (*filter == Filter::field("run", run)).then_some(run)
}

/// Whether a run of state.db matches what the query asks apart from its words.
fn is_asked(query: &RunQuery, run: &KnownRun) -> bool {
    query.status.is_none_or(|status| status.as_str() == run.status)
        && query.principal.as_ref().is_none_or(|principal| *principal == run.owner)
        && query.session.as_ref().is_none_or(|session| session.as_str() == run.session)
        && query.before.as_ref().is_none_or(|before| run.id.as_str() < before.as_str())
}

fn of_state(ledger: &Ledger, id: &str) -> Result<Option<KnownRun>, rusqlite::Error> {
    ledger.state(|state| {
        let sql = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
        state.prepare_cached(&sql)?.query_row([id], known_run).optional()
    })
}

pub(super) fn known_run(row: &RowRef<'_>) -> Result<KnownRun, rusqlite::Error> {
    let number = |seq: i64| u64::try_from(seq).unwrap_or(0);
    Ok(KnownRun {
        id: row.get(0)?,
        owner: row.get(1)?,
        first: number(row.get(2)?),
        reply: row.get::<_, Option<i64>>(3)?.map(number),
        status: row.get(4)?,
        session: row.get(5)?,
    })
}

pub(super) fn row(
    ledger: &Ledger,
    names: &KeyNames,
    known: KnownRun,
    line: Option<RunLine>,
) -> Result<RunRow, ReadError> {
    let KnownRun { id, owner, first, reply, status, session } = known;
    let damaged = || ReadError::Damaged(first, "state.db names a run that the ledger does not".to_owned());
    let mut met = None;
    let of_run = |found: Option<Header>| {
        found.filter(|header| header.str("run") == Some(&id)).map(Some).ok_or_else(damaged)
    };
    let asked = unless_damaged(header(ledger, first).and_then(of_run), &mut met)?;
    let answered = reply.map(|seq| unless_damaged(header(ledger, seq), &mut met)).transpose()?.flatten();
    let at_us = |header: &Option<Header>| header.as_ref().and_then(|header| header.u64("wall_us"));
    let (started_us, ended_us) = (at_us(&asked).unwrap_or(0), at_us(&answered));
    let message = asked.as_ref().map(|asked| unless_damaged(message(ledger, asked), &mut met)).transpose()?;
    let (key, user) = match names.of(&owner) {
        Some((key, user)) => (Some(key.to_owned()), user.map(ToOwned::to_owned)),
        None => (None, owner.strip_prefix("os:").map(ToOwned::to_owned)),
    };
    let line = line.unwrap_or_default();
    let count = |n| (!line.run.is_empty()).then_some(n);
    Ok(RunRow {
        run: RunId::parse(&id).ok_or_else(damaged)?,
        session: SessionId::parse(&session),
        status: RunStatus::parse(&status).ok_or_else(damaged)?,
        who: names.shown(&owner),
        key,
        user,
        principal: owner,
        message: message.flatten(),
        started: Wall(started_us).rfc3339(),
        ended: ended_us.map(|us| Wall(us).rfc3339()),
        started_us,
        ended_us,
        calls: count(line.calls),
        denied: count(line.denied),
        invalid: count(line.invalid),
        refused: count(line.refused),
        tools: line.tools,
        first_seq: first,
        reply_seq: reply,
        damaged: met,
    })
}

/// One damaged entry does not hide the others: its number goes into `met`.
fn unless_damaged<T>(
    read: Result<Option<T>, ReadError>,
    met: &mut Option<u64>,
) -> Result<Option<T>, ReadError> {
    match read {
        Err(ReadError::Damaged(seq, _)) => {
            met.get_or_insert(seq);
            Ok(None)
        }
        read => read,
    }
}

fn header(ledger: &Ledger, seq: u64) -> Result<Option<Header>, ReadError> {
    let (found, _) = ledger.reader().headers(&Filter::default(), seq, Order::Ascending, 1, 1)?;
    Ok(found.into_iter().find(|header| header.seq == seq))
}

fn message(ledger: &Ledger, asked: &Header) -> Result<Option<String>, ReadError> {
    if asked.payload_len > LISTED_PAYLOAD_BYTES_MAX {
        return Ok(None);
    }
    let stored = ledger.reader().entry(asked.seq)?;
    let asked: Option<RunRequestPayload> = stored.and_then(|stored| stored.payload());
    Ok(asked.map(|asked| text::visible_line(text::prefix(&asked.message, limits::SHOWN_BYTES_MAX))))
}
