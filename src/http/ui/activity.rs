//! Counts of the last hours, read from headers.

use super::format;
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::ledger::{Filter, Header, Kind, Order};
use crate::types::{Decision, RunStatus, clock, limits};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Number of bars in the chart.
pub(super) const BARS: usize = 24;
/// Headers read under one lock of the reader.
const CHUNK: usize = 1_000;
const HOUR_US: u64 = 3_600_000_000;

/// The decisions of one span of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bar {
    pub(super) allow: u64,
    pub(super) asks: u64,
    pub(super) deny: u64,
}

/// Counts of the last hours.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) hours: u64,
    pub(super) runs: u64,
    pub(super) failed: u64,
    pub(super) total: Bar,
    pub(super) bars: [Bar; BARS],
    /// Denied calls by tool and principal.
    pub(super) denied: BTreeMap<(String, String), u64>,
    /// The newest change of policy in this time: entry and time.
    pub(super) policy: Option<(u64, u64)>,
    /// Whether older entries of these hours were not counted.
    pub(super) is_cut: bool,
    now_us: u64,
}

impl Window {
    /// Counts the window. Reads a bounded number of entries. Blocking.
    pub(super) fn count(app: &App, hours: u64) -> Result<Self, Problem> {
        let mut window = Self { hours, now_us: clock::Wall::now().0, ..Self::default() };
        let since = window.now_us.saturating_sub(hours * HOUR_US);
        let reader = app.agent.ledger().reader();
        let (mut from, mut looked) = (Some(u64::MAX), 0);
        while let Some(at) = from {
            if looked >= limits::OVERVIEW_SCAN_MAX {
                window.is_cut = true;
                break;
            }
            let (headers, next) = reader.headers(&Filter::default(), at, Order::Descending, CHUNK, CHUNK)?;
            looked += headers.len();
            for header in &headers {
                if header.u64("wall_us").unwrap_or(0) < since {
                    return Ok(window);
                }
                window.add(header);
            }
            from = next;
        }
        Ok(window)
    }

    fn add(&mut self, header: &Header) {
        let at = header.u64("wall_us").unwrap_or(0);
        match header.known_kind() {
            Some(Kind::RunRequest) => self.runs += 1,
            Some(Kind::RunReply) if header.str("status") == Some(RunStatus::Failed.as_str()) => {
                self.failed += 1
            }
            Some(Kind::PolicyLoad) if self.policy.is_none() => self.policy = Some((header.seq, at)),
            Some(Kind::CallDecision) => {
                let decision = header.decision();
                let ago = self.now_us.saturating_sub(at).saturating_mul(BARS as u64);
                let place = usize::try_from(ago / (self.hours.max(1) * HOUR_US)).unwrap_or(BARS);
                // The newest decisions are in the last bar.
                if let Some(bar) = self.bars.iter_mut().rev().nth(place) {
                    bar.add(decision);
                }
                self.total.add(decision);
                if decision == Some(Decision::Deny) {
                    let text = |name| header.str(name).unwrap_or_default().to_owned();
                    *self.denied.entry((text("tool"), text("principal"))).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    /// Draws the decisions over time: bars in three colours, and the same numbers in a table.
    pub(super) fn chart(&self) -> Markup {
        let most = self.bars.iter().map(Bar::sum).max().unwrap_or(0).max(1);
        let scaled = |count: u64| count * 96 / most;
        if self.total.sum() == 0 {
            return html! { p.none { "No calls were decided in this period." } };
        }
        html! {
            svg.chart viewBox="0 0 480 104" role="img" preserveAspectRatio="none"
                aria-label={ "Decisions over the last " (self.hours) " hours; the numbers are in the table below" } {
                line.axis x1="0" y1="100" x2="480" y2="100" {}
                @for (at, bar) in self.bars.iter().enumerate() {
                    @let x = at * 20 + 3;
                    @let (allow, asks, deny) = (scaled(bar.allow), scaled(bar.asks), scaled(bar.deny));
                    rect.good x=(x) width="14" y=(100 - allow) height=(allow) {}
                    rect.warn x=(x) width="14" y=(100 - allow - asks) height=(asks) {}
                    rect.bad x=(x) width="14" y=(100 - (allow + asks + deny).min(100)) height=(deny) {}
                }
            }
            details {
                summary { "Numbers" }
                div.scroll tabindex="0" role="region" aria-label="Decisions over time" {
                    table {
                        thead { tr { th scope="col" { "from (UTC)" } th scope="col" { "allow" }
                            th scope="col" { "needs approval" } th scope="col" { "deny" } } }
                        tbody {
                            @for (at, bar) in self.bars.iter().enumerate() {
                                tr { td { (self.begin(at)) } td.n { (bar.allow) } td.n { (bar.asks) } td.n { (bar.deny) } }
                            }
                        }
                    }
                }
            }
        }
    }

    fn begin(&self, at: usize) -> String {
        let left = u64::try_from(BARS.saturating_sub(at)).unwrap_or(0);
        format::time(self.now_us.saturating_sub(left * self.hours * HOUR_US / BARS as u64))
    }
}

impl Bar {
    fn add(&mut self, decision: Option<Decision>) {
        match decision {
            Some(Decision::Allow) => self.allow += 1,
            Some(Decision::NeedsApproval) => self.asks += 1,
            // On the chart, an invalid call counts as a denial.
            Some(Decision::Deny | Decision::Invalid) | None => self.deny += 1,
        }
    }

    pub(super) fn sum(&self) -> u64 {
        self.allow + self.asks + self.deny
    }
}
