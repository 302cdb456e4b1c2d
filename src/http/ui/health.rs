//! `/ui/health`: whether runs are accepted, the ledger, and the protections around tools.

use super::format;
use super::page::{self, Here, Page};
use super::state::Ui;
use super::visitor::Visitor;
use crate::http::api::health;
use crate::http::problem::Problem;
use crate::ledger::ChainState;
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
    let halts = report.get("halts").and_then(Value::as_array).map_or(0, |halts| halts.len() as u64);
    let body = html! {
        div.title { h1 { "Health" } p { (page::outcome(&text("/status"))) } }
        @for what in &obstacles { p.notice.bad role="alert" { (format::line(what, 400)) } }
        div.columns {
            section.card aria-labelledby="server" {
                h2 #server { "Server" }
                dl.facts {
                    dt { "runs" } dd { @if ready == "–" { (page::outcome("ready")) } @else { "not accepted: " (ready) } }
                    dt { "halts" } dd { a href="/ui/halts" { @if halts == 0 { "none" } @else { (format::count(halts)) " in force" } } }
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
    let state = ui.app.agent.ledger().chain();
    html! {
        p.line { (page::chain(&state, ui.app.agent.ledger().head().size, true)) }
        @match &state {
            ChainState::Verifying { entries, hindered } => {
                p { "The server verifies its ledger: " (format::count(*entries)) " entries so far." }
                @if let Some(why) = hindered { p.notice.bad role="alert" { (format::line(why, 400)) } }
            },
            ChainState::Sound(sound) => {
                dl.facts {
                    dt { "verified" } dd { (format::count(sound.size)) " entries: chain, tree and payloads" }
                    dt { "root" } dd { code { (sound.root) } }
                    dt { "at" } dd { (format::time(sound.at_us)) "; new entries follow within seconds, or after an interval if they are many" }
                    dt { "took" } dd { (format::span(sound.took_us)) " of work for every entry" }
                }
                p.muted { "Verified by this server. To verify it yourself, including state.db:" }
            }
            ChainState::Broken(damage) => {
                p.notice.bad role="alert" {
                    @if let Some(seq) = damage.entry { "Entry " (seq) ": " }
                    (format::line(&damage.found, 400))
                }
                p { "To see every finding, and then, with the server stopped, to set this log aside and begin the next:" }
                pre data-copy tabindex="0" { code { "par audit renew --reason \"…\"" } }
            }
        }
        pre data-copy tabindex="0" { code { "par audit verify" } }
    }
}
