//! `/ui/health`: whether runs are accepted, the ledger, and the protections around tools.

use super::badge::Look;
use super::format;
use super::page::{self, Here, Page};
use super::state::Ui;
use super::visitor::Visitor;
use crate::http::api::health;
use crate::http::problem::Problem;
use crate::policy::Power;
use axum::extract::State;
use axum::response::Html;
use maud::{Markup, html};
use serde_json::Value;

pub(super) async fn show(State(ui): State<Ui>, visitor: Visitor) -> Result<Html<String>, Problem> {
    visitor.holding(Power::HealthRead)?;
    let report = health::report(&ui.app);
    let text = |at: &str| report.pointer(at).and_then(Value::as_str).unwrap_or("–").to_owned();
    let obstacles: Vec<&str> = report
        .get("obstacles")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let layers = ui.app.agent.launcher().report().layers;
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Health, title: "Health", same: "/health" };
    let ready = text("/why");
    let body = html! {
        div.title { h1 { "Health" } p { (page::outcome(&text("/status"))) } }
        @for what in &obstacles { p.notice.bad role="alert" { (format::line(what, 400)) } }
        div.columns {
            section.card aria-labelledby="server" {
                h2 #server { "Server" }
                dl.facts {
                    dt { "runs" } dd { @if ready == "–" { (page::outcome("ready")) } @else { "not accepted: " (ready) } }
                    dt { "version" } dd { (text("/version")) }
                    dt { "log" } dd { code { (format::short(&text("/ledger/log"), 32)) } }
                    dt { "entries" } dd { a href="/ui/audit" { (format::count(report.pointer("/ledger/size").and_then(Value::as_u64).unwrap_or(0))) } }
                    dt { "root" } dd { code { (text("/ledger/root")) } }
                }
            }
            section.card aria-labelledby="chain" { h2 #chain { "Chain" } @if visitor.may(Power::AuditRead) { (chain(&ui)) } }
        }
        section.card aria-labelledby="walls" {
            h2 #walls { "Protections around every tool" }
            @if layers.is_empty() { p { "The launcher has not reported any." } }
            ul.chips { @for layer in &layers { li { span.chip.still { (format::line(layer, 200)) } } } }
            p.muted { "The payload of a call.result shows what was enforced for that call." }
        }
    };
    Ok(page.with(&body))
}

fn chain(ui: &Ui) -> Markup {
    let badge = ui.chain.look(&ui.app);
    html! {
        p.line { (page::chain(&badge, true)) }
        @match &badge.look {
            Look::Checking => p { "The check is running: reload this page in a moment." },
            Look::Verified { entries } => {
                dl.facts {
                    dt { "verified" } dd { (format::count(*entries)) " entries: chain, tree and payloads" }
                    dt { "root" } dd { code { (badge.root) } }
                    dt { "took" } dd { (format::span(badge.took_us)) ", " (format::span(badge.age_us)) " ago" }
                }
                p.muted { "Checked by this server. To check it yourself, including state.db:" }
            }
            Look::Broken { seq, what } => {
                p.notice.bad role="alert" {
                    @if let Some(seq) = seq { "Entry " (seq) ": " }
                    (format::line(what, 400))
                }
                p { "To see every finding:" }
            }
        }
        pre data-copy tabindex="0" { code { "par audit verify" } }
    }
}
