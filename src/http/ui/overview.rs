//! `/ui/`: the state of the server, and what needs attention.

use super::activity::{Denied, RANGES, TimeRange, Window};
use super::page::{self, Here, Page, empty};
use super::state::Ui;
use super::visitor::Visitor;
use super::{format, row, runs};
use crate::agent::{RunQuery, RunRow, RunStatus};
use crate::auth::key_names;
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::Problem;
use crate::ledger::ReadError;
use crate::ledger::query::KeyNames;
use crate::policy::Power;
use crate::types::clock;
use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};

/// Number of recent runs in the list.
const RECENT: usize = 8;
/// Number of waiting runs that are named.
const WAITING: usize = 5;
/// Number of repeated denials that are named.
const DENIALS: usize = 5;

struct Overview {
    window: Window,
    recent: Vec<RunRow>,
    waiting: Vec<RunRow>,
    obstacles: Vec<String>,
    names: KeyNames,
}

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    visitor.holding(Power::AuditRead)?;
    let asked = asked.iter().find(|(name, _)| name == "hours").and_then(|(_, hours)| hours.parse().ok());
    let [_, day, _] = RANGES;
    let range = RANGES.into_iter().find(|range| Some(range.hours) == asked).unwrap_or(day);
    let app = ui.app.clone();
    let facts = blocking(move || facts(&app, range)).await?;
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Overview, title: "Overview", same: "/health" };
    Ok(page.with(&body(&visitor, &facts)))
}

fn facts(app: &crate::http::app::App, range: TimeRange) -> Result<Overview, Problem> {
    let index = app.index.as_deref();
    let runs = |status, limit| {
        let query = RunQuery { status, limit, ..RunQuery::default() };
        app.agent.all_runs(index, &query).map(|page| page.rows)
    };
    Ok(Overview {
        recent: runs(None, RECENT)?,
        waiting: runs(Some(RunStatus::Waiting), WAITING)?,
        obstacles: app.agent.obstacle().into_iter().chain(app.authority.obstacle()).collect(),
        window: Window::count(app, range)?,
        names: app.agent.ledger().state(key_names).map_err(ReadError::from)?,
    })
}

fn body(visitor: &Visitor, facts: &Overview) -> Markup {
    let window = &facts.window;
    html! {
        div.title {
            h1 { "Overview" }
            ul.switch aria-label="Time range" {
                @for range in RANGES {
                    li { a href={ "/ui/?hours=" (range.hours) } aria-current=[(range == window.range).then_some("true")] { (range.text) } }
                }
            }
        }
        (figures(visitor, facts))
        div.columns {
            section.card aria-labelledby="attention" { h2 #attention { "Needs attention" } (attention(facts)) }
            section.card aria-labelledby="decisions" {
                h2 #decisions { "Decisions" }
                ul.legend {
                    li { a href="/ui/audit?q=decision%3Aallow" { span.dot.good {} "allow " b { (format::count(window.total.allow)) } } }
                    li { a href="/ui/audit?q=decision%3Aneeds_approval" { span.dot.warn {} "needs approval " b { (format::count(window.total.asks)) } } }
                    li { a href="/ui/audit?q=decision%3Adeny" { span.dot.bad {} "deny " b { (format::count(window.total.deny)) } } }
                }
                (window.chart())
                (covered(window))
            }
        }
        section aria-labelledby="recent" {
            div.title { h2 #recent { "Recent runs" } @if visitor.may(Power::RunRead) { a href="/ui/runs" { "All runs" } } }
            @if facts.recent.is_empty() {
                (empty("No runs yet. Start one with an operator key:", &runs::ask(&visitor.base)))
            } @else {
                (runs::table(&facts.recent, ""))
            }
        }
    }
}

/// Says how exact the counts are, if they are not.
fn covered(window: &Window) -> Markup {
    html! {
        @if let Some(covered) = window.covered {
            p.muted {
                "The index covers " (format::count(covered)) " entries; "
                @if window.is_cut { "of the others only the newest were counted: the actual numbers are higher." }
                @else { "the others were counted one by one." }
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
    let failed = window.ended(RunStatus::Failed.as_str());
    let refused = window.ended(RunStatus::Refused.as_str());
    let title = format!("since {} UTC", window.since());
    html! {
        ul.figures {
            li { a.card href=(answers) { span { "Waiting for approval" } b.warn[!facts.waiting.is_empty()] { (waiting) } } }
            li { a.card href="/ui/runs?status=failed" title=(title) { span { "Failed runs" } b.bad[failed > 0] { (format::count(failed)) } } }
            li { a.card href="/ui/runs?status=refused" title=(title) { span { "Refused by a person" } b { (format::count(refused)) } } }
            li { a.card href="/ui/audit?q=decision%3Adeny" title=(title) { span { "Denied calls" } b { (format::count(window.total.deny)) } } }
            li { a.card href="/ui/runs" title=(title) { span { "Runs" } b { (format::count(window.runs)) } } }
        }
    }
}

/// Ends of runs that a person should look at, and how a sentence says that.
const ENDS: [(RunStatus, &str); 3] = [
    (RunStatus::Failed, "failed"),
    (RunStatus::Limit, "ended at a limit"),
    (RunStatus::Interrupted, "was cut off by a crash or a stop"),
];

fn attention(facts: &Overview) -> Markup {
    let mut denied: Vec<(&Denied, u64)> =
        facts.window.denied.iter().map(|(of, count)| (of, *count)).filter(|(_, count)| *count > 1).collect();
    denied.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let now = clock::Wall::now().0;
    let ended = ENDS.map(|(status, said)| (status.as_str(), said, facts.window.ended(status.as_str())));
    let is_calm = facts.obstacles.is_empty()
        && facts.waiting.is_empty()
        && denied.is_empty()
        && ended.iter().all(|(_, _, count)| *count == 0);
    html! {
        ul.plain {
            @for what in &facts.obstacles { li { span.badge.bad { "degraded" } " " (format::line(what, 200)) } }
            @for run in &facts.waiting {
                li { (page::outcome("waiting")) " " a href={ "/ui/runs/" (run.run) } { (format::line(run.message.as_deref().unwrap_or("a run"), 60)) }
                    " " span.muted { "of " (format::line(&run.who, 32)) ", " (format::span(now.saturating_sub(run.started_us))) } }
            }
            @for (status, said, count) in ended.iter().filter(|(_, _, count)| *count > 0) {
                li { (page::outcome(status)) " " a href=(link("/ui/runs", &[("status", status)])) {
                    (format::counted(*count, "run")) " " @if *count == 1 { (said) } @else { (said.replacen("was ", "were ", 1)) }
                } }
            }
            @for (of, count) in denied.iter().take(DENIALS) { (denial(facts, of, *count)) }
            @if is_calm { li.muted { "Nothing. Repeated denials, failed runs and waiting runs appear here." } }
            @if let Some((seq, at)) = facts.window.policy {
                li { span.badge.plain { "policy" } " " a href={ "/ui/audit/" (seq) } { "loaded" } " "
                    span.muted { (format::span(now.saturating_sub(at))) " ago" } }
            }
        }
    }
}

/// One line for repeated denials: how often, which tool, whose, and by what class of refusal.
fn denial(facts: &Overview, (tool, by, class): &Denied, count: u64) -> Markup {
    let q = "kind:call.decision decision:deny".to_owned();
    let q = row::with(&q, "tool", tool).unwrap_or(q);
    let q = row::with(&q, "principal", by).unwrap_or(q);
    let who = facts.names.shown(by);
    html! {
        li { (page::outcome("deny")) " " (format::count(count)) " × "
            a href=(link("/ui/audit", &[("q", &q)])) { (format::line(tool, 32)) } " of " (format::line(&who, 32))
            @if !class.is_empty() { " " span.muted { "(" (format::line(class, 16)) ")" } } }
    }
}
