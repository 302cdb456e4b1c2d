//! `/ui/approvals` and `/ui/approvals/{id}`: the calls that wait for approval, and the answer.

use super::card::{at, ends};
use super::form::{Fields, field, read};
use super::page::{self, Here, Page, empty};
use super::state::Ui;
use super::visitor::Visitor;
use super::{card, csrf, format};
use crate::gate::{Answer, AnswerError, Approval, State as Standing};
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::{Code, Problem};
use crate::policy::Power;
use crate::types::{ApprovalId, clock};
use axum::extract::{Path, Query, Request, State};
use axum::response::{Html, Redirect};
use maud::{Markup, html};
use serde_json::Value;

/// Number of rows on a page.
const ROWS: usize = 50;
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
    let manifest = ui.app.agent.gate().rules().catalog.find(&approval.tool).cloned();
    let risk = manifest.as_ref().map(|manifest| manifest.risk.as_str());
    let same = format!("/approvals/{}", approval.id);
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Approvals, title: "Approval", same: &same };
    Ok(page.with(&body(&visitor, &approval, risk, &may)))
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
    if grant {
        check_order(&ui, &visitor, &id).await?;
    }
    let reason = field(&fields, "reason").trim();
    let answer = Answer {
        grant,
        card: Some(field(&fields, "card").to_owned()).filter(|card| !card.is_empty()),
        call_hash: Some(field(&fields, "call_hash").to_owned()),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    };
    let answered = ui.app.agent.gate().answer(principal, visitor.door(), &id, answer).await?;
    Ok(Redirect::to(&format!("/ui/approvals/{}", answered.id)))
}

/// Refuses an approval by a login that was opened before the question was asked: asking and
/// answering are two logins, the second one made for this question.
async fn check_order(ui: &Ui, visitor: &Visitor, id: &ApprovalId) -> Result<(), Problem> {
    let (app, id) = (ui.app.clone(), id.clone());
    let found = blocking(move || Ok(Approval::find(app.agent.ledger(), &id)?)).await?;
    if found.is_none_or(|found| visitor.login().is_after(&found.created)) {
        return Ok(());
    }
    let why = "this login is older than the question: on the server, run `par login` again, open the link, then \
               answer";
    Err(Problem::new(Code::Forbidden, why))
}

fn table(items: &[Approval]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Approvals" {
            table.asks {
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
                            td { (format::line(&item.requester.who, 32)) }
                            td { (at(&item.created)) }
                            td { (ends(item)) }
                        }
                    }
                }
            }
        }
    }
}

/// The page of an approval. `may` says whether the visitor may answer it, or why not.
fn body(visitor: &Visitor, approval: &Approval, risk: Option<&str>, may: &Result<(), AnswerError>) -> Markup {
    let is_open = approval.state == Standing::Pending;
    html! {
        div.title {
            h1.message { "Allow " (format::line(&approval.tool, 64)) " to run?" }
            p { (page::outcome(approval.state.as_str())) }
            @if is_open { a.button.jump-answer href="#answer" { "Answer" } }
        }
        div.columns.wide {
            div.pile { (card::card(visitor, approval, risk)) }
            aside.pile.near {
                (answered(approval))
                @if is_open {
                    section.card aria-labelledby="answer" {
                        h2 #answer { "Answer" }
                        @match may {
                            Ok(()) => (form(visitor, approval, risk)),
                            Err(why) => p { "This login may not answer: " (format::line(&why.to_string(), 300)) "." },
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
                (answer.who.as_deref().map_or_else(|| "the time limit".to_owned(), |who| format::line(who, 40)))
                " at " (at(&answer.at))
                @if let Some(reason) = &answer.reason { ": " (format::line(reason, 500)) }
            }
        }
    }
}

/// The form carries the hash of the call that was shown, so the answer is for that call.
fn form(visitor: &Visitor, approval: &Approval, risk: Option<&str>) -> Markup {
    let on = approval.resource.get("id").and_then(Value::as_str).unwrap_or("–");
    html! {
        form.answer method="post" action={ "/ui/approvals/" (approval.id) } {
            input type="hidden" name="token" value=(visitor.login().form_token);
            input type="hidden" name="call_hash" value=(approval.call_hash);
            @if let Some(card) = &approval.card { input type="hidden" name="card" value=(card); }
            // The script fills it with the proof that the login left in this tab, and only then
            // enables the buttons.
            input type="hidden" name="proof" data-proof="kept" autocomplete="off";
            label.sr for="reason" { "Reason" }
            input #reason type="text" name="reason" maxlength="500" autocomplete="off" placeholder="reason, recorded in the ledger (optional)";
            button.danger type="submit" name="answer" value="refuse" data-key="d" disabled { "Deny" }
            @if visitor.login().is_after(&approval.created) {
                button.primary type="submit" name="answer" value="grant" data-key="a" disabled { "Approve once" }
            }
        }
        @if !visitor.login().is_after(&approval.created) {
            p.notice { "This login is older than the question and cannot approve. On the server, run "
                code { "par login" } " again, open the link, then answer." }
        }
        @if risk == Some("high") {
            // The script asks a second time before it approves a call of high risk.
            dialog #second aria-labelledby="second-title" {
                h2 #second-title { "Approve a call of high risk?" }
                p { (format::line(&approval.tool, 64)) " on " code { (format::line(on, 300)) } }
                form.actions method="dialog" {
                    button type="submit" { "Back" }
                    button.primary type="button" data-sure { "Yes, run it once" }
                }
            }
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
