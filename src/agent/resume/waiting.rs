//! Resumes runs that waited for an approval.
//!
//! A waiting run consists only of its entries: it has no task, child or connection. One task serves
//! all of them. It sleeps until an approval is requested or answered, or until the next one
//! expires.

use super::recall::{self, FoundRun};
use crate::agent::api::{AnswerBy, RunError, RunReply, RunStatus};
use crate::agent::run::{Begun, PartState, RecalledRun};
use crate::agent::shared::Agent;
use crate::agent::{run, views};
use crate::auth::{Authority, Principal, Refusal};
use crate::gate::{AnswerError, Gate, StopInForce};
use crate::ledger::{AppendError, Draft, ReadError, Ref};
use crate::llm::{Direct, Proposer, Provider};
use crate::policy::{Door, Over, Power};
use crate::types::clock::Wall;
use crate::types::{RunId, StopScope, Stoppable, limits};
use rusqlite::OptionalExtension as _;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Finds the principals under which runs resume, as far as they may still run.
#[derive(Clone, Debug)]
pub struct Requesters {
    /// The keys and the users of this host.
    pub authority: Authority,
}

/// Why a run did not resume.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// Its entries or the keys cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The outcome of its approvals cannot be recorded.
    #[error(transparent)]
    Answer(AnswerError),
    /// It resumed and could not be recorded.
    #[error(transparent)]
    Run(RunError),
}

impl<E: Into<ReadError>> From<E> for ResumeError {
    fn from(error: E) -> Self {
        Self::Read(error.into())
    }
}

impl From<AppendError> for ResumeError {
    fn from(error: AppendError) -> Self {
        Self::Run(error.into())
    }
}

impl Agent {
    /// Resumes `run` if each of its approvals is answered or was requested under rules that have
    /// changed since. Returns `None` if it still waits or has ended, otherwise the new reply, once
    /// it is durable.
    ///
    /// Not to be called twice at once for the same run: the gate would refuse the decisions of the
    /// second call.
    pub async fn resume(
        &self,
        requesters: &Requesters,
        run: &RunId,
    ) -> Result<Option<RunReply>, ResumeError> {
        let Some((owner, first)) = waiting(self, run)? else { return Ok(None) };
        if let Some(cancel) = cancelled(self).into_iter().find(|(of, _)| of == run) {
            return end(self, &owner, run, cancel.1.to_string()).await.map(Some);
        }
        let (agent, wanted) = (self.clone(), run.clone());
        let found = tokio::task::spawn_blocking(move || recall::find(&agent, &wanted, first)).await;
        let found = found.map_err(|e| RunError::Ledger(e.to_string())).map_err(ResumeError::Run)?;
        let (recalled, provider) = match found? {
            FoundRun::Ready(recalled, provider) => (recalled, provider),
            FoundRun::NotReady => return Ok(None),
        };
        if let Some(halt) = halted(self, &owner, &recalled) {
            tracing::info!(run = %run, halt = halt.seq, "a waiting run goes on waiting: {halt}");
            return Ok(None);
        }
        let principal = match requesters.recall(self.gate(), &owner, recalled.begun.door).await {
            Ok(principal) => principal,
            // This does not speak against the key: whether it may still run is unknown.
            Err(Refusal::Unreadable | Refusal::Mismatch) => {
                return Err(unreadable("the requester's key cannot be read"));
            }
            Err(refusal) => {
                tracing::warn!(run = %run, principal = owner, ?refusal, "a waiting run ends: its requester may not run");
                let why = "cancelled: the key that started this run may no longer run".to_owned();
                return end(self, &owner, run, why).await.map(Some);
            }
        };
        let _place = self.wait_for_place(&owner).await;
        tracing::info!(run = %run, principal = %owner, "a waiting run resumes");
        let provider: Arc<dyn Provider> = match Proposer::parse(&provider) {
            // Its only call was proposed before it waited, so there is nothing to propose.
            Some(Proposer::Person) => Arc::new(Direct::new(String::new(), String::new())),
            _ => self.provider.clone(),
        };
        run::resume(self, &principal, provider, *recalled).await.map(Some).map_err(ResumeError::Run)
    }

    /// Serves waiting runs until `stop` is ready: closes expired approvals and resumes runs whose
    /// approvals are answered. Active runs then have [`limits::STOP_MS_MAX`] to finish. Those that
    /// do not finish resume at the next start.
    pub async fn serve_waiting(&self, requesters: Requesters, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut going = JoinSet::new();
        // INVARIANT: each run is active at most once. One that panicked stays in the set until the
        // next start.
        let mut under_way: BTreeSet<RunId> = BTreeSet::new();
        // Runs that were tried since the last request or answer, so that a run that cannot resume
        // is not retried in a loop.
        let mut seen: BTreeSet<RunId> = BTreeSet::new();
        loop {
            // On a damaged ledger everything that is open stays as it is.
            let next_us = if self.ledger().damage().is_some() { None } else { self.expire().await };
            for run in ready(self) {
                if !under_way.contains(&run) && seen.insert(run.clone()) {
                    under_way.insert(run.clone());
                    let (agent, requesters) = (self.clone(), requesters.clone());
                    going.spawn(async move {
                        let went = agent.resume(&requesters, &run).await;
                        (run, went.map(|reply| reply.map(|reply| reply.status)))
                    });
                }
            }
            tokio::select! {
                () = &mut stop => break,
                () = self.gate().approvals_changed() => seen.clear(),
                () = sleep_until(next_us) => {}
                Some(ended) = going.join_next() => {
                    if let Some(run) = log_outcome(ended) {
                        under_way.remove(&run);
                    }
                }
            }
        }
        let bound = Duration::from_millis(limits::STOP_MS_MAX);
        let rest = async { while going.join_next().await.is_some() {} };
        if tokio::time::timeout(bound, rest).await.is_err() {
            tracing::warn!("stopped with resumed runs unfinished: the time for stopping is over");
        }
    }
}

impl Agent {
    /// Closes expired approvals. Returns when the next one expires.
    async fn expire(&self) -> Option<u64> {
        self.gate().expire().await.unwrap_or_else(|e| {
            tracing::error!(error = %e, "expired approvals were not closed");
            None
        })
    }
}

impl Requesters {
    /// The principal that asked through `door`, if it may still run through it.
    async fn recall(&self, gate: &Gate, owner: &str, door: Door) -> Result<Principal, Refusal> {
        let principal = self.authority.recall(owner).await?;
        match gate.may(&principal, Power::Run, Over::Server, door) {
            Ok(_) => Ok(principal),
            Err(why) => {
                tracing::warn!(principal = owner, %why, "the requester may no longer run");
                Err(Refusal::Unknown)
            }
        }
    }
}

/// Logs how a resumed run ended.
fn log_outcome(
    ended: Result<(RunId, Result<Option<RunStatus>, ResumeError>), tokio::task::JoinError>,
) -> Option<RunId> {
    let (run, went) = match ended {
        Ok(ended) => ended,
        Err(e) => {
            tracing::error!(error = %e, "a waiting run did not resume");
            return None;
        }
    };
    match went {
        Ok(Some(status)) => tracing::info!(run = %run, status = status.as_str(), "a run resumed"),
        Ok(None) => tracing::info!(run = %run, "a waiting run did not resume yet"),
        Err(e) => tracing::error!(run = %run, error = %e, "a waiting run did not resume"),
    }
    Some(run)
}

async fn sleep_until(wall_us: Option<u64>) {
    match wall_us {
        // A moment longer, because rounding must not end the sleep early.
        Some(at) => {
            let left = Duration::from_micros(at.saturating_sub(Wall::now().0)) + Duration::from_millis(1);
            tokio::time::sleep(left).await;
        }
        None => std::future::pending().await,
    }
}

/// The runs that are being cancelled, with the stop of each.
fn cancelled(agent: &Agent) -> Vec<(RunId, StopInForce)> {
    let stops = agent.gate().stops();
    let of_run = |stop: &StopInForce| match &stop.scope {
        StopScope::Run(run) => Some((run.clone(), stop.clone())),
        _ => None,
    };
    stops.iter().filter_map(of_run).collect()
}

/// The halt that covers a waiting run, or one of its calls that would be decided again: no grant is
/// spent under a halt.
fn halted(agent: &Agent, owner: &str, run: &RecalledRun) -> Option<StopInForce> {
    let Begun { run: id, session_id: session, .. } = &run.begun;
    let parts = run.open.iter().flat_map(|open| &open.parts);
    let tools = parts.filter(|part| matches!(part.at, PartState::Again(_) | PartState::Fresh));
    let tools = tools.map(|part| Some(part.call.tool.as_str())).chain([None]);
    tools
        .map(|tool| Stoppable { caller: owner, session, run: id, tool })
        .find_map(|what| agent.gate().stop_of(&what))
}

/// Waiting runs without an open approval under the rules in force, and those that a person
/// cancelled.
fn ready(agent: &Agent) -> Vec<RunId> {
    let bundle = agent.gate().rules().bundle;
    // With broken policies no caller may run. That does not speak against the requesters: their
    // runs resume once the policies are correct.
    if !bundle.broken().is_empty() || agent.ledger().damage().is_some() {
        return Vec::new();
    }
    let policy = bundle.digest().hex();
    let found = agent.ledger().state(|state| {
        let sql = "SELECT id FROM run WHERE status = 'waiting' AND NOT EXISTS (SELECT 1 FROM approval \
                   WHERE approval.run = run.id AND state = 'pending' AND policy = ?1) ORDER BY first_seq";
        let mut ids = state.prepare_cached(sql)?;
        let ids = ids.query_map([policy.as_str()], |row| row.get::<_, String>(0))?;
        ids.filter_map(|id| id.map(|id| RunId::parse(&id)).transpose()).collect::<Result<Vec<_>, _>>()
    });
    let mut found = found.unwrap_or_else(|e| {
        tracing::error!(error = %e, "waiting runs cannot be read");
        Vec::new()
    });
    for (run, _) in cancelled(agent) {
        if !found.contains(&run) && matches!(waiting(agent, &run), Ok(Some(_))) {
            found.push(run);
        }
    }
    found
}

/// The owner and first entry of a waiting run.
fn waiting(agent: &Agent, run: &RunId) -> Result<Option<(String, u64)>, rusqlite::Error> {
    agent.ledger().state(|state| {
        let sql = "SELECT owner, first_seq FROM run WHERE id = ?1 AND status = 'waiting'";
        let mut row = state.prepare_cached(sql)?;
        let row = row.query_row([run.as_str()], |row| {
            Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or(u64::MAX)))
        });
        row.optional()
    })
}

fn unreadable(what: &str) -> ResumeError {
    ResumeError::Run(RunError::Ledger(what.to_owned()))
}

/// Ends a waiting run, with `why` as its answer. Its approvals become void.
async fn end(agent: &Agent, owner: &str, run: &RunId, why: String) -> Result<RunReply, ResumeError> {
    let reply = views::find(agent.ledger(), run, |_| true)?;
    let mut reply = reply.ok_or_else(|| unreadable("the run is gone"))?;
    let first = reply.ledger.take().map_or(0, |range| range.first);
    reply.status = RunStatus::Cancelled;
    reply.answer = Some(why);
    reply.said_by = Some(AnswerBy::Par);
    let draft = Draft {
        run: Some(run.clone()),
        session: Some(reply.session.clone()),
        principal: Some(owner.to_owned()),
        answers: Some(Ref::Seq(first)),
        status: Some(RunStatus::Cancelled.as_str()),
        ..Draft::new(reply.payload())
    };
    let receipt = agent.ledger().append_one(draft).await?;
    agent.gate().cancelled(run);
    reply.ledger = Some(views::range(first, &receipt));
    Ok(reply)
}
