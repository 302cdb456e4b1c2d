//! `who_was_denied`: calls that did not run, added up by caller, tool, rule and class.

use super::answer::FrontAnswer;
use super::asker::FrontAsker;
use super::stored::is_denial;
use crate::ledger::{Filter, Header, Kind, Ledger, Order, ReadError};
use crate::policy::{Over, Power};
use crate::tools::builtin::Fitting;
use crate::types::clock::Wall;
use crate::types::{RefusalClass, limits};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Hours back if the call does not say.
const HOURS: u64 = 24;
/// Rows if the call does not say.
const LIMIT_ROWS: u64 = 50;
/// Bytes of the result that are reserved for JSON around the rows.
const FRAME_BYTES: usize = 1_024;
/// Pages of headers that are read.
const PAGES_MAX: usize = 25;
/// The tool of a call that names none of PAR's.
const UNKNOWN_TOOL: &str = "unknown";

/// What denials are added up by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DeniedKey {
    principal: String,
    tool: String,
    rules: Vec<String>,
    class: &'static str,
}

/// How often, and when last.
#[derive(Default)]
struct DeniedCount {
    calls: u64,
    last_us: u64,
}

/// Returns the denials of the caller's own runs; of all runs, if the caller may read the audit.
pub(super) async fn list(asker: FrontAsker, arguments: Value, room: usize) -> FrontAnswer {
    let unread = |why: String| Err(format!("the record cannot be read: {why}")).into();
    match tokio::task::spawn_blocking(move || count(&asker, &arguments, room)).await {
        Ok(Ok(answer)) => Ok(answer).into(),
        Ok(Err(error)) => unread(error.to_string()),
        Err(error) => unread(error.to_string()),
    }
}

fn count(asker: &FrontAsker, arguments: &Value, room: usize) -> Result<Value, ReadError> {
    let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
    let hours = number("hours").unwrap_or(HOURS);
    let since_us = Wall::now().0.saturating_sub(hours.saturating_mul(3_600_000_000));
    let gate = asker.agent.gate();
    let sees_all = gate.may(&asker.principal, Power::AuditRead, Over::Server, asker.door).is_ok();
    let id = asker.id();
    let sees_own =
        gate.sight(&asker.principal, Power::RunRead, asker.door).is_ok_and(|sight| sight.sees(&id));
    let (mut counted, mut is_whole) = (BTreeMap::new(), true);
    if sees_all || sees_own {
        let only = (!sees_all).then_some(id.as_str());
        is_whole = count_since(asker, only, since_us, &mut counted)?;
    }
    let calls: u64 = counted.values().map(|count: &DeniedCount| count.calls).sum();
    let mut rows: Vec<(DeniedKey, DeniedCount)> = counted.into_iter().collect();
    rows.sort_by_key(|(_, count)| (std::cmp::Reverse(count.calls), std::cmp::Reverse(count.last_us)));
    let mut list = Fitting::new(number("limit").unwrap_or(LIMIT_ROWS), room.saturating_sub(FRAME_BYTES));
    for (DeniedKey { principal, tool, rules, class }, DeniedCount { calls, last_us }) in rows {
        let last_at = Wall(last_us).rfc3339();
        list.push(json!({ "principal": principal, "tool": tool, "rules": rules, "class": class,
                          "calls": calls, "last_at": last_at }));
    }
    let (denied, is_cut) = list.finish();
    Ok(json!({
        "hours": hours,
        "runs": if sees_all { "all" } else { "own" },
        "calls_denied": calls,
        "denied": denied,
        "truncated": is_cut || !is_whole,
    }))
}

/// Counts from the newest entry back to `since_us`, calls of `only` if it is given. Returns whether
/// it got there.
fn count_since(
    asker: &FrontAsker,
    only: Option<&str>,
    since_us: u64,
    counted: &mut BTreeMap<DeniedKey, DeniedCount>,
) -> Result<bool, ReadError> {
    let ledger = asker.agent.ledger();
    let known = known_tools(asker, only.is_none());
    let mut next = Some(ledger.head().size.saturating_sub(1));
    for _ in 0..PAGES_MAX {
        let Some(at) = next else { return Ok(true) };
        // A page of every entry: only a header says how old it is.
        let scan_max = limits::PAGE_SCAN_MAX;
        let (headers, on) =
            ledger.reader().headers(&Filter::default(), at, Order::Descending, scan_max, scan_max)?;
        for header in headers {
            let at_us = header.u64("wall_us").unwrap_or(0);
            if at_us < since_us {
                return Ok(true);
            }
            if !is_denial(&header) {
                continue;
            }
            // The principal of a person's refusal is the one who refused: the request names the
            // caller.
            let asked = header.u64("ref").filter(|_| header.is(Kind::ApprovalRefuse));
            let asked = asked.map(|seq| of_request(ledger, seq)).transpose()?.flatten();
            let of_caller = asked.as_ref().unwrap_or(&header);
            let principal = of_caller.str("principal").unwrap_or_default();
            if only.is_some_and(|only| only != principal) {
                continue;
            }
            let tool = of_caller.str("tool").filter(|tool| known.contains(*tool)).unwrap_or(UNKNOWN_TOOL);
            let key = DeniedKey {
                principal: principal.to_owned(),
                tool: tool.to_owned(),
                rules: header.policies(),
                class: class_of(&header),
            };
            let count: &mut DeniedCount = counted.entry(key).or_default();
            count.calls += 1;
            count.last_us = count.last_us.max(at_us);
        }
        next = on;
    }
    Ok(next.is_none())
}

/// The names that a caller may learn: a tool that is not offered is as unknown as one that does not
/// exist.
fn known_tools(asker: &FrontAsker, sees_all: bool) -> BTreeSet<String> {
    let gate = asker.agent.gate();
    match sees_all {
        true => gate.rules().catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
        false => {
            let (_, offered) = gate.offered(&asker.principal, &asker.session);
            offered.iter().map(|manifest| manifest.name.clone()).collect()
        }
    }
}

/// The header of the request that a person refused.
fn of_request(ledger: &Ledger, seq: u64) -> Result<Option<Header>, ReadError> {
    let (found, _) = ledger.reader().headers(&Filter::default(), seq, Order::Ascending, 1, 1)?;
    Ok(found.into_iter().find(|header| header.seq == seq))
}

/// The class of a refusal.
fn class_of(header: &Header) -> &'static str {
    if header.is(Kind::ApprovalRefuse) {
        return RefusalClass::Person.as_str();
    }
    let class = header.decision().and_then(|decision| RefusalClass::of(decision, header.str("status")));
    class.map_or(RefusalClass::Policy.as_str(), RefusalClass::as_str)
}
