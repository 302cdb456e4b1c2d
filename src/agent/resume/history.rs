//! What a session holds before one of its runs: its earlier runs, rebuilt one after the other.
//!
//! The ledger alone says it, so that a restart or another process makes the same requests. A run of
//! which something was erased is one line that names the entry; the rest of it is not shown, since
//! a model's words may repeat what it had read.

use super::rebuild::rebuilt;
use super::trail::{calls, entries_until};
use crate::agent::run::{PartState, RecalledRun, SessionHistory};
use crate::agent::shared::Agent;
use crate::ledger::payload::{RunReplyPayload, RunRequestPayload};
use crate::ledger::{Header, Kind, Ledger, ReadError};
use crate::llm::Conversation;
use crate::provenance::SourceTexts;
use crate::types::{Ceiling, DataLabels, Labelled, RunId, RunStatus, SessionId};

/// A run of a session in state.db.
pub(in crate::agent) struct SessionRun {
    pub(in crate::agent) id: RunId,
    pub(in crate::agent) owner: String,
    pub(in crate::agent) first: u64,
    /// The entry of its newest reply.
    pub(in crate::agent) reply: Option<u64>,
    pub(in crate::agent) status: RunStatus,
}

/// What the session of `run` held when it began. `headers` are its own.
pub(super) fn of_run(
    agent: &Agent,
    run: &RunId,
    headers: &[Header],
) -> Result<Option<SessionHistory>, ReadError> {
    let Some(first) = headers.first() else { return Ok(None) };
    let session = first.str("session").and_then(SessionId::parse);
    let Some(session) = session else { return Ok(None) };
    let earlier = runs(agent.ledger(), &session)?.into_iter();
    history(agent, &session, earlier.take_while(|one| one.id != *run && one.first < first.seq))
}

/// What the session holds after these of its runs, which have ended, oldest first; `None` without
/// any. Blocking.
pub(in crate::agent) fn history(
    agent: &Agent,
    session: &SessionId,
    earlier: impl Iterator<Item = SessionRun>,
) -> Result<Option<SessionHistory>, ReadError> {
    let mut held = None;
    for run in earlier {
        held = Some(after(agent, session, &run, held)?);
    }
    Ok(held)
}

/// The runs of a session, oldest first.
pub(in crate::agent) fn runs(ledger: &Ledger, session: &SessionId) -> Result<Vec<SessionRun>, ReadError> {
    let rows = ledger.state(|state| {
        let sql =
            "SELECT id, owner, first_seq, reply_seq, status FROM run WHERE session = ?1 ORDER BY first_seq";
        let mut rows = state.prepare_cached(sql)?;
        let rows = rows.query_map([session.as_str()], |row| {
            let number = |seq: i64| u64::try_from(seq).unwrap_or(0);
            let (id, owner, status): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(4)?);
            let reply = row.get::<_, Option<i64>>(3)?.map(number);
            Ok((id, owner, number(row.get(2)?), reply, status))
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    })?;
    let known = |(id, owner, first, reply, status): (String, String, u64, Option<u64>, String)| {
        let (id, status) = (RunId::parse(&id), RunStatus::parse(&status));
        let damaged = || ReadError::Damaged(first, "state.db has a run without an id or a status".to_owned());
        let (id, status) = id.zip(status).ok_or_else(damaged)?;
        Ok(SessionRun { id, owner, first, reply, status })
    };
    rows.into_iter().map(known).collect()
}

/// The entries of a run of a session.
pub(in crate::agent) fn entries_of(ledger: &Ledger, run: &SessionRun) -> Result<Vec<Header>, ReadError> {
    let last = run.reply.unwrap_or_else(|| ledger.head().size.saturating_sub(1));
    entries_until(ledger, &run.id, run.first, last)
}

/// What the session holds after `run`.
fn after(
    agent: &Agent,
    session: &SessionId,
    run: &SessionRun,
    held: Option<SessionHistory>,
) -> Result<SessionHistory, ReadError> {
    let headers = entries_of(agent.ledger(), run)?;
    if let Some(entry) = first_erased(agent.ledger(), &headers)? {
        return erased(agent, session, &headers, entry, held);
    }
    let calls = calls(agent, &run.id, &headers)?;
    let (recalled, _) = rebuilt(agent, &run.id, &headers, calls, held, |_| {})?;
    Ok(ended(agent, recalled, run.status))
}

/// The first entry of these whose payload is gone and was shown to the model.
fn first_erased(ledger: &Ledger, headers: &[Header]) -> Result<Option<u64>, ReadError> {
    let kinds = [Kind::RunRequest, Kind::ModelReply, Kind::CallDecision, Kind::CallResult];
    for header in headers.iter().filter(|header| kinds.iter().any(|kind| header.is(*kind))) {
        let stored = ledger.reader().entry(header.seq)?;
        if stored.is_none_or(|stored| stored.body.is_none()) {
            return Ok(Some(header.seq));
        }
    }
    Ok(None)
}

/// The session after a run of which `entry` was erased: one line in its place, with the labels of
/// all that it had.
fn erased(
    agent: &Agent,
    session: &SessionId,
    headers: &[Header],
    entry: u64,
    held: Option<SessionHistory>,
) -> Result<SessionHistory, ReadError> {
    let mut labels = DataLabels::default();
    headers.iter().filter_map(Header::labels).for_each(|more| labels.add(&more));
    let ceiling = recorded_ceiling(agent.ledger(), headers)?;
    let SessionHistory { mut conversation, session, sources, ceiling: before, measured } = match held {
        Some(held) => held,
        None => SessionHistory {
            conversation: Conversation::new(Labelled::trusted(String::new())),
            session: agent.session(session.as_str(), 0, &Ceiling::OPEN),
            sources: SourceTexts::new(),
            ceiling: Ceiling::OPEN,
            measured: None,
        },
    };
    let line = agent.secrets().clean(format!("[erased, entry {entry}]"));
    conversation.push_user(Labelled::new(line, labels.clone()));
    Ok(SessionHistory {
        conversation,
        session: session.after(&labels),
        sources,
        ceiling: before.and(&ceiling),
        measured,
    })
}

/// The ceiling of a run, from its request or else its reply. Without both no tool is left: what the
/// run could not use is not known any more.
fn recorded_ceiling(ledger: &Ledger, headers: &[Header]) -> Result<Ceiling, ReadError> {
    for header in headers {
        let Some(stored) = ledger.reader().entry(header.seq)? else { continue };
        let ceiling = match header.known_kind() {
            Some(Kind::RunRequest) => stored.payload().map(|asked: RunRequestPayload| asked.ceiling),
            Some(Kind::RunReply) => stored.payload().map(|reply: RunReplyPayload| reply.ceiling),
            _ => None,
        };
        if let Some(ceiling) = ceiling {
            return Ok(ceiling);
        }
    }
    Ok(Ceiling::of([]))
}

/// The session after a run that has ended: with its answer, or with a line in its place.
fn ended(agent: &Agent, recalled: RecalledRun, status: RunStatus) -> SessionHistory {
    let RecalledRun { begun, mut conversation, open, last, measured, .. } = recalled;
    let has_answer = last.is_some();
    if let Some(open) = open {
        conversation.push_reply(&open.reply);
        for part in open.parts {
            match part.at {
                PartState::Settled(result) => conversation.push_results(vec![*result]),
                PartState::Fresh | PartState::Again(_) | PartState::Waiting => {
                    conversation.push_not_run(&part.call);
                }
            }
        }
    }
    if let Some(last) = last {
        conversation.push_reply(&last);
    }
    if !has_answer {
        // A word of this program: the status is one of a closed set.
        let line = format!("[PAR: the run ended here without an answer: {}]", status.as_str());
        conversation.push_user(Labelled::trusted(agent.secrets().clean(line)));
    }
    let session = begun.session;
    SessionHistory { conversation, session, sources: begun.sources, ceiling: begun.ceiling, measured }
}
