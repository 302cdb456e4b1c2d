//! `/ui/approvals` and `/ui/approvals/{id}`: the calls that wait for approval, and the answer.

use super::form::{Fields, field, read};
use super::page::{self, Here, Page, block, empty};
use super::state::Ui;
use super::visitor::Visitor;
use super::{csrf, format};
use crate::gate::{Answer, AnswerError, Approval, State as Standing, describe_content};
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::{Code, Problem};
use crate::policy::Power;
use crate::types::{ApprovalId, clock, limits};
use axum::extract::{Path, Query, Request, State};
use axum::response::{Html, Redirect};
use maud::{Markup, html};
use serde_json::Value;

/// Number of rows on a page.
const ROWS: usize = 50;
/// Maximum length of the resource's name, which may be a path, in characters.
const OBJECT_CHARS_MAX: usize = 1_000;
const STATES: [Standing; 6] = [
    Standing::Pending,
    Standing::Granted,
    Standing::Spent,
    Standing::Refused,
    Standing::Expired,
    Standing::Void,
];

pub(super) async fn list(
    State(ui): State<Ui>,
    visitor: Visitor,
    Query(asked): Query<Fields>,
) -> Result<Html<String>, Problem> {
    let sight = visitor.seeing(Power::ApprovalRead)?;
    let standing = Standing::parse(field(&asked, "state")).unwrap_or(Standing::Pending);
    let word = standing.as_str();
    let after = field(&asked, "after").parse().unwrap_or(0);
    let app = ui.app.clone();
    let found = blocking(move || {
        let sees = |owner: &str| sight.sees(owner);
        Ok(Approval::list(app.agent.ledger(), Some(standing), after, ROWS, sees)?)
    });
    let (items, next) = found.await?;
    let next = next.map(|next| next.to_string());
    let same = link("/approvals", &[("state", word)]);
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Approvals, title: "Approvals", same: &same };
    Ok(page.with(&html! {
        div.title { h1 { "Approvals" } }
        nav.tabs aria-label="States" {
            @for state in STATES {
                a href=(link("/ui/approvals", &[("state", state.as_str())])) aria-current=[(state == standing).then_some("page")] { (state.as_str()) }
            }
        }
        @if items.is_empty() {
            (empty(&format!("No approval is {word}. On the server:"), if standing == Standing::Pending { "par approval list" } else { "par approval list --all" }))
        } @else {
            (table(&items))
        }
        @if let Some(next) = &next {
            nav.steps aria-label="Further approvals" {
                a.button rel="next" href=(link("/ui/approvals", &[("state", word), ("after", next)])) { "Later" }
            }
        }
    }))
}

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Html<String>, Problem> {
    let sight = visitor.seeing(Power::ApprovalRead)?;
    let (by, door) = (visitor.principal().clone(), visitor.door());
    let id = ApprovalId::parse(&id).ok_or(AnswerError::Unknown)?;
    let (app, wanted) = (ui.app.clone(), id.clone());
    let found = blocking(move || {
        let gate = app.agent.gate();
        let found = Approval::find(gate.ledger(), &wanted)?;
        let found = found.filter(|found| sight.sees(&found.requester.principal));
        Ok((found.ok_or(AnswerError::Unknown)?, gate.check_answer(&by, door, &wanted)))
    });
    let (approval, may) = found.await?;
    let same = format!("/approvals/{}", approval.id);
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Approvals, title: "Approval", same: &same };
    Ok(page.with(&body(&visitor, &approval, &may)))
}

/// Records the answer and shows the approval.
pub(super) async fn answer(
    State(ui): State<Ui>,
    visitor: Visitor,
    Path(id): Path<String>,
    request: Request,
) -> Result<Redirect, Problem> {
    let principal = visitor.able(Power::Approve)?;
    csrf::check_own(request.headers())?;
    let id = ApprovalId::parse(&id).ok_or(AnswerError::Unknown)?;
    let fields = read(ui.app.bounds.body_read_max, request).await?;
    let refused = |why: &str| Err(Problem::new(Code::Forbidden, why));
    if !visitor.login().made(field(&fields, "token")) {
        return refused("the form belongs to another login: reload the page");
    }
    // A refusal is recorded under the person's name too, so it needs the same proof.
    if !visitor.login().is_proven(field(&fields, "proof")) {
        return refused(
            "answer in a tab where you logged in, with JavaScript on: log in there, then answer again",
        );
    }
    let grant = match field(&fields, "answer") {
        "grant" => true,
        "refuse" => false,
        _ => return Err(Problem::new(Code::Invalid, "the form has no answer")),
    };
    if grant && !visitor.login().is_fresh(clock::mono_us()) {
        return refused(
            "an approval needs a login at most 15 minutes old: log out, log in, then answer again",
        );
    }
    let reason = field(&fields, "reason").trim();
    let answer = Answer {
        grant,
        card: None,
        call_hash: Some(field(&fields, "call_hash").to_owned()),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    };
    let answered = ui.app.agent.gate().answer(principal, visitor.door(), &id, answer).await?;
    Ok(Redirect::to(&format!("/ui/approvals/{}", answered.id)))
}

fn table(items: &[Approval]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Approvals" {
            table {
                thead { tr {
                    th scope="col" { "call" } th scope="col" { "state" } th scope="col" { "asked by" }
                    th scope="col" { "asked" } th scope="col" { "expires" }
                } }
                tbody {
                    @for item in items {
                        tr {
                            td.message { a.open href={ "/ui/approvals/" (item.id) } {
                                (format::line(&item.tool, 40)) " " (format::line(&item.arguments.to_string(), 90)) } }
                            td { (page::outcome(item.state.as_str())) }
                            td { (format::line(&item.requester.principal, 24)) }
                            td { (at(&item.created)) }
                            td { (ends(item)) }
                        }
                    }
                }
            }
        }
    }
}

/// An RFC 3339 time in the form of the other pages.
fn at(time: &str) -> String {
    time.get(..19).unwrap_or(time).replace('T', " ")
}

fn ends(item: &Approval) -> Markup {
    let is_open = item.state == Standing::Pending;
    html! { time datetime=(item.expires) data-until[is_open] { (at(&item.expires)) } }
}

/// The page of an approval. `may` says whether the visitor may answer it, or why not.
fn body(visitor: &Visitor, approval: &Approval, may: &Result<(), AnswerError>) -> Markup {
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let on = approval.resource.get("id").and_then(Value::as_str).unwrap_or("–");
    let on = format::line(on, OBJECT_CHARS_MAX);
    let arguments = pretty(&approval.arguments);
    let (_, missing) = format::block(&arguments, limits::BLOCK_BYTES_MAX);
    html! {
        div.title {
            h1.message { "Allow " (format::line(&approval.tool, 64)) " to run?" }
            p { (page::outcome(approval.state.as_str())) }
        }
        div.columns.wide {
            section.card aria-labelledby="call" {
                h2 #call { "This exact call would run, once" }
                dl.facts {
                    dt { "tool" } dd { code { (format::line(&approval.tool, 64)) } }
                    dt { "on" } dd { code { (on) } }
                    @if let Some(content) = describe_content(&approval.resource) {
                        dt { "content" } dd { code { (format::line(&content, OBJECT_CHARS_MAX)) } }
                    }
                    dt { "call hash" } dd { code { (approval.call_hash) } }
                }
                p { "Arguments, proposed by the model:" }
                (block(&arguments, limits::BLOCK_BYTES_MAX, "Arguments"))
                @if missing.is_some() || on.ends_with('…') {
                    p.notice { "This page does not show the whole call. Read all of it before you approve: "
                        code { "par approval show " (approval.id) } }
                }
            }
            section.card aria-labelledby="why" {
                h2 #why { "Why it needs approval" }
                (why(visitor, approval))
                (seen(visitor, approval))
            }
        }
        (answered(approval))
        @if approval.state == Standing::Pending {
            section.card aria-labelledby="answer" {
                h2 #answer { "Answer" }
                @match may {
                    Ok(()) => (form(visitor, approval)),
                    Err(why) => p { "This key may not answer: " (format::line(&why.to_string(), 300)) "." },
                }
            }
        }
    }
}

fn why(visitor: &Visitor, approval: &Approval) -> Markup {
    let policies = approval.why.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |policy: &Value, name: &str| {
        let value = match policy.get(name)? {
            Value::Array(items) => items.first()?.as_str(),
            value => value.as_str(),
        };
        value.map(|value| format::line(value, 200))
    };
    html! {
        ul.plain {
            @for policy in policies {
                li {
                    b { (text(policy, "policy").unwrap_or_else(|| format::line(&policy.to_string(), 200))) }
                    @if let Some(origin) = text(policy, "origin") { " " code.muted { (origin) } }
                    @if let Some(advice) = text(policy, "advice") { br; (advice) }
                }
            }
        }
        dl.facts {
            dt { "asked by" } dd { (format::line(&approval.requester.principal, 40))
                @if let Some(user) = &approval.requester.user { " (" (format::line(user, 64)) ")" } }
            dt { "who can answer" } dd {
                @if approval.groups.is_empty() { "any user, including the requester" }
                @else { "another user in " (format::line(&approval.groups.join(", "), 120)) }
            }
            dt { "asked" } dd { (at(&approval.created)) }
            dt { "expires" } dd { (ends(approval)) }
            @for path in left_out(approval) { dt { "leaves out" } dd { code { (format::line(path, 300)) } } }
            dt { "run" } dd {
                @if visitor.may(Power::RunRead) { a href={ "/ui/runs/" (approval.run) } { (approval.run) } }
                @else { code { (approval.run) } }
            }
            dt { "entry" } dd {
                @if visitor.may(Power::AuditRead) { a href={ "/ui/audit/" (approval.ledger) } { (approval.ledger) } }
                @else { (approval.ledger) }
            }
        }
    }
}

/// Paths in the resource that the call does not read, even when approved.
fn left_out(approval: &Approval) -> impl Iterator<Item = &str> {
    let listed = approval.resource.get("exclusions").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|one| one.get("canonical")?.as_str())
}

/// The model's text and the untrusted data that the run had read before the call.
fn seen(visitor: &Visitor, approval: &Approval) -> Markup {
    let word =
        |one: &Value, name: &str| format::line(one.get(name).and_then(Value::as_str).unwrap_or("-"), 300);
    let entry = |one: &Value| one.get("result").and_then(Value::as_u64);
    html! {
        @if let Some(said) = &approval.said {
            p { "The model's explanation, which is untrusted:" }
            (block(said, limits::BLOCK_BYTES_MAX, "The model's explanation"))
        }
        @if !approval.tainted_by.is_empty() {
            p.notice { "The run has read untrusted data:" }
            ul.plain {
                @for one in &approval.tainted_by {
                    li { code { (word(one, "resource")) } " by " (word(one, "tool"))
                        @if let Some(seq) = entry(one) {
                            ", entry " @if visitor.may(Power::AuditRead) { a href={ "/ui/audit/" (seq) } { (seq) } }
                            @else { (seq) }
                        }
                    }
                }
            }
        }
    }
}

fn answered(approval: &Approval) -> Markup {
    html! {
        @if let Some(answer) = &approval.answer {
            p.notice {
                (page::outcome(approval.state.as_str())) " by "
                (answer.principal.as_deref().map_or_else(|| "the time limit".to_owned(), |who| format::line(who, 40)))
                " at " (at(&answer.at))
                @if let Some(reason) = &answer.reason { ": " (format::line(reason, 500)) }
            }
        }
    }
}

/// The form carries the hash of the call that was shown, so the answer is for that call.
fn form(visitor: &Visitor, approval: &Approval) -> Markup {
    html! {
        form.answer method="post" action={ "/ui/approvals/" (approval.id) } {
            input type="hidden" name="token" value=(visitor.login().form_token);
            input type="hidden" name="call_hash" value=(approval.call_hash);
            // The script fills it with the proof that the login left in this tab, and only then
            // enables the buttons.
            input type="hidden" name="proof" data-proof="kept" autocomplete="off";
            label.sr for="reason" { "Reason" }
            input #reason type="text" name="reason" maxlength="500" autocomplete="off" placeholder="reason, recorded in the ledger (optional)";
            button.danger type="submit" name="answer" value="refuse" disabled { "Deny" }
            button.primary type="submit" name="answer" value="grant" disabled { "Approve once" }
        }
        p.notice data-unproven hidden {
            "You can answer only in a tab where you logged in: "
            a href=(link("/ui/login", &[("next", &format!("/ui/approvals/{}", approval.id))])) { "log in here" } "."
        }
        noscript {
            p.notice { "Answering on this page needs JavaScript. On the server, run: " code { "par approval approve " (approval.id) } }
        }
    }
}
