//! Cancels runs.

use super::shared::Agent;
use crate::auth::Principal;
use crate::gate::{CancelledRun, HaltError, Refused, StopInForce};
use crate::ledger::ReadError;
use crate::policy::{Door, Over, Power};
use crate::types::{NamedRun, RunId, RunStatus, SessionId, StopScope};
use rusqlite::OptionalExtension as _;

/// Why a run is not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// No such run, or the caller may not read it.
    #[error("no run has this id")]
    Unknown,
    /// It has ended.
    #[error("the run has ended: it is `{}`", .0.as_str())]
    Ended(RunStatus),
    /// The policies do not let this caller cancel it.
    #[error(transparent)]
    MayNot(Box<Refused>),
    /// It could not be recorded, or the reason is too long.
    #[error(transparent)]
    Stop(#[from] HaltError),
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<rusqlite::Error> for CancelError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(error.into())
    }
}

/// A run in state.db.
struct RunFound {
    owner: String,
    first: u64,
    /// Its status, if it has ended.
    ended: Option<RunStatus>,
}

impl Agent {
    /// Cancels a run that has not ended: its calls that have not begun are denied, its reads and
    /// its request to a model end, and a call that acts is waited for. Then the run ends as
    /// [`RunStatus::Cancelled`].
    ///
    /// Returns once the `run.cancel` is durable; the run ends after that. A second call returns the
    /// first stop.
    pub async fn cancel(
        &self,
        by: &Principal,
        door: Door,
        run: &RunId,
        reason: Option<String>,
    ) -> Result<StopInForce, CancelError> {
        let RunFound { owner, first, ended } = self.run_found(run)?.ok_or(CancelError::Unknown)?;
        let over = Over::Owned { id: run.as_str(), owner: &owner };
        if self.gate().may(by, Power::RunRead, over, door).is_err() {
            return Err(CancelError::Unknown);
        }
        let granted = self.gate().may(by, Power::RunCancel, over, door);
        let granted = granted.map_err(|refused| CancelError::MayNot(Box::new(refused)))?;
        if let Some(ended) = ended {
            return Err(CancelError::Ended(ended));
        }
        let is_it = |stop: &&StopInForce| matches!(&stop.scope, StopScope::Run(of) if of == run);
        if let Some(stop) = self.gate().stops().iter().find(is_it) {
            return Ok(stop.clone());
        }
        let damaged = || ReadError::Damaged(first, "a run does not begin here".to_owned());
        let stored = self.ledger().reader().entry(first)?.ok_or_else(damaged)?;
        let session = stored.header.str("session").and_then(SessionId::parse).ok_or_else(damaged)?;
        let named = NamedRun { caller: owner, session, run: run.clone() };
        let stop = self.gate().cancel(by, &granted, &CancelledRun { named, first }, reason).await?;
        // It may have ended while the cancel was written.
        if let Some(ended) = self.run_found(run)?.and_then(|found| found.ended) {
            self.gate().cancelled(run);
            return Err(CancelError::Ended(ended));
        }
        Ok(stop)
    }

    fn run_found(&self, run: &RunId) -> Result<Option<RunFound>, rusqlite::Error> {
        self.ledger().state(|state| {
            let sql = "SELECT owner, first_seq, status FROM run WHERE id = ?1";
            let mut row = state.prepare_cached(sql)?;
            let row = row.query_row([run.as_str()], |row| {
                // A run that has not ended is `running` or `waiting` there.
                let status = RunStatus::parse(&row.get::<_, String>(2)?);
                let ended = status.filter(|is| is.is_recorded() && *is != RunStatus::Waiting);
                let first = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
                Ok(RunFound { owner: row.get(0)?, first, ended })
            });
            row.optional()
        })
    }
}
