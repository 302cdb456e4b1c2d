//! How often each tool was allowed and failed within the last hour, for policies that limit it.
//!
//! Reading the numbers and counting a call happen under one lock: concurrent calls never see the
//! same number. After a restart the counters are rebuilt from the ledger.

use crate::ledger::{Filter, Header, Hour, Kind, Order, ReadError, Reader, Spent};
use crate::policy::{Counts, Ran};
use crate::types::{Decision, StepStatus};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How far back calls count, in microseconds.
const WINDOW_US: u64 = 3_600_000_000;
/// Headers read under one lock of the reader.
const PAGE: usize = 4_096;

/// The counters of every tool. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(Arc<Mutex<BTreeMap<String, Uses>>>);

/// Wall times in microseconds, oldest first.
#[derive(Debug, Default)]
struct Uses {
    calls: VecDeque<u64>,
    failures: VecDeque<u64>,
}

/// The counters, locked for one decision.
pub(super) struct CountersGuard<'a> {
    uses: MutexGuard<'a, BTreeMap<String, Uses>>,
    counters: &'a Counters,
}

/// An allowed call that is counted; uncounted again if it is dropped before it is kept.
#[derive(Debug)]
pub(super) struct Counted {
    counters: Counters,
    tool: String,
    at_us: u64,
    is_kept: bool,
}

/// How `tool` was used within the last hour, according to the ledger. Blocking.
pub fn counts(reader: &Reader, tool: &str, now_us: u64) -> Result<Counts, ReadError> {
    let counters = Counters::from_reader(reader, now_us, |_| ())?;
    Ok(counters.turn().counts(tool, now_us))
}

/// What `principal` has run within the last hour, according to the ledger. Blocking.
pub fn ran(reader: &Reader, principal: &str, now_us: u64) -> Result<Ran, ReadError> {
    let spent = RefCell::new(Spent::default());
    let _counters = Counters::from_reader(reader, now_us, |header| spent.borrow_mut().count(header))?;
    Ok(ran_of(spent.into_inner().hour(principal, now_us)))
}

/// In the form that policies see.
pub(super) fn ran_of(hour: Hour) -> Ran {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Ran { runs_hour: number(hour.runs), bytes_hour: number(hour.bytes) }
}

impl Counters {
    /// The counters according to the ledger; `also` gets every header of the last hour, and some
    /// before it. Blocking.
    pub(super) fn from_reader(
        reader: &Reader,
        now_us: u64,
        also: impl Fn(&Header),
    ) -> Result<Self, ReadError> {
        let counters = Self::default();
        let mut uses = counters.uses();
        let mut next = reader.size()?.checked_sub(1);
        while let Some(at) = next {
            let (headers, on) = reader.headers(&Filter::default(), at, Order::Descending, PAGE, PAGE)?;
            for header in &headers {
                also(header);
                let at_us = header.u64("wall_us").unwrap_or(now_us);
                let of_tool = header.str("tool").filter(|_| is_recent(at_us, now_us));
                let Some(tool) = of_tool else { continue };
                let of = uses.entry(tool.to_owned()).or_default();
                let status = header.str("status");
                let is_failure = |word| StepStatus::parse(word).is_none_or(StepStatus::is_failure);
                match (header.known_kind(), header.decision(), status) {
                    (Some(Kind::CallDecision), Some(Decision::Allow), _) => of.calls.push_front(at_us),
                    (Some(Kind::CallResult), _, status) if status.is_some_and(is_failure) => {
                        of.failures.push_front(at_us)
                    }
                    _ => {}
                }
            }
            // A clock that was set back leaves older times among the newest: a whole page must be
            // too old.
            let is_over = headers.iter().all(|h| h.u64("wall_us").is_some_and(|at| !is_recent(at, now_us)));
            next = on.filter(|_| !is_over);
        }
        drop(uses);
        Ok(counters)
    }

    /// Locks the counters.
    pub(super) fn turn(&self) -> CountersGuard<'_> {
        CountersGuard { uses: self.uses(), counters: self }
    }

    /// Records that a call of `tool` failed.
    pub(super) fn failed(&self, tool: &str, now_us: u64) {
        self.uses().entry(tool.to_owned()).or_default().failures.push_back(now_us);
    }

    fn uses(&self) -> MutexGuard<'_, BTreeMap<String, Uses>> {
        // A panic elsewhere leaves the numbers consistent: each change is one insertion or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountersGuard<'_> {
    /// The numbers for `tool` now.
    pub(super) fn counts(&mut self, tool: &str, now_us: u64) -> Counts {
        let Some(of) = self.uses.get_mut(tool) else { return Counts::default() };
        for times in [&mut of.calls, &mut of.failures] {
            while times.front().is_some_and(|at| !is_recent(*at, now_us)) {
                times.pop_front();
            }
        }
        let newest = of.failures.back().map(|at| now_us.saturating_sub(*at) / 1_000_000);
        Counts {
            calls_hour: number(of.calls.len()),
            failures_hour: number(of.failures.len()),
            failed_ago_s: newest.and_then(|age| i64::try_from(age).ok()),
        }
    }

    /// Counts a call that is allowed.
    pub(super) fn count(mut self, tool: &str, now_us: u64) -> Counted {
        self.uses.entry(tool.to_owned()).or_default().calls.push_back(now_us);
        Counted { counters: self.counters.clone(), tool: tool.to_owned(), at_us: now_us, is_kept: false }
    }
}

impl Counted {
    /// The decision is durable: the call counts.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut uses = self.counters.uses();
        if let Some(calls) = uses.get_mut(&self.tool).map(|of| &mut of.calls)
            && let Some(at) = calls.iter().rposition(|at| *at == self.at_us)
        {
            calls.remove(at);
        }
    }
}

fn is_recent(at_us: u64, now_us: u64) -> bool {
    at_us.saturating_add(WINDOW_US) > now_us
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Counters, WINDOW_US};

    #[test]
    fn an_unkept_call_is_uncounted_and_old_calls_expire() {
        let counters = Counters::default();
        let calls = |now: u64| counters.turn().counts("deploy", now).calls_hour;
        counters.turn().count("deploy", 10).keep();
        drop(counters.turn().count("deploy", 20));
        let second = counters.turn().count("deploy", 30);
        assert_eq!((calls(30), counters.turn().counts("other", 30).calls_hour), (2, 0));
        second.keep();
        assert_eq!((calls(WINDOW_US + 9), calls(WINDOW_US + 10), calls(WINDOW_US + 30)), (2, 1, 0));
    }

    #[test]
    fn the_age_of_the_newest_failure_is_reported() {
        let counters = Counters::default();
        assert_eq!(counters.turn().counts("deploy", 5).failed_ago_s, None);
        counters.failed("deploy", 1_000_000);
        counters.failed("deploy", 2_000_000);
        let counts = counters.turn().counts("deploy", 62_500_000);
        assert_eq!((counts.failures_hour, counts.failed_ago_s), (2, Some(60)));
    }
}
