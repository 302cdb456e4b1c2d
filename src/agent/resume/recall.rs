//! Finds a run that waited, and whether it can resume.

use super::rebuild::rebuilt;
use super::sent::SCAN_ENTRIES_MAX;
use crate::agent::api::RunStatus;
use crate::agent::run::RecalledRun;
use crate::agent::shared::Agent;
use crate::gate::{self, Recall};
use crate::ledger::{Filter, Header, Kind, Ledger, Order, ReadError};
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
    let (recalled, provider) = rebuilt(agent, run, &headers, calls, |request| {
        // Such as after a secret was named that the run has read. It is not sent again.
        if !request.is_same() {
            let seq = request.seq;
            tracing::warn!(run = %run, seq, "the request before this entry cannot be built again");
        }
    })?;
    Ok(FoundRun::Ready(Box::new(recalled), provider))
}

/// The calls of a run, read from its entries.
pub(super) fn calls(
    agent: &Agent,
    run: &RunId,
    headers: &[Header],
) -> Result<Vec<gate::Recalled>, ReadError> {
    let seqs: Vec<u64> = headers.iter().filter(|header| is_call(header)).map(|header| header.seq).collect();
    agent.gate().recall(run, &seqs)
}

/// The run's headers, from `first` on, by number.
pub(super) fn entries(ledger: &Ledger, run: &RunId, first: u64) -> Result<Vec<Header>, ReadError> {
    let filter = Filter::field("run", run.as_str());
    let (mut found, mut next) = (Vec::new(), Some(first));
    while let Some(at) = next {
        let (headers, on) =
            ledger.reader().headers(&filter, at, Order::Ascending, SCAN_ENTRIES_MAX, SCAN_ENTRIES_MAX)?;
        found.extend(headers);
        next = on;
    }
    Ok(found)
}

fn is_call(header: &Header) -> bool {
    matches!(
        header.known_kind(),
        Some(
            Kind::CallDecision
                | Kind::CallConnect
                | Kind::CallResult
                | Kind::ApprovalRequest
                | Kind::ApprovalGrant
                | Kind::ApprovalRefuse
        )
    )
}
