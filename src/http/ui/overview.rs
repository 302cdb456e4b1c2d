//! `/ui/`: the state of the server, and what needs attention.

use super::activity::Window;
use super::page::{self, Here, Page, empty};
use super::state::Ui;
use super::visitor::Visitor;
use super::{format, row, runs};
use crate::agent::{RunQuery, RunRow, RunStatus};
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::Problem;
use crate::policy::Power;
use crate::types::clock;
use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};

/// Number of recent runs in the list.
const RECENT: usize = 8;
/// Number of waiting runs that are named.
const WAITING: usize = 5;
/// The windows of time, in hours.
const HOURS: [(u64, &str); 3] = [(1, "1 hour"), (24, "24 hours"), (168, "7 days")];

struct Overview {
    window: Window,
    recent: Vec<RunRow>,
    waiting: Vec<RunRow>,
    obstacles: Vec<String>,
}

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    visitor.holding(Power::AuditRead)?;
    let asked = asked.iter().find(|(name, _)| name == "hours").and_then(|(_, hours)| hours.parse().ok());
    let hours = HOURS.iter().map(|(hours, _)| *hours).find(|hours| Some(*hours) == asked).unwrap_or(24);
    let app = ui.app.clone();
    let facts = blocking(move || {
        let runs = |status, limit| app.agent.all_runs(&RunQuery { status, limit, ..RunQuery::default() });
        Ok(Overview {
            recent: runs(None, RECENT)?,
            waiting: runs(Some(RunStatus::Waiting), WAITING)?,
            obstacles: app.agent.obstacle().into_iter().chain(app.authority.obstacle()).collect(),
            window: Window::count(&app, hours)?,
        })
    });
    let facts = facts.await?;
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Overview, title: "Overview", same: "/health" };
    Ok(page.with(&body(&visitor, &facts)))
}

fn body(visitor: &Visitor, facts: &Overview) -> Markup {
    let window = &facts.window;
    html! {
        div.title {
            h1 { "Overview" }
            ul.switch aria-label="Time range" {
                @for (hours, text) in HOURS {
                    li { a href={ "/ui/?hours=" (hours) } aria-current=[(hours == window.hours).then_some("true")] { (text) } }
                }
            }
        }
        (figures(visitor, facts))
        div.columns.wide {
            section.card aria-labelledby="decisions" {
                h2 #decisions { "Decisions" }
                ul.legend {
                    li { a href="/ui/audit?q=decision%3Aallow" { span.dot.good {} "allow " b { (format::count(window.total.allow)) } } }
                    li { a href="/ui/audit?q=decision%3Aneeds_approval" { span.dot.warn {} "needs approval " b { (format::count(window.total.asks)) } } }
                    li { a href="/ui/audit?q=decision%3Adeny" { span.dot.bad {} "deny " b { (format::count(window.total.deny)) } } }
                }
                (window.chart())
                @if window.is_cut { p.muted { "Only the newest entries were counted: the actual numbers are higher." } }
            }
            section.card aria-labelledby="attention" { h2 #attention { "Needs attention" } (attention(facts)) }
        }
        section aria-labelledby="recent" {
            div.title { h2 #recent { "Recent runs" } @if visitor.may(Power::RunRead) { a href="/ui/runs" { "All runs" } } }
            @if facts.recent.is_empty() {
                (empty("No runs yet. Start one with an operator key:", &runs::ask(&visitor.base)))
            } @else {
                (runs::table(&facts.recent))
            }
        }
    }
}

fn figures(visitor: &Visitor, facts: &Overview) -> Markup {
    let window = &facts.window;
    let waiting = facts.waiting.len();
    // Further ones are not counted: the list shows them.
    let waiting = if waiting == WAITING { format!("{WAITING}+") } else { waiting.to_string() };
    let answers = if visitor.may(Power::ApprovalRead) { "/ui/approvals" } else { "/ui/runs?status=waiting" };
    html! {
        ul.figures {
            li { a.card href="/ui/runs" { span { "Runs" } b { (format::count(window.runs)) } } }
            li { a.card href="/ui/runs?status=failed" { span { "Failed" } b.bad[window.failed > 0] { (format::count(window.failed)) } } }
            li { a.card href="/ui/audit?q=decision%3Adeny" { span { "Denied calls" } b { (format::count(window.total.deny)) } } }
            li { a.card href=(answers) { span { "Waiting for approval" } b.warn[!facts.waiting.is_empty()] { (waiting) } } }
        }
    }
}

fn attention(facts: &Overview) -> Markup {
    let mut denied: Vec<_> = facts.window.denied.iter().filter(|(_, count)| **count > 1).collect();
    denied.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let now = clock::Wall::now().0;
    let is_calm = facts.obstacles.is_empty()
        && facts.waiting.is_empty()
        && denied.is_empty()
        && facts.window.failed == 0;
    html! {
        ul.plain {
            @for what in &facts.obstacles { li { span.badge.bad { "degraded" } " " (format::line(what, 200)) } }
            @for run in &facts.waiting {
                li { (page::outcome("waiting")) " " a href={ "/ui/runs/" (run.run) } { (format::line(run.message.as_deref().unwrap_or("a run"), 60)) }
                    " " span.muted { (format::span(now.saturating_sub(run.started_us))) } }
            }
            @if facts.window.failed > 0 {
                li { (page::outcome("failed")) " " a href="/ui/runs?status=failed" { "runs: " (format::count(facts.window.failed)) } }
            }
            @for ((tool, who), count) in denied.iter().take(5) {
                @let q = denials(tool, who);
                li { (page::outcome("deny")) " " (format::count(**count)) " × "
                    a href=(link("/ui/audit", &[("q", &q)])) { (format::line(tool, 32)) } " by " (format::line(who, 24)) }
            }
            @if is_calm { li.muted { "Nothing. Repeated denials, failed runs and waiting runs appear here." } }
            @if let Some((seq, at)) = facts.window.policy {
                li { span.badge.plain { "policy" } " " a href={ "/ui/audit/" (seq) } { "loaded" } " "
                    span.muted { (format::span(now.saturating_sub(at))) " ago" } }
            }
        }
    }
}

/// The query for denials of a tool by a principal, as far as the query language can express it.
fn denials(tool: &str, who: &str) -> String {
    let q = "kind:call.decision decision:deny".to_owned();
    let q = row::with(&q, "tool", tool).unwrap_or(q);
    row::with(&q, "principal", who).unwrap_or(q)
}
