//! The entries of a run, and its calls.

use super::sent::SCAN_ENTRIES_MAX;
use crate::agent::shared::Agent;
use crate::gate;
use crate::ledger::{Filter, Header, Kind, Ledger, Order, ReadError};
use crate::types::RunId;

/// The calls of a run, read from its entries.
pub(super) fn calls(
    agent: &Agent,
    run: &RunId,
    headers: &[Header],
) -> Result<Vec<gate::Recalled>, ReadError> {
    let seqs: Vec<u64> = headers.iter().filter(|header| is_call(header)).map(|header| header.seq).collect();
    agent.gate().recall(run, &seqs)
}

/// The headers of a run that ended with the entry `last`, from `first` on, by number.
pub(super) fn entries_until(
    ledger: &Ledger,
    run: &RunId,
    first: u64,
    last: u64,
) -> Result<Vec<Header>, ReadError> {
    let span = usize::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(usize::MAX);
    let (mut found, mut next, mut left) = (Vec::new(), Some(first), span);
    let filter = Filter::field("run", run.as_str());
    while let Some(at) = next.filter(|_| left > 0) {
        let scan = left.min(SCAN_ENTRIES_MAX);
        let (headers, on) = ledger.reader().headers(&filter, at, Order::Ascending, scan, scan)?;
        found.extend(headers);
        (next, left) = (on, left - scan);
    }
    Ok(found)
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
