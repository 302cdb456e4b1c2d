//! `/ui/runs/{id}`: one run as a timeline, as text and as JSON.

use super::page::{self, Here, Page, block};
use super::state::Ui;
use super::visitor::Visitor;
use super::{format, halts, timeline};
use crate::agent::{AnswerBy, HeldResponse, RunReply, RunStatus, Step};
use crate::auth::key_names;
use crate::gate::{AnswerError, Approval};
use crate::http::app::App;
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::Problem;
use crate::ledger::payload::{
    CallDecisionPayload, CallResultPayload, ModelAskPayload, ModelErrorPayload, ModelReplyPayload,
    RunReplyPayload, RunRequestPayload,
};
use crate::ledger::{Filter, Header, Kind, Order, ReadError, Stored};
use crate::policy::Power;
use crate::types::{ApprovalId, Decision, RefusalClass, RunId, limits};
use axum::extract::{Path, Query, State};
use axum::response::Html;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeSet;

/// Number of entries on a page. A run has a bounded number, and few have as many.
const ENTRIES_MAX: usize = 120;
/// Total size of the reader's blocks, in bytes.
const READER_BYTES_MAX: usize = 48 << 10;
const READER_BLOCK_BYTES_MAX: usize = 4 << 10;
const JSON_BYTES_MAX: usize = 32 << 10;
const VIEWS: [(&str, &str); 3] = [("timeline", "Timeline"), ("reader", "Reader"), ("json", "JSON")];

struct RunPage {
    reply: RunReply,
    /// Who asked, as people know them.
    who: String,
    entries: Vec<Stored>,
    /// The first entry of the next page.
    next: Option<u64>,
}

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    let sight = visitor.seeing(Power::RunRead)?;
    let id = RunId::parse(&id).ok_or_else(|| Problem::no_run(None))?;
    let shown = RunView::read(&asked);
    let (app, wanted, from) = (ui.app.clone(), id.clone(), shown.from);
    let run = blocking(move || {
        let Some(reply) = app.agent.find(&sight, &wanted)? else { return Ok(None) };
        Ok(Some(read(&app, &wanted, reply, from)?))
    });
    let run = run.await?.ok_or_else(|| Problem::no_run(Some(id.clone())))?;
    let same = format!("/runs/{id}");
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Runs, title: "Run", same: &same };
    Ok(page.with(&body(&visitor, &format!("/ui/runs/{id}"), &run, shown.view)))
}

/// The run that an approval belongs to, for whoever may see the approval.
pub(super) async fn asked(
    State(ui): State<Ui>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    let sight = visitor.seeing(Power::ApprovalRead)?;
    let id = ApprovalId::parse(&id).ok_or(AnswerError::Unknown)?;
    let shown = RunView::read(&asked);
    let (app, wanted, from) = (ui.app.clone(), id.clone(), shown.from);
    let run = blocking(move || {
        let found = Approval::find(app.agent.ledger(), &wanted)?;
        let found =
            found.filter(|found| sight.sees(&found.requester.principal)).ok_or(AnswerError::Unknown)?;
        let reply = app.agent.find_asked(&found)?.ok_or_else(|| Problem::no_run(Some(found.run.clone())))?;
        read(&app, &found.run, reply, from)
    });
    let run = run.await?;
    let same = format!("/approvals/{id}");
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Approvals, title: "Run", same: &same };
    let base = format!("/ui/approvals/{id}/run");
    Ok(page.with(&body(&visitor, &base, &run, shown.view)))
}

/// What of a run is shown.
struct RunView {
    view: &'static str,
    from: Option<u64>,
}

impl RunView {
    fn read(asked: &[(String, String)]) -> Self {
        let value = |name: &str| asked.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str());
        let view = VIEWS.into_iter().find(|(name, _)| Some(*name) == value("view")).unwrap_or(VIEWS[0]).0;
        Self { view, from: value("from").and_then(|seq| seq.parse().ok()) }
    }
}

fn read(app: &App, id: &RunId, mut reply: RunReply, from: Option<u64>) -> Result<RunPage, Problem> {
    let (first, last) = reply.ledger.as_ref().map_or((0, 0), |range| (range.first, range.last));
    let filter = Filter::field("run", id.as_str());
    let reader = app.agent.ledger().reader();
    let from = from.unwrap_or(first).max(first);
    let (headers, next) =
        reader.listed(&filter, from, Order::Ascending, ENTRIES_MAX, limits::PAGE_SCAN_MAX)?;
    let mut entries = Vec::with_capacity(headers.len());
    for header in headers {
        match (reader.entry(header.seq), &mut reply.ledger) {
            (Err(ReadError::Damaged(seq, _)), Some(range)) => {
                range.damaged.push(seq);
                range.damaged.sort_unstable();
                range.damaged.dedup();
            }
            (found, _) => entries.extend(found?),
        }
    }
    let next = next.filter(|next| *next <= last);
    let asker = entries.first().and_then(|stored| stored.header.str("principal")).unwrap_or_default();
    let who = app.agent.ledger().state(key_names).map_err(ReadError::from)?.shown(asker);
    Ok(RunPage { reply, who, entries, next })
}

fn body(visitor: &Visitor, base: &str, run: &RunPage, view: &str) -> Markup {
    let request = run.entries.iter().find(|stored| stored.header.is(Kind::RunRequest));
    let is_erased = request.is_some_and(|request| request.body.is_none());
    let title = if is_erased { "Run with an erased message" } else { "Run" };
    let asked = request.and_then(|request| request.payload());
    let message = asked.map_or_else(|| title.to_owned(), |asked: RunRequestPayload| asked.message);
    html! {
        div.title {
            h1.message { (format::line(&message, 160)) }
            p { (page::outcome(run.reply.status.as_str())) }
            @if matches!(run.reply.status, RunStatus::Running | RunStatus::Waiting) && base.starts_with("/ui/runs/") {
                (halts::cancel_form(visitor, &run.reply.run))
            }
        }
        (facts(visitor, run))
        (said(run))
        (cards(run))
        nav.tabs aria-label="Views" {
            @for (name, text) in VIEWS {
                a href={ (base) "?view=" (name) } aria-current=[(name == view).then_some("page")] { (text) }
            }
        }
        @match view {
            "reader" => (reader(run)),
            "json" => {
                (block(&serde_json::to_string_pretty(&run.reply).unwrap_or_default(), JSON_BYTES_MAX, "The run as JSON"))
            }
            _ => (timeline::table(&timeline::steps(&run.entries))),
        }
        @if let Some(next) = run.next {
            nav.steps aria-label="Further entries" {
                a.button rel="next" href={ (base) "?view=" (view) "&from=" (next) } { "Later entries" }
            }
        }
    }
}

/// The answer, and above it what a person or a limit made of the run: they come first.
fn said(run: &RunPage) -> Markup {
    let reply = &run.reply;
    html! {
        @for seq in reply.ledger.iter().flat_map(|range| &range.damaged) {
            p.notice.bad role="alert" {
                a href={ "/ui/audit/" (seq) } { "Entry " (seq) } " does not verify: what it says of this run is left out."
            }
        }
        @for refusal in reply.refusals() {
            p.notice.bad { (format::line(&refusal, 400)) "." }
        }
        @if let Some(names) = reply.ceiling.names() {
            p.notice { "The run could use " (ceiling(names)) "." }
        }
        @if let Some(line) = reply.response.as_ref().and_then(HeldResponse::line) {
            p.notice.warn[reply.answer_json.is_none()] { (format::line(&line, 400)) "." }
        }
        @if let Some(line) = reply.incomplete() {
            p.notice.warn { (line) "." }
        }
        @if let Some(limit) = &reply.limit {
            p.notice.warn { "The run reached its limit " code { (format::line(limit, 60)) } "." }
        }
        @if let Some(answer) = &reply.answer {
            section.answer aria-labelledby="answer" {
                h2 #answer { "Answer" }
                p.muted { (written_by(reply)) }
                (block(answer, limits::BLOCK_BYTES_MAX, "The answer as text"))
            }
        }
    }
}

/// The tools of a ceiling, in words.
fn ceiling(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        "no tool".to_owned()
    } else {
        format::line(&format!("only {}", names.join(", ")), 400)
    }
}

/// Who wrote the answer.
fn written_by(reply: &RunReply) -> &'static str {
    match reply.said_by {
        Some(AnswerBy::Model) => "Written by the model. Not a verified fact.",
        Some(AnswerBy::Par) if reply.status == RunStatus::Done => "Written by PAR, without a model.",
        Some(AnswerBy::Par) => "Written by PAR: why there is no answer of the model.",
        None => "Written by the model, or by PAR if the run did not finish. Not a verified fact.",
    }
}

fn facts(visitor: &Visitor, run: &RunPage) -> Markup {
    let id = &run.reply.run;
    let first = run.entries.first().map(|stored| &stored.header);
    let asker = first.and_then(|header| header.str("principal")).unwrap_or_default();
    let who = format::line(&run.who, 40);
    let policy = first.and_then(|header| header.str("policy")).unwrap_or_default();
    html! {
        p.line.muted {
            @if visitor.may(Power::RunRead) { a href=(link("/ui/runs", &[("principal", asker)])) title=(format::line(asker, 40)) { (who) } }
            @else { (who) }
            " · " code { (id) }
            " · "
            (format::time(first.and_then(|header| header.u64("wall_us")).unwrap_or(0))) " · policy "
            code title=(policy) { (format::short(policy, 12)) }
            @if let Some(runbook) = &run.reply.runbook { " · runbook " code { (format::line(runbook, 64)) } }
            @if let Some(range) = &run.reply.ledger {
                " · "
                @if visitor.reading().is_ok() { a href=(link("/ui/audit", &[("q", &format!("run:{id}"))])) { "entries " (range.first) "–" (range.last) } }
                @else { "entries " (range.first) "–" (range.last) }
            }
        }
    }
}

fn cards(run: &RunPage) -> Markup {
    let reply = &run.reply;
    let time = |stored: &Stored| stored.header.u64("wall_us").unwrap_or(0);
    let (first, last) = (run.entries.first().map(time), run.entries.last().map(time));
    let took = first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first));
    let is_of_person = |step: &Step| matches!(step.class, Some(RefusalClass::Person | RefusalClass::Asked));
    let is_denied = |step: &&Step| step.decision == Decision::Deny && !is_of_person(step);
    let denied = reply.steps.iter().filter(is_denied).count();
    let invalid = reply.steps.iter().filter(|step| step.decision == Decision::Invalid).count();
    let refused = reply.steps.iter().filter(|step| step.class == Some(RefusalClass::Person)).count();
    let usage = &reply.usage;
    let errors = run.entries.iter().filter(|stored| stored.header.is(Kind::ModelError)).count() as u64;
    html! {
        ul.figures {
            li.card { span { "Duration" } b { (format::span(took)) } }
            li.card { span { "Model" } b { (usage.model_calls.saturating_add(errors)) " " small { "asked" } } }
            li.card { span { "Tokens" } b { (format::count(usage.input_tokens.saturating_add(usage.output_tokens))) } }
            li.card { span { "Tool calls" } b { (reply.steps.len()) } }
            li.card { span { "Denied" } b.bad[denied > 0] { (denied) } }
            @if invalid > 0 { li.card { span { "Not valid" } b.warn { (invalid) } } }
            @if refused > 0 { li.card { span { "Refused by a person" } b.bad { (refused) } } }
        }
    }
}

/// The run as a conversation, one block after the other.
fn reader(run: &RunPage) -> Markup {
    let mut left = READER_BYTES_MAX;
    let blocks: Vec<Markup> = run
        .entries
        .iter()
        .filter_map(|stored| {
            let (title, text) = entry_text(stored)?;
            let fits = READER_BLOCK_BYTES_MAX.min(left);
            left = left.saturating_sub(text.len().min(fits));
            let seq = stored.header.seq;
            let label = format!("{title}, entry {seq}");
            Some(html! {
                li {
                    p.line { b { (title) } " " a.muted href={ "/ui/audit/" (seq) } { "entry " (seq) }
                        @if let Some(word) = stored.header.str("decision").or_else(|| stored.header.str("status")) { " " (page::outcome(word)) } }
                    (block(&text, fits, &label))
                }
            })
        })
        .collect();
    html! { ol.reader { @for block in &blocks { (block) } } }
}

/// Why a call was refused: the class, the reason, and what a person can do about it.
fn refused(header: &Header, why: &str) -> String {
    let class = header.decision().and_then(|decision| RefusalClass::of(decision, header.str("status")));
    class.map_or_else(|| why.to_owned(), |class| format!("{class}: {why}; {}", class.mend()))
}

/// The text of an entry in the reader, and its title.
fn entry_text(stored: &Stored) -> Option<(String, String)> {
    if stored.body.is_none() {
        let title = format::line(&stored.header.kind, 32);
        return Some((title, "The payload of this entry was erased.".to_owned()));
    }
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let tool = format::line(stored.header.str("tool").unwrap_or_default(), 64);
    let titled =
        |title: &str, text: Option<String>| Some((title.to_owned(), text.filter(|text| !text.is_empty())?));
    match stored.header.known_kind()? {
        Kind::RunRequest => titled("Request", Some(stored.payload::<RunRequestPayload>()?.message)),
        // An allowed request is told by its reply.
        Kind::ModelAsk if stored.header.decision() == Some(Decision::Deny) => {
            let ask: ModelAskPayload = stored.payload()?;
            let why = refused(&stored.header, &ask.reason.unwrap_or_default());
            Some((format!("Not sent to {} at {}", ask.name, ask.host), why))
        }
        Kind::ModelReply => {
            let said: ModelReplyPayload = stored.payload()?;
            let unfit = said.unfit.map(|unfit| format!("\n\nPAR: the answer {}.", unfit.words()));
            titled("Model", said.text.map(|text| text + &unfit.unwrap_or_default()))
        }
        Kind::ModelError => {
            titled("The model did not reply", Some(stored.payload::<ModelErrorPayload>()?.error))
        }
        Kind::CallDecision => {
            let payload: CallDecisionPayload = stored.payload()?;
            let arguments = payload.arguments.or(payload.arguments_raw.map(Value::from))?;
            let reason = payload.reason.map(|why| format!("\n\n{}", refused(&stored.header, &why)));
            let nearest = payload.nearest.map(|nearest| format!("\n{}", nearest.line()));
            let reason = reason.unwrap_or_default() + &nearest.unwrap_or_default();
            Some((format!("Call of {tool}"), format!("{}{reason}", pretty(&arguments))))
        }
        Kind::CallResult => {
            let payload: CallResultPayload = stored.payload()?;
            Some((format!("Result of {tool}"), pretty(&payload.result)))
        }
        Kind::RunReply => titled("Answer", stored.payload::<RunReplyPayload>()?.answer),
        _ => None,
    }
}
