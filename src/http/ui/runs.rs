//! `/ui/runs`: the runs, newest first, and the search over them.

use super::page::{self, Here, Page, empty};
use super::state::Ui;
use super::visitor::Visitor;
use super::{format, row};
use crate::agent::{RunQuery, RunRow, RunsPage};
use crate::http::api::runs::run_query;
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::Problem;
use crate::ledger::{Filter, QueryError};
use crate::policy::Power;
use crate::types::{RunId, RunStatus, limits, text};
use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};

/// What the page shows.
struct RunsAsked {
    /// The search, as it was typed.
    q: String,
    wrong: Option<QueryError>,
    query: RunQuery,
}

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    let sight = visitor.seeing(Power::RunRead)?;
    let mut asked = RunsAsked::read(&asked)?;
    let found = if asked.wrong.is_some() {
        RunsPage::default()
    } else {
        let (app, query) = (ui.app.clone(), asked.query.clone());
        let (principal, reads_all) = (visitor.principal().clone(), visitor.may(Power::AuditRead));
        let found = blocking(move || {
            match app.unknown_tool_of_runs(&query.filter, &sight, &principal, reads_all)? {
                Some(unknown) => Ok(Err(unknown)),
                None => Ok(Ok(app.agent.runs(app.index.as_deref(), &sight, &query)?)),
            }
        });
        found.await?.unwrap_or_else(|unknown| {
            asked.wrong = Some(unknown);
            RunsPage::default()
        })
    };
    let size = ui.app.agent.ledger().head().size;
    let same = asked.link("/runs", asked.query.before.as_ref().map(RunId::as_str));
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Runs, title: "Runs", same: &same };
    let body = html! {
        div.title { h1 { "Runs" } }
        (search(&asked))
        @if let Some(why) = &asked.wrong { p.notice.bad role="alert" { (format::line(&why.to_string(), 400)) } }
        @else if found.rows.is_empty() { (nothing(&asked, &visitor.base)) }
        @else {
            (table(&found.rows, &asked.q))
            (steps(&asked, &found))
        }
        @if let Some(covered) = found.covered.filter(|covered| *covered < size) {
            p.muted { "The index covers " (format::count(covered)) " of " (format::count(size)) " entries: the newest runs may be missing." }
        }
    };
    Ok(page.with(&body))
}

impl RunsAsked {
    /// A search that cannot be parsed is shown with the reason; other parameters are as in the API.
    fn read(asked: &[(String, String)]) -> Result<Self, Problem> {
        let q = asked.iter().find(|(name, _)| name == "q").map_or("", |(_, q)| q.as_str());
        let q = text::prefix(q, limits::QUERY_BYTES_MAX).trim().to_owned();
        let rest: Vec<(String, String)> = asked.iter().filter(|(name, _)| name != "q").cloned().collect();
        let mut query = run_query(&rest)?;
        let wrong = match Filter::of_runs(&q) {
            Ok(filter) => {
                query.filter = filter;
                None
            }
            Err(why) => Some(why),
        };
        Ok(Self { q, wrong, query })
    }

    /// The link to a list with these parameters.
    fn link(&self, path: &str, after: Option<&str>) -> String {
        let given = [
            ("q", Some(self.q.as_str()).filter(|q| !q.is_empty())),
            ("status", self.query.status.map(RunStatus::as_str)),
            ("principal", self.query.principal.as_deref()),
            ("after", after),
        ];
        let given: Vec<(&str, &str)> =
            given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        link(path, &given)
    }

    fn is_all(&self) -> bool {
        let RunQuery { status, principal, before, .. } = &self.query;
        self.q.is_empty() && status.is_none() && principal.is_none() && before.is_none()
    }
}

/// The command that starts a first run.
pub(super) fn ask(base: &str) -> String {
    format!(
        "curl -s {base}/agent/run -H \"Authorization: Bearer $PAR_KEY\" \\\n  -H 'content-type: application/json' -d '{{\"message\": \"how is this server doing?\"}}'"
    )
}

fn search(asked: &RunsAsked) -> Markup {
    let query = &asked.query;
    html! {
        form.search method="get" action="/ui/runs" role="search" {
            label.sr for="q" { "Search" }
            input #q type="search" name="q" data-search spellcheck="false" autocomplete="off"
                value=(format::block(&asked.q, limits::QUERY_BYTES_MAX).0)
                placeholder="words of the question, a key or a user; tool:read_file decision:deny since:24h";
            label.sr for="status" { "Status" }
            select #status name="status" {
                option value="" { "any status" }
                @for status in RunStatus::ALL.into_iter().filter(|status| status.is_recorded() || *status == RunStatus::Running) {
                    option value=(status.as_str()) selected[query.status == Some(status)] { (status.as_str()) }
                }
            }
            @if let Some(principal) = &query.principal { input type="hidden" name="principal" value=(format::line(principal, 80)); }
            button type="submit" { "Search" }
        }
        @if let Some(principal) = &query.principal {
            ul.chips aria-label="Conditions" {
                li { a.chip.on href=(RunsAsked { q: asked.q.clone(), wrong: None, query: RunQuery { principal: None, ..query.clone() } }.link("/ui/runs", None))
                    title="remove this condition" { "principal:" (format::line(principal, 60)) " ×" } }
            }
        }
    }
}

fn nothing(asked: &RunsAsked, base: &str) -> Markup {
    html! {
        @if asked.is_all() {
            (empty("No runs yet. Start one with an operator key:", &ask(base)))
        } @else {
            div.empty {
                p { "No run matches. The search takes words of the question, names of keys and users, and terms such as "
                    code { "tool:read_file" } ", " code { "decision:deny" } " and " code { "since:24h" } "." }
                p { a.button href="/ui/runs" { "All runs" } }
            }
        }
    }
}

fn steps(asked: &RunsAsked, found: &RunsPage) -> Markup {
    let next =
        found.rows.last().filter(|_| found.rows.len() == asked.query.limit).map(|row| row.run.as_str());
    html! {
        nav.steps aria-label="Further runs" {
            @if asked.query.before.is_some() { a.button href=(asked.link("/ui/runs", None)) { "Newest" } }
            @if let Some(next) = next { a.button rel="next" href=(asked.link("/ui/runs", Some(next))) { "Older" } }
        }
    }
}

/// Runs in a table that scrolls within itself. A click on a value adds it to the search `q`.
pub(super) fn table(rows: &[RunRow], q: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Runs" {
            table.runs {
                thead { tr {
                    th scope="col" { "asked" } th scope="col" { "status" } th scope="col" { "calls" }
                    th scope="col" { "tools" } th scope="col" { "who" } th scope="col" { "when" }
                    th.n scope="col" { "took" }
                } }
                tbody { @for run in rows { (line(run, q)) } }
            }
        }
    }
}

fn line(run: &RunRow, q: &str) -> Markup {
    let took = run.ended_us.map(|end| format::span(end.saturating_sub(run.started_us)));
    let status = run.status.as_str();
    let message = match (run.damaged, &run.message) {
        (Some(seq), None) => format!("entry {seq} does not verify"),
        (_, message) => format::line(message.as_deref().unwrap_or("(not shown in a list)"), 90),
    };
    let more = |name: &str, value: &str| {
        let q = row::with(q, name, value).unwrap_or_else(|| q.to_owned());
        link("/ui/runs", &[("q", &q)])
    };
    html! {
        tr {
            td.message { a.open href={ "/ui/runs/" (run.run) } { (message) } }
            td { a.v href=(link("/ui/runs", &[("status", status)])) { (page::outcome(status)) } }
            td { (calls(run)) }
            td.tools { @for (at, tool) in run.tools.iter().take(3).enumerate() {
                @if at > 0 { ", " } a.v href=(more("tool", tool)) { (format::line(tool, 32)) }
            } @if run.tools.len() > 3 { " +" (run.tools.len() - 3) } }
            td { a.v href=(more("principal", &run.principal)) title=(format::line(&run.principal, 40)) { (format::line(&run.who, 32)) } }
            td { (format::time(run.started_us)) }
            td.n { (took.as_deref().unwrap_or("–")) }
        }
    }
}

/// The number of calls, and what was not fine about them.
fn calls(run: &RunRow) -> Markup {
    let Some(calls) = run.calls else { return html! { "–" } };
    let count = |n: Option<u64>| n.unwrap_or(0);
    let (denied, invalid, refused) = (count(run.denied), count(run.invalid), count(run.refused));
    html! {
        (format::count(calls))
        @if refused > 0 { " " span.badge.bad { (format::count(refused)) " refused" } }
        @if denied > 0 { " " span.badge.bad { (format::count(denied)) " denied" } }
        @if invalid > 0 { " " span.badge.warn { (format::count(invalid)) " not valid" } }
    }
}
