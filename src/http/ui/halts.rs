//! `/ui/halts`: the halts in force, and the forms that halt and lift; and the one that cancels a
//! run.

use super::form::{Fields, field, read};
use super::page::{Here, Page};
use super::state::Ui;
use super::visitor::Visitor;
use super::{csrf, format};
use crate::auth;
use crate::gate::{Granted, HaltOrder};
use crate::http::problem::{Code, Problem};
use crate::policy::Power;
use crate::types::{RunId, StopScope, clock};
use axum::extract::{Path, Request, State};
use axum::response::{Html, Redirect};
use maud::{Markup, html};

pub(super) async fn show(State(ui): State<Ui>, visitor: Visitor) -> Result<Html<String>, Problem> {
    if visitor.able(Power::Halt).is_err() {
        visitor.holding(Power::HealthRead)?;
    }
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Halts, title: "Halts", same: "/health" };
    Ok(page.with(&html! {
        div.title { h1 { "Halts" } }
        (section(&ui, &visitor)?)
    }))
}

/// The halts in force, and what the visitor may do about them.
fn section(ui: &Ui, visitor: &Visitor) -> Result<Markup, Problem> {
    let gate = ui.app.agent.gate();
    let names = ui.app.agent.ledger().state(auth::key_names).map_err(Problem::internal)?;
    let stops = gate.stops();
    let halts: Vec<_> = stops.iter().filter(|stop| stop.is_halt()).collect();
    let may = gate.may_halt(visitor.principal(), visitor.door());
    Ok(html! {
        section.card aria-labelledby="halts" {
            h2 #halts { "In force" }
            @if halts.is_empty() { p { "Nothing is halted." } }
            @for halt in &halts {
                div.notice.bad {
                    p { strong { (format::line(&halt.scope.to_string(), 80)) } " is halted by "
                        (format::line(&names.shown(&halt.by), 40)) " since " (format::time(halt.at_us)) ": "
                        (format::line(&halt.reason, 500)) }
                    @if may.is_ok() {
                        form.answer method="post" action="/ui/halts/lift" {
                            (proofs(visitor))
                            input type="hidden" name="halt" value=(halt.seq);
                            button type="submit" name="what" value="lift" disabled { "Lift this halt" }
                        }
                    }
                }
            }
        }
        section.card aria-labelledby="halt" {
            h2 #halt { "Halt" }
            @match &may {
                Ok(_) => {
                    p.muted { code { "all" } ", " code { "key:ID" } ", " code { "os:NAME" } ", " code { "tool:NAME" }
                        " or " code { "session:ID" } ", until a person lifts it:" }
                    form.answer method="post" action="/ui/halts" {
                        (proofs(visitor))
                        label.sr for="scope" { "What" }
                        input #scope type="text" name="scope" value="all" maxlength="200" autocomplete="off";
                        label.sr for="why" { "Reason" }
                        input #why type="text" name="reason" required maxlength="500" autocomplete="off"
                            placeholder="reason, shown to everyone who is refused";
                        button type="submit" name="what" value="halt" disabled { "Halt" }
                        button.danger type="submit" name="what" value="now" disabled { "Halt and end what runs" }
                    }
                    p.notice data-unproven hidden {
                        "You can halt only in a tab where you logged in, with JavaScript on."
                    }
                }
                Err(why) => p.muted { "This login may not halt: " (format::line(&why.to_string(), 300)) "." },
            }
            p.muted { "On the server:" }
            pre data-copy tabindex="0" { code { "par halt --all --reason \"…\"" } }
        }
    })
}

/// The fields that prove that the form is of this login and of this tab.
fn proofs(visitor: &Visitor) -> Markup {
    html! {
        input type="hidden" name="token" value=(visitor.login().form_token);
        input type="hidden" name="proof" data-proof="kept" autocomplete="off";
    }
}

pub(super) async fn set(
    State(ui): State<Ui>,
    visitor: Visitor,
    request: Request,
) -> Result<Redirect, Problem> {
    let (granted, fields) = checked(&ui, &visitor, request).await?;
    let scope = StopScope::parse(field(&fields, "scope").trim());
    let scope = scope.map_err(|e| Problem::new(Code::Invalid, e.to_string()))?;
    let (reason, is_now) = (field(&fields, "reason").trim().to_owned(), field(&fields, "what") == "now");
    let order = HaltOrder { scope, reason, is_now };
    ui.app.agent.gate().halt(visitor.principal(), Some(&granted), order).await?;
    Ok(Redirect::to("/ui/halts"))
}

pub(super) async fn lift(
    State(ui): State<Ui>,
    visitor: Visitor,
    request: Request,
) -> Result<Redirect, Problem> {
    let (granted, fields) = checked(&ui, &visitor, request).await?;
    let none = || Problem::new(Code::Invalid, "the form names no halt");
    let halt = field(&fields, "halt").parse().map_err(|_| none())?;
    ui.app.agent.gate().lift(visitor.principal(), Some(&granted), halt, None).await?;
    Ok(Redirect::to("/ui/halts"))
}

/// Cancels a run. A form of this login is proof enough: whoever may do it may do it with a key.
pub(super) async fn cancel(
    State(ui): State<Ui>,
    visitor: Visitor,
    Path(id): Path<String>,
    request: Request,
) -> Result<Redirect, Problem> {
    let id = RunId::parse(&id).ok_or_else(|| Problem::no_run(None))?;
    csrf::check_own(request.headers())?;
    let fields = read(ui.app.bounds.body_read_max, request).await?;
    check_token(&visitor, &fields)?;
    ui.app.agent.cancel(visitor.principal(), visitor.door(), &id, None).await?;
    Ok(Redirect::to(&format!("/ui/runs/{id}")))
}

fn check_token(visitor: &Visitor, fields: &Fields) -> Result<(), Problem> {
    let is_own = visitor.login().made(field(fields, "token"));
    let other = "the form belongs to another login: reload the page";
    is_own.then_some(()).ok_or_else(|| Problem::new(Code::Forbidden, other))
}

/// The power and the fields of a form that was sent from the tab of a fresh login.
async fn checked(ui: &Ui, visitor: &Visitor, request: Request) -> Result<(Granted, Fields), Problem> {
    let granted = ui.app.agent.gate().may_halt(visitor.principal(), visitor.door())?;
    csrf::check_own(request.headers())?;
    let fields = read(ui.app.bounds.body_read_max, request).await?;
    check_token(visitor, &fields)?;
    let refused = |why: &str| Err(Problem::new(Code::Forbidden, why));
    if !visitor.login().is_proven(field(&fields, "proof")) {
        return refused(
            "halt in a tab where you logged in, with JavaScript on: log in there, then try again",
        );
    }
    if !visitor.login().is_fresh(clock::mono_us()) {
        return refused("this needs a login at most 15 minutes old: log out, log in, then try again");
    }
    Ok((granted, fields))
}

/// The button that cancels a run, if the visitor may.
pub(super) fn cancel_form(visitor: &Visitor, run: &RunId) -> Markup {
    html! {
        @if visitor.may(Power::RunCancel) {
            form.answer method="post" action={ "/ui/runs/" (run) "/cancel" } {
                input type="hidden" name="token" value=(visitor.login().form_token);
                button.danger type="submit" { "Cancel this run" }
            }
        }
    }
}
