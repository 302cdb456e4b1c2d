//! The frame of every page: navigation, chain badge, and the same data as a command.

use super::badge::{Badge, Look};
use super::format;
use super::state::Ui;
use super::visitor::Visitor;
use crate::policy::Power;
use crate::types::VERSION;
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
    Health,
}

const PLACES: [(Here, &str, &str, &str, Power); 6] = [
    (Here::Overview, "/ui/", "Overview", "o", Power::AuditRead),
    (Here::Runs, "/ui/runs", "Runs", "r", Power::RunRead),
    (Here::Audit, "/ui/audit", "Audit", "a", Power::AuditRead),
    (Here::Approvals, "/ui/approvals", "Approvals", "p", Power::ApprovalRead),
    (Here::Tools, "/ui/tools", "Tools", "t", Power::ToolsRead),
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
        let badge = visitor.may(Power::AuditRead).then(|| self.ui.chain.look(&self.ui.app));
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
                    @if let Some(badge) = &badge { (chain(badge, self.visitor.may(Power::HealthRead))) }
                    span.muted title={ "role: " (role) } { (name) }
                    form method="post" action="/ui/logout" {
                        input type="hidden" name="token" value=(visitor.login().form_token);
                        button type="submit" { "Log out" }
                    }
                }
            }
            main #main tabindex="-1" { (body) }
            footer {
                (self.curl())
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

/// The badge of the ledger's chain. Its state is also a word. It is a link if the visitor
/// `may_look`.
pub(super) fn chain(badge: &Badge, may_look: bool) -> Markup {
    let ago = |us: u64| format!("checked {} ago", format::span(us.max(1_000_000)));
    let (tone, word, more) = match &badge.look {
        Look::Checking => ("plain", "chain: checking…".to_owned(), String::new()),
        Look::Verified { entries } => {
            ("good", format!("chain ✓ {}", format::count(*entries)), ago(badge.age_us))
        }
        Look::Broken { seq: Some(seq), .. } => ("bad", format!("chain ✗ broken at {seq}"), ago(badge.age_us)),
        Look::Broken { seq: None, .. } => ("bad", "chain ✗ broken".to_owned(), ago(badge.age_us)),
    };
    let title = (!more.is_empty()).then_some(more);
    html! {
        @if may_look { a.badge.(tone) href="/ui/health" title=[title] { (word) } }
        @else { span.badge.(tone) title=[title] { (word) } }
    }
}

/// An outcome: a word, with its colour.
pub(super) fn outcome(word: &str) -> Markup {
    html! { span.badge.(format::tone(word)) { (format::line(word, 24)) } }
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

/// An error, with links back.
pub(super) fn error(status: u16, title: &str, detail: &str, id: &str) -> Markup {
    bare(
        title,
        html! {
            p.muted { "Error " (status) }
            h1 { (title) }
            p.lead { (format::line(detail, 400)) }
            p { a href="/ui/" { "Back to the overview" } " · " a href="/ui/login" { "Log in" } }
            @if !id.is_empty() { p.muted { "Request " code { (id) } } }
        },
    )
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
