//! `/ui/runs`: the runs, newest first.

use super::format;
use super::page::{self, Here, Page, empty};
use super::state::Ui;
use super::visitor::Visitor;
use crate::agent::{RunQuery, RunRow};
use crate::http::api::runs::run_query;
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::Problem;
use crate::policy::Power;
use crate::types::RunStatus;
use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};

/// The statuses that the filter offers.
const STATUSES: [RunStatus; 8] = [
    RunStatus::Running,
    RunStatus::Waiting,
    RunStatus::Done,
    RunStatus::Denied,
    RunStatus::Refused,
    RunStatus::Failed,
    RunStatus::Limit,
    RunStatus::Interrupted,
];

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    let sight = visitor.seeing(Power::RunRead)?;
    let query = run_query(&asked)?;
    let (app, asking) = (ui.app.clone(), query.clone());
    let rows = blocking(move || Ok(app.agent.runs(&sight, &asking)?)).await?;
    let same = list_link("/runs", &query, None);
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Runs, title: "Runs", same: &same };
    let next = rows.last().filter(|_| rows.len() == query.limit).map(|row| row.run.as_str());
    let body = html! {
        div.title { h1 { "Runs" } }
        (search(&query))
        @if rows.is_empty() {
            @if query.status.is_some() || query.principal.is_some() || query.before.is_some() {
                div.empty { p { "No run matches. The filter takes a status and a principal, such as key:Ab3dEf9h or os:root." } p { a.button href="/ui/runs" { "All runs" } } }
            } @else {
                (empty("No runs yet. Start one with an operator key:", &ask(&visitor.base)))
            }
        } @else {
            (table(&rows))
            nav.steps aria-label="Further runs" {
                @if query.before.is_some() { a.button href=(list_link("/ui/runs", &RunQuery { before: None, ..query.clone() }, None)) { "Newest" } }
                @if let Some(next) = next { a.button rel="next" href=(list_link("/ui/runs", &query, Some(next))) { "Older" } }
            }
        }
    };
    Ok(page.with(&body))
}

/// The command that starts a first run.
pub(super) fn ask(base: &str) -> String {
    format!(
        "curl -s {base}/agent/run -H \"Authorization: Bearer $PAR_KEY\" \\\n  -H 'content-type: application/json' -d '{{\"message\": \"how is this server doing?\"}}'"
    )
}

/// The link to a list with these parameters.
fn list_link(path: &str, query: &RunQuery, after: Option<&str>) -> String {
    let after = after.or(query.before.as_ref().map(crate::types::RunId::as_str));
    let given = [
        ("status", query.status.map(RunStatus::as_str)),
        ("principal", query.principal.as_deref()),
        ("after", after),
    ];
    let given: Vec<(&str, &str)> =
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    link(path, &given)
}

fn search(query: &RunQuery) -> Markup {
    html! {
        form.search method="get" action="/ui/runs" role="search" {
            label.sr for="status" { "Status" }
            select #status name="status" {
                option value="" { "any status" }
                @for status in STATUSES { option value=(status.as_str()) selected[query.status == Some(status)] { (status.as_str()) } }
            }
            label.sr for="principal" { "Principal" }
            input #principal type="search" name="principal" data-search spellcheck="false" autocomplete="off"
                placeholder="principal: key:Ab3dEf9h" value=(format::line(query.principal.as_deref().unwrap_or_default(), 80));
            button type="submit" { "Filter" }
        }
    }
}

/// Runs in a table that scrolls within itself.
pub(super) fn table(rows: &[RunRow]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Runs" {
            table.runs {
                thead { tr {
                    th scope="col" { "asked" } th scope="col" { "status" } th.n scope="col" { "took" }
                    th.n scope="col" { "tokens" } th scope="col" { "calls" } th scope="col" { "who" }
                    th scope="col" { "when" }
                } }
                tbody { @for run in rows { (row(run)) } }
            }
        }
    }
}

fn row(run: &RunRow) -> Markup {
    let took = run.ended_us.map(|end| format::span(end.saturating_sub(run.started_us)));
    let status = run.status.as_str();
    let message = format::line(run.message.as_deref().unwrap_or("(not shown in a list)"), 90);
    html! {
        tr {
            td.message { a.open href={ "/ui/runs/" (run.run) } { (message) } }
            td { a.v href=(link("/ui/runs", &[("status", status)])) { (page::outcome(status)) } }
            td.n { (took.as_deref().unwrap_or("–")) }
            td.n { @if let Some(f) = &run.figures { (format::count(f.usage.input_tokens.saturating_add(f.usage.output_tokens))) } @else { "–" } }
            td { @if let Some(f) = &run.figures { (f.calls) @if f.denied > 0 { " " span.badge.bad { (f.denied) " denied" } } } @else { "–" } }
            td { a.v href=(link("/ui/runs", &[("principal", &run.principal)])) { (format::line(&run.principal, 24)) } }
            td { (format::time(run.started_us)) }
        }
    }
}
