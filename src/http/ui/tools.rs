//! `/ui/tools`: every loaded tool, and whether this key may use it.

use super::format;
use super::page::{self, Here, Page, empty};
use super::state::Ui;
use super::visitor::Visitor;
use crate::http::link::link;
use crate::http::problem::Problem;
use crate::policy::Power;
use crate::tools::{Manifest, Risk, Runner};
use axum::extract::State;
use axum::response::Html;
use maud::{Markup, html};
use std::sync::Arc;

pub(super) async fn show(State(ui): State<Ui>, visitor: Visitor) -> Result<Html<String>, Problem> {
    let principal = visitor.holding(Power::ToolsRead)?;
    let own: Vec<String> = ui.app.agent.tools(principal).into_iter().map(|tool| tool.name).collect();
    let catalog = ui.app.agent.gate().rules().catalog;
    let tools: Vec<&Arc<Manifest>> = catalog.manifests().collect();
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Tools, title: "Tools", same: "/tools" };
    let body = html! {
        div.title { h1 { "Tools" } p.muted { (tools.len()) " loaded" } }
        @if tools.is_empty() {
            (empty("No tool is loaded. A tool is a file in etc/tools.d/:", "par tool list"))
        }
        ul.cards {
            @for tool in &tools { li.card { (card(tool, own.contains(&tool.name))) } }
        }
    };
    Ok(page.with(&body))
}

fn card(tool: &Manifest, is_own: bool) -> Markup {
    let schema = serde_json::to_string_pretty(&tool.input).unwrap_or_default();
    let runs = match &tool.runner {
        Runner::Builtin(_) => "builtin, starts no program".to_owned(),
        Runner::Front(_) => "in the server, without a sandbox of its own".to_owned(),
        Runner::Program(program) => format::line(&program.path.to_string_lossy(), 80),
    };
    html! {
        h2 { (format::line(&tool.name, 64)) }
        p { (format::line(&tool.summary, 300)) }
        p.line {
            span.badge.plain { (tool.class.as_str()) } " "
            span.badge.(risk(tool.risk)) { "risk " (tool.risk.as_str()) } " "
            @if is_own { span.badge.good { "you may use it" } } @else { span.badge.plain { "not for this key" } }
            @if tool.untrusted_output { " " span.badge.plain { "output is untrusted" } }
        }
        dl.facts {
            dt { "runs" } dd { (runs) }
            dt { "reads" } dd { @for root in &tool.read { code { (format::line(&root.to_string_lossy(), 80)) } " " }
                @if tool.read.is_empty() { "nothing" } }
            dt { "digest" } dd { code title=(tool.digest.hex()) { (format::short(&tool.digest.hex(), 16)) } }
            dt { "used" } dd { a href=(link("/ui/audit", &[("q", &format!("kind:call.decision tool:{}", tool.name))])) { "decisions" } }
        }
        details {
            summary { "Arguments of " (format::line(&tool.name, 64)) }
            (page::block(&schema, 8 << 10, &format!("Arguments of {}", format::line(&tool.name, 64))))
        }
    }
}

fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::High => "bad",
        Risk::Medium => "warn",
        Risk::Low => "plain",
    }
}
