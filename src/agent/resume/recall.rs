//! Finds a run that waited, and whether it can resume.

use super::history;
use super::rebuild::rebuilt;
use super::trail::{calls, entries};
use crate::agent::api::RunStatus;
use crate::agent::run::RecalledRun;
use crate::agent::shared::Agent;
use crate::gate::Recall;
use crate::ledger::{Kind, ReadError};
use crate::types::RunId;

/// The state of a waiting run.
#[derive(Debug)]
pub(super) enum FoundRun {
    /// The run can resume, with the provider of this name.
    Ready(Box<RecalledRun>, String),
    /// An approval is still open, or the run has ended.
    NotReady,
}

/// Rebuilds `run`, whose `run.request` is the entry `first`. Blocking.
pub(super) fn find(agent: &Agent, run: &RunId, first: u64) -> Result<FoundRun, ReadError> {
    let headers = entries(agent.ledger(), run, first)?;
    let status = headers.iter().rev().find(|header| header.is(Kind::RunReply));
    let status = status.and_then(|header| header.str("status")).and_then(RunStatus::parse);
    if status != Some(RunStatus::Waiting) {
        return Ok(FoundRun::NotReady);
    }
    let calls = calls(agent, run, &headers)?;
    if calls.iter().any(|call| matches!(call.recall, Recall::Waiting)) {
        return Ok(FoundRun::NotReady);
    }
    let history = history::of_run(agent, run, &headers)?;
    let (recalled, provider) = rebuilt(agent, run, &headers, calls, history, |request| {
        // Such as after a secret was named that the run has read. It is not sent again.
        if !request.is_same() {
            let seq = request.seq;
            tracing::warn!(run = %run, seq, "the request before this entry cannot be built again");
        }
    })?;
    Ok(FoundRun::Ready(Box::new(recalled), provider))
}
