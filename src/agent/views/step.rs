//! Steps and ranges of an active run.

use crate::agent::api::{LedgerRange, Step, StepLedger};
use crate::gate::CallRecord;
use crate::ledger::Receipt;

/// A step from the gate's record of a call.
pub(in crate::agent) fn step(record: &CallRecord) -> Step {
    Step {
        call: record.call.clone(),
        tool: record.tool.clone(),
        args: record.arguments.clone(),
        decision: record.decision,
        policies: record.policies.clone(),
        status: record.status,
        result: record.result.clone(),
        truncated: record.truncated,
        class: record.class,
        refused: record.refused.clone(),
        nearest: record.nearest.clone(),
        ledger: StepLedger { decision: record.decision_seq, result: record.result_seq },
    }
}

/// The range of a run whose last entry is `receipt`.
pub(in crate::agent) fn range(first: u64, receipt: &Receipt) -> LedgerRange {
    let head = receipt.head();
    LedgerRange {
        first,
        last: receipt.seq(),
        size: head.size,
        root: head.root.hex(),
        checkpoint: receipt.checkpoint().map(str::to_owned),
        damaged: Vec::new(),
    }
}
