//! Sessions: several runs of one caller, each of which knows what the earlier ones read and said.

use super::api::{RunError, SessionRefusal};
use super::front::{self, FrontAsker};
use super::resume::{self, SessionRun};
use super::run::SessionHistory;
use super::shared::Agent;
use super::turns::SessionTurn;
use crate::auth::Principal;
use crate::gate::Granted;
use crate::ledger::payload::SessionEndPayload;
use crate::ledger::{Draft, Filter, Order, ReadError};
use crate::policy::Door;
use crate::types::clock::Wall;
use crate::types::{RunId, RunStatus, SessionId, limits, text};
use rusqlite::OptionalExtension as _;

/// The session of a run that is about to begin.
pub(super) struct EnteredSession {
    pub(super) id: SessionId,
    /// What it holds; `None` for a new one.
    pub(super) history: Option<SessionHistory>,
    /// Held until the run has ended.
    pub(super) turn: Option<SessionTurn>,
}

impl EnteredSession {
    /// A new session.
    pub(super) fn new() -> Self {
        Self { id: SessionId::generate(), history: None, turn: None }
    }
}

impl Agent {
    /// The session that a request names, if it may go on: it is the caller's, it has not ended, no
    /// run of it is under way, and all that it has read may be read under the rules of now.
    pub(super) async fn enter(
        &self,
        principal: &Principal,
        door: Door,
        named: &str,
    ) -> Result<EnteredSession, RunError> {
        let refused = |why| Err(RunError::Session(why));
        let Some(id) = SessionId::parse(named) else { return refused(SessionRefusal::Unknown) };
        let turn = self.turns.enter(&id).ok_or(RunError::Session(SessionRefusal::Entered))?;
        let (agent, principal) = (self.clone(), principal.clone());
        let entered = tokio::task::spawn_blocking(move || {
            let runs = agent.open_runs(&principal, &id)?;
            if runs.len() >= limits::SESSION_RUNS_MAX {
                return Err(RunError::Session(SessionRefusal::Full));
            }
            if let Some(entry) = agent.withheld(&principal, door, &id, &runs)? {
                return Err(RunError::Session(SessionRefusal::Withheld { entry }));
            }
            let history = resume::history(&agent, &id, runs.into_iter())?;
            Ok(EnteredSession { id, history, turn: Some(turn) })
        });
        entered.await.map_err(|e| RunError::Ledger(e.to_string()))?
    }

    /// Ends a session of the caller: no run goes on with it. Returns the entry that says so, once
    /// it is durable. `granted` is the power that was used; `None` for the owner of the ledger
    /// without a server.
    pub async fn end_session(
        &self,
        principal: &Principal,
        granted: Option<&Granted>,
        id: &SessionId,
        reason: Option<&str>,
    ) -> Result<u64, RunError> {
        let turn = self.turns.enter(id).ok_or(RunError::Session(SessionRefusal::Entered))?;
        match self.open_runs(principal, id) {
            Err(RunError::Session(SessionRefusal::Idle)) | Ok(_) => {}
            Err(other) => return Err(other),
        }
        let most = limits::APPROVAL_REASON_BYTES_MAX;
        if reason.is_some_and(|reason| reason.len() > most) {
            return Err(RunError::Invalid("reason", format!("must have at most {most} bytes")));
        }
        let reason = reason.map(|reason| text::visible_line(&self.secrets().clean(reason.to_owned())));
        let payload = SessionEndPayload { reason, power: granted.map(Granted::record) };
        let draft =
            Draft { session: Some(id.clone()), principal: Some(principal.id()), ..Draft::new(payload) };
        let receipt = self.ledger().append_one(draft).await?;
        drop(turn);
        Ok(receipt.seq())
    }

    /// The runs of a session of the caller that may go on, oldest first.
    fn open_runs(&self, principal: &Principal, id: &SessionId) -> Result<Vec<SessionRun>, RunError> {
        let runs = resume::runs(self.ledger(), id)?;
        let Some(newest) = runs.last() else { return Err(RunError::Session(SessionRefusal::Unknown)) };
        // That a session exists is not said to others.
        if runs.iter().any(|run| run.owner != principal.id()) {
            return Err(RunError::Session(SessionRefusal::Unknown));
        }
        if let Some(entry) = self.ended_at(id)? {
            return Err(RunError::Session(SessionRefusal::Ended { entry }));
        }
        if !newest.status.is_recorded() || newest.status == RunStatus::Waiting {
            let (run, status) = (newest.id.clone(), newest.status);
            return Err(RunError::Session(SessionRefusal::Busy { run, status }));
        }
        if self.is_idle(newest)? {
            return Err(RunError::Session(SessionRefusal::Idle));
        }
        Ok(runs)
    }

    /// The `session.end` of a session.
    fn ended_at(&self, id: &SessionId) -> Result<Option<u64>, RunError> {
        let ended = self.ledger().state(|state| {
            let sql = "SELECT seq FROM session_end WHERE session = ?1";
            state.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get::<_, i64>(0)).optional()
        });
        let ended = ended.map_err(|e| RunError::Ledger(e.to_string()))?;
        Ok(ended.map(|seq| u64::try_from(seq).unwrap_or(u64::MAX)))
    }

    /// Whether the newest run of a session ended too long ago.
    fn is_idle(&self, newest: &SessionRun) -> Result<bool, RunError> {
        let at = newest.reply.unwrap_or(newest.first);
        let (headers, _) = self.ledger().reader().headers(&Filter::default(), at, Order::Ascending, 1, 1)?;
        let ended_us = headers.first().and_then(|header| header.u64("wall_us")).unwrap_or(0);
        Ok(Wall::now().0.saturating_sub(ended_us) > limits::SESSION_IDLE_MS * 1_000)
    }

    /// The first result of these runs that the caller may not read now.
    fn withheld(
        &self,
        principal: &Principal,
        door: Door,
        id: &SessionId,
        runs: &[SessionRun],
    ) -> Result<Option<u64>, ReadError> {
        let asker = FrontAsker {
            agent: self.clone(),
            principal: principal.clone(),
            door,
            run: RunId::generate(),
            session_id: id.clone(),
            session: self.session(id.as_str(), limits::CALLS_PER_RUN_MAX, principal.ceiling()),
            channel: door.channel(),
        };
        for run in runs {
            let entries = resume::entries_of(self.ledger(), run)?;
            if let Some(entry) = front::withheld(&asker, &entries)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}
