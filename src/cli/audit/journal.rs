//! `par audit verify --launcher`: compares the launchers' journals with the decisions on the
//! ledger.

use crate::cli::exit::Fail;
use crate::launcher::{Journals, Ordered};
use crate::ledger::payload::{CallDecisionPayload, CallResultPayload};
use crate::ledger::{Header, Kind, ReadError, Reader, Stored, Verdict, Verification};
use crate::types::json::canonical;
use crate::types::{Decision, Digest};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Adds to `report` every difference between the journals at `path` and the ledger: orders without
/// a decision, and results without an order. Returns a line that says what was compared.
pub(super) fn compare(report: &mut Verification, reader: &Reader, path: &Path) -> Result<String, Fail> {
    // First, because a server may be at work: every order of these entries is in the journals,
    // which are read next.
    let size = reader.size().map_err(Fail::failed)?;
    let journals = Journals::read(path).map_err(Fail::usage)?;
    for fault in &journals.faults {
        report.find(None, Verdict::Diverged, format!("the launcher's journal: {fault}"));
    }
    let mut ordered = BTreeMap::new();
    for order in &journals.orders {
        if ordered.insert(order.decision, order).is_some() {
            report.find(Some(order.decision), Verdict::Diverged, wrong(order, "was ordered twice"));
        }
        if let Err(claim) = decided(reader, order).map_err(Fail::failed)? {
            report.find(Some(order.decision), Verdict::Diverged, wrong(order, &claim.to_string()));
        }
    }
    let results = results(reader, size, journals.span_us).map_err(Fail::failed)?;
    for (decision, end) in &results {
        let what = match ordered.get(decision) {
            None => "it has a result, but no launcher was ordered to start it".to_owned(),
            Some(order) => match &order.end {
                Some(result_end) if result_end != end => {
                    format!("ended by `{result_end}` at {}, but by `{end}` here", order.place)
                }
                _ => continue,
            },
        };
        report.find(Some(*decision), Verdict::Diverged, what);
    }
    let (orders, results) = (journals.orders.len(), results.len());
    Ok(format!("the launcher's journal: {orders} orders, {results} results of its time"))
}

fn wrong(order: &Ordered, what: &str) -> String {
    format!("the order at {} of `{}` {what}", order.place, order.tool)
}

/// A claim of an order that the ledger contradicts.
#[derive(Debug, thiserror::Error)]
enum FalseClaim {
    #[error("claims a decision that does not exist")]
    NoDecision,
    #[error("claims an entry that does not allow a call")]
    NotAllowed,
    #[error("claims the decision on another tool or manifest")]
    OtherTool,
    #[error("claims the decision on other arguments")]
    OtherArguments,
}

/// Whether the ledger has the decision that an order claims. The inner `Err` says which claim is
/// false.
fn decided(reader: &Reader, order: &Ordered) -> Result<Result<(), FalseClaim>, ReadError> {
    let Some(stored) = reader.entry(order.decision)? else {
        return Ok(Err(FalseClaim::NoDecision));
    };
    let header = &stored.header;
    if !header.is(Kind::CallDecision) || header.decision() != Some(Decision::Allow) {
        return Ok(Err(FalseClaim::NotAllowed));
    }
    if header.str("tool") != Some(&order.tool) || header.str("manifest") != Some(&order.manifest) {
        return Ok(Err(FalseClaim::OtherTool));
    }
    // If the payload is erased, only the tool can be compared.
    let Some(body) = &stored.body else { return Ok(Ok(())) };
    let payload: Option<CallDecisionPayload> = header.payload_of(body);
    let arguments = payload.and_then(|payload| canonical(&payload.arguments?).ok());
    let is_same = arguments.is_some_and(|text| Digest::sha256(text.as_bytes()).hex() == order.arguments);
    Ok(if is_same { Ok(()) } else { Err(FalseClaim::OtherArguments) })
}

/// The decisions among the first `size` entries, within a span of time, whose calls ran, each with
/// its end.
fn results(
    reader: &Reader,
    size: u64,
    span_us: Option<(u64, u64)>,
) -> Result<BTreeMap<u64, String>, ReadError> {
    let Some((first, last)) = span_us else { return Ok(BTreeMap::new()) };
    let within = |header: &Header| header.u64("wall_us").is_some_and(|at| (first..=last).contains(&at));
    let mut asked = BTreeSet::new();
    let mut all = BTreeMap::new();
    let wants = |header: &Header| {
        if header.is(Kind::CallDecision) && within(header) {
            asked.insert(header.seq);
        }
        header.is(Kind::CallResult) && header.u64("ref").is_some_and(|decision| asked.contains(&decision))
    };
    reader.walk(0..size, wants, |stored: Stored| {
        let result: Option<CallResultPayload> = stored.payload();
        // A call that was never confined ran nothing and may never have been ordered. The front's
        // own tools run without a launcher.
        let is_ordered = |layers: &[String]| !layers.is_empty() && layers != ["front"];
        let ran = result.filter(|result| is_ordered(&result.layers));
        if let (Some(decision), Some(result)) = (stored.header.u64("ref"), ran) {
            all.insert(decision, result.end.word().to_owned());
        }
    })?;
    Ok(all)
}
