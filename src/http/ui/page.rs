//! The frame of every page: navigation, chain badge, and the same data as a command.

use super::format;
use super::state::Ui;
use super::visitor::Visitor;
use crate::ledger::{ChainState, SoundLedger};
use crate::policy::Power;
use crate::types::VERSION;
use crate::types::clock::Wall;
use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

/// A page of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    Overview,
    Runs,
    Audit,
    Approvals,
    Tools,
    Halts,
    Health,
    /// A page that is not in the navigation.
    Elsewhere,
}

const PLACES: [(Here, &str, &str, &str, Power); 7] = [
    (Here::Overview, "/ui/", "Overview", "o", Power::AuditRead),
    (Here::Runs, "/ui/runs", "Runs", "r", Power::RunRead),
    (Here::Audit, "/ui/audit", "Audit", "a", Power::AuditRead),
    (Here::Approvals, "/ui/approvals", "Approvals", "p", Power::ApprovalRead),
    (Here::Tools, "/ui/tools", "Tools", "t", Power::ToolsRead),
    (Here::Halts, "/ui/halts", "Halts", "l", Power::Halt),
    (Here::Health, "/ui/health", "Health", "h", Power::HealthRead),
];

/// The parts around the body of a page.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) ui: &'a Ui,
    pub(super) visitor: &'a Visitor,
    pub(super) here: Here,
    pub(super) title: &'a str,
    /// Path and query of the endpoint that returns the same as data.
    pub(super) same: &'a str,
}

impl Page<'_> {
    /// Renders the whole page.
    pub(super) fn with(&self, body: &Markup) -> Html<String> {
        let visitor = self.visitor;
        let (name, role) = visitor.shown();
        let badge = visitor.may(Power::AuditRead).then(|| self.ui.app.agent.ledger().chain());
        let main = html! {
            header.top {
                a.brand href="/ui/" { (mark()) span { "PAR" } }
                nav aria-label="Pages" {
                    @for (place, href, text, key, power) in PLACES {
                        @if visitor.may(power) || place == Here::Audit && visitor.reading().is_ok() {
                            a href=(href) data-go=(key) aria-current=[(place == self.here).then_some("page")] { (text) }
                        }
                    }
                }
                div.who {
                    @if let Some(badge) = &badge { (chain(badge, self.ui.app.agent.ledger().head().size, self.visitor.may(Power::HealthRead))) }
                    span.muted title={ "role: " (role) } { (name) }
                    form method="post" action="/ui/logout" {
                        input type="hidden" name="token" value=(visitor.login().form_token);
                        button type="submit" { "Log out" }
                    }
                }
            }
            main #main tabindex="-1" { @if let Some(state) = &badge { (damage(state)) } (body) }
            footer {
                @if self.here != Here::Elsewhere { (self.curl()) }
                p.muted { "PAR " (VERSION) " · times are UTC · press " kbd { "?" } " for keyboard shortcuts" }
            }
            (keys())
        };
        Html(document(self.title, &main).into_string())
    }

    fn curl(&self) -> Markup {
        html! {
            details.same {
                summary { "The same with curl" }
                pre data-copy tabindex="0" {
                    code { "curl -s -H \"Authorization: Bearer $PAR_KEY\" '" (self.visitor.base) (self.same) "'" }
                }
            }
        }
    }
}

/// The badge of the chain of a ledger of `size` entries. Its state is also a word. It is a link if
/// the visitor `may_look`.
pub(super) fn chain(state: &ChainState, size: u64, may_look: bool) -> Markup {
    let (tone, word, more) = match state {
        ChainState::Verifying { .. } => ("plain", "chain: verifying…".to_owned(), None),
        ChainState::Sound(SoundLedger { size: verified, at_us, .. }) => {
            let age_us = Wall::now().0.saturating_sub(*at_us).max(1_000_000);
            let (verified, size) = (format::count(*verified), format::count(size.max(*verified)));
            ("good", format!("chain ✓ {verified} of {size}"), Some(age_us))
        }
        ChainState::Broken(damage) => match damage.entry {
            Some(seq) => ("bad", format!("chain ✗ broken at {seq}"), None),
            None => ("bad", "chain ✗ broken".to_owned(), None),
        },
    };
    let title = more.map(|us| format!("verified by this server {} ago", format::span(us)));
    html! {
        @if may_look { a.badge.(tone) href="/ui/health" title=[title] { (word) } }
        @else { span.badge.(tone) title=[title] { (word) } }
    }
}

/// The notice on every page of a damaged ledger: what holds no longer, and the way out.
fn damage(state: &ChainState) -> Markup {
    let Some(damage) = state.damage() else { return html! {} };
    html! {
        p.notice.bad role="alert" {
            "The ledger is damaged"
            @if let Some(seq) = damage.entry { " at entry " (seq) }
            ": " (format::line(&damage.found, 200))
            ". Nothing runs and nothing is approved. Run " code { "par audit verify" } ", then stop the server and run "
            code { "par audit renew --reason …" } "."
        }
    }
}

/// An outcome: a word, with its colour unless it is fine.
pub(super) fn outcome(word: &str) -> Markup {
    html! { span.badge.(loud(word)) { (format::line(word, 24).replace('_', " ")) } }
}

/// The CSS class of an outcome in a list: what is fine stays quiet, so that the rest stands out.
pub(super) fn loud(word: &str) -> &'static str {
    match format::tone(word) {
        "good" => "quiet",
        tone => tone,
    }
}

/// An empty list, and what to do about it.
pub(super) fn empty(what: &str, command: &str) -> Markup {
    html! {
        div.empty {
            p { (what) }
            pre data-copy tabindex="0" { code { (command) } }
        }
    }
}

/// A block of outside text.
pub(super) fn block(text: &str, bytes_max: usize, label: &str) -> Markup {
    let (shown, note) = format::block(text, bytes_max);
    html! {
        pre.block data-copy tabindex="0" role="region" aria-label=(label) { (shown) }
        @if let Some(note) = note { p.muted { (note) } }
    }
}

/// A page for a visitor without a login.
pub(super) fn bare(title: &str, body: Markup) -> Markup {
    let main = html! {
        header.top { a.brand href="/ui/" { (mark()) span { "PAR" } } }
        main #main.narrow tabindex="-1" { (body) }
    };
    document(title, &main)
}

/// An error as it is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorPage<'a> {
    pub(super) status: u16,
    pub(super) title: &'a str,
    pub(super) detail: &'a str,
    /// The id of the request.
    pub(super) id: &'a str,
}

impl ErrorPage<'_> {
    /// The page for a visitor without a login.
    pub(super) fn bare(&self) -> Markup {
        bare(self.title, self.body(&html! { " · " a href="/ui/login" { "Log in" } }))
    }

    /// The page for a visitor with a login, with the navigation of the others.
    pub(super) fn framed(&self, ui: &Ui, visitor: &Visitor) -> Html<String> {
        let page = Page { ui, visitor, here: Here::Elsewhere, title: self.title, same: "/health" };
        page.with(&self.body(&html! {}))
    }

    fn body(&self, more: &Markup) -> Markup {
        html! {
            p.muted { "Error " (self.status) }
            h1 { (self.title) }
            p.lead { (format::line(self.detail, 400)) }
            p { a href="/ui/" { "Back to the overview" } (more) }
            @if !self.id.is_empty() { p.muted { "Request " code { (self.id) } } }
        }
    }
}

fn document(title: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · PAR" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/ui/par.css";
                script src="/ui/par.js" defer {}
            }
            body { a.skip href="#main" { "Skip to content" } (main) }
        }
    }
}

/// The logo: links of a chain.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            rect x="2.5" y="8" width="11" height="8" rx="4" {}
            rect x="10.5" y="8" width="11" height="8" rx="4" {}
        }
    }
}

fn keys() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keyboard shortcuts" }
            dl {
                @for (key, what) in [
                    ("j k", "next row, previous row"),
                    ("Enter", "open the row"),
                    ("/", "search"),
                    ("a d", "approve, deny: on the page of an approval"),
                    ("g o", "overview"),
                    ("g r", "runs"),
                    ("g a", "audit"),
                    ("g p", "approvals"),
                    ("g t", "tools"),
                    ("g h", "health"),
                    ("?", "show this list"),
                ] {
                    dt { kbd { (key) } } dd { (what) }
                }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}
