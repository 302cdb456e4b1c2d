//! Counts of the last hours: from the index, and from the ledger for what the index does not cover.

use super::format;
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::ledger::query::{CountedEntries, SPAN_US};
use crate::ledger::{Filter, Header, Kind, Order};
use crate::types::{Decision, clock, limits};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Headers read under one lock of the reader.
const CHUNK: usize = 1_000;

/// The windows of time that the page offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeRange {
    pub(super) hours: u64,
    pub(super) text: &'static str,
    bars: usize,
    /// Spans of time in one bar.
    spans: u64,
}

pub(super) const RANGES: [TimeRange; 3] = [
    TimeRange { hours: 1, text: "1 hour", bars: 12, spans: 1 },
    TimeRange { hours: 24, text: "24 hours", bars: 24, spans: 12 },
    TimeRange { hours: 168, text: "7 days", bars: 28, spans: 72 },
];

/// The decisions of one span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) allow: u64,
    pub(super) asks: u64,
    pub(super) deny: u64,
    /// Not valid: no rule was asked.
    pub(super) invalid: u64,
}

/// Denied calls: the tool, the principal, and the class of the refusal if it is recorded.
pub(super) type Denied = (String, String, String);

/// Counts from the beginning of a bar until now.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) range: TimeRange,
    pub(super) runs: u64,
    /// Ended turns of runs by status.
    pub(super) ended: BTreeMap<String, u64>,
    pub(super) total: Bar,
    pub(super) bars: Vec<Bar>,
    pub(super) denied: BTreeMap<Denied, u64>,
    /// The newest change of policy in this time: entry and time.
    pub(super) policy: Option<(u64, u64)>,
    /// Number of entries that the index covers, if it does not cover all; the others were read.
    pub(super) covered: Option<u64>,
    /// Whether older entries of these hours were not counted.
    pub(super) is_cut: bool,
    /// The first span of time.
    from: u64,
}

impl Window {
    /// Counts the window. Blocking.
    pub(super) fn count(app: &App, range: TimeRange) -> Result<Self, Problem> {
        let now = clock::Wall::now().0 / SPAN_US;
        let bars = u64::try_from(range.bars).unwrap_or(1);
        let from = (now / range.spans * range.spans).saturating_sub(range.spans * bars.saturating_sub(1));
        let mut window = Self {
            range,
            runs: 0,
            ended: BTreeMap::new(),
            total: Bar::default(),
            bars: vec![Bar::default(); range.bars],
            denied: BTreeMap::new(),
            policy: None,
            covered: None,
            is_cut: false,
            from,
        };
        let covered = match app.index.as_ref().map(|index| index.counts(from)) {
            Some(Ok((counts, covered))) => {
                counts.iter().for_each(|counted| window.add(counted));
                covered
            }
            Some(Err(error)) => {
                tracing::error!(%error, "the index cannot be read: the newest entries are counted instead");
                0
            }
            None => 0,
        };
        window.count_rest(app, covered)?;
        window.policy = newest_policy(app, from)?;
        Ok(window)
    }

    /// Counts the entries from `covered` on, which the index does not have, newest first.
    fn count_rest(&mut self, app: &App, covered: u64) -> Result<(), Problem> {
        let size = app.agent.ledger().head().size;
        if covered >= size {
            return Ok(());
        }
        self.covered = Some(covered);
        let reader = app.agent.ledger().reader();
        let (mut next, mut looked) = (Some(size - 1), 0);
        while let Some(at) = next.filter(|at| *at >= covered) {
            if looked >= limits::OVERVIEW_SCAN_MAX {
                self.is_cut = true;
                return Ok(());
            }
            let (headers, more) = reader.listed(&Filter::default(), at, Order::Descending, CHUNK, CHUNK)?;
            looked += headers.len();
            for header in headers.iter().filter(|header| header.seq >= covered) {
                let counted = counted(header);
                if counted.at < self.from {
                    return Ok(());
                }
                self.add(&counted);
            }
            next = more;
        }
        Ok(())
    }

    fn add(&mut self, counted: &CountedEntries) {
        match Kind::parse(&counted.kind) {
            Some(Kind::RunRequest) => self.runs += counted.n,
            Some(Kind::RunReply) => *self.ended.entry(counted.status.clone()).or_default() += counted.n,
            Some(Kind::CallDecision) => {
                let decision = Decision::parse(&counted.decision);
                let place = counted.at.saturating_sub(self.from) / self.range.spans.max(1);
                let bar = usize::try_from(place).ok().and_then(|place| self.bars.get_mut(place));
                bar.into_iter().chain([&mut self.total]).for_each(|bar| bar.add(decision, counted.n));
                if decision == Some(Decision::Deny) {
                    let of = (counted.tool.clone(), counted.principal.clone(), counted.status.clone());
                    *self.denied.entry(of).or_default() += counted.n;
                }
            }
            _ => {}
        }
    }

    /// How many turns of runs ended with this status.
    pub(super) fn ended(&self, status: &str) -> u64 {
        self.ended.get(status).copied().unwrap_or(0)
    }

    /// The beginning of the window, as text.
    pub(super) fn since(&self) -> String {
        format::time(self.from.saturating_mul(SPAN_US)).get(..16).unwrap_or_default().to_owned()
    }

    /// Draws the decisions over time: bars in three colours, and the same numbers in a table.
    pub(super) fn chart(&self) -> Markup {
        let most = self.bars.iter().map(Bar::sum).max().unwrap_or(0).max(1);
        let scaled = |count: u64| count * 96 / most;
        let width = 480 / u64::try_from(self.bars.len().max(1)).unwrap_or(1);
        if self.total.sum() == 0 {
            return html! { p.none { "No calls were decided in this period." } };
        }
        html! {
            svg.chart viewBox="0 0 480 104" role="img" preserveAspectRatio="none"
                aria-label={ "Decisions over the last " (self.range.text) "; the numbers are in the table below" } {
                line.axis x1="0" y1="100" x2="480" y2="100" {}
                @for (at, bar) in (0..).zip(&self.bars) {
                    @let x = at * width + width / 7;
                    @let wide = width * 5 / 7;
                    // No rule was asked about a call that is not valid: it has no colour.
                    @let (allow, asks, deny) = (scaled(bar.allow), scaled(bar.asks), scaled(bar.deny));
                    rect.good x=(x) width=(wide) y=(100 - allow) height=(allow) {}
                    rect.warn x=(x) width=(wide) y=(100 - allow - asks) height=(asks) {}
                    rect.bad x=(x) width=(wide) y=(100 - (allow + asks + deny).min(100)) height=(deny) {}
                }
            }
            p.scale { span { (self.since()) } span { "at most " (format::count(most)) " a bar" } span { "now" } }
            details {
                summary { "Numbers" }
                div.scroll tabindex="0" role="region" aria-label="Decisions over time" {
                    table {
                        thead { tr { th scope="col" { "from (UTC)" } th scope="col" { "allow" }
                            th scope="col" { "needs approval" } th scope="col" { "deny" } th scope="col" { "not valid" } } }
                        tbody {
                            @for (at, bar) in (0..).zip(&self.bars) {
                                tr { td { (self.begin(at)) } td.n { (bar.allow) } td.n { (bar.asks) } td.n { (bar.deny) } td.n { (bar.invalid) } }
                            }
                        }
                    }
                }
            }
        }
    }

    fn begin(&self, at: u64) -> String {
        format::time(self.from.saturating_add(at * self.range.spans).saturating_mul(SPAN_US))
    }
}

/// One entry, as the index counts it.
fn counted(header: &Header) -> CountedEntries {
    let text = |name: &str| header.str(name).unwrap_or_default().to_owned();
    let decision = text("decision");
    let tool = if decision == Decision::Invalid.as_str() { String::new() } else { text("tool") };
    let at = header.u64("wall_us").unwrap_or(0) / SPAN_US;
    let (kind, status, principal) = (header.kind.clone(), text("status"), text("principal"));
    CountedEntries { at, kind, decision, status, tool, principal, n: 1 }
}

fn newest_policy(app: &App, from: u64) -> Result<Option<(u64, u64)>, Problem> {
    let loads = Filter::field("kind", Kind::PolicyLoad.as_str());
    let found = app.headers(&loads, u64::MAX, Order::Descending, 1)?;
    let newest = found.headers.first().map(|header| (header.seq, header.u64("wall_us").unwrap_or(0)));
    Ok(newest.filter(|(_, at)| *at / SPAN_US >= from))
}

impl Bar {
    fn add(&mut self, decision: Option<Decision>, n: u64) {
        match decision {
            Some(Decision::Allow) => self.allow += n,
            Some(Decision::NeedsApproval) => self.asks += n,
            Some(Decision::Invalid) => self.invalid += n,
            Some(Decision::Deny) | None => self.deny += n,
        }
    }

    pub(super) fn sum(&self) -> u64 {
        self.allow + self.asks + self.deny + self.invalid
    }
}
