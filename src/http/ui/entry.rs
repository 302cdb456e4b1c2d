//! `/ui/audit/{seq}`: one entry with its exact bytes, and a hash that the browser computes.

use super::format;
use super::page::{self, Here, Page, block};
use super::row;
use super::state::Ui;
use super::timeline;
use super::visitor::{Scope, Visitor};
use crate::auth::key_names;
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::{Code, Problem};
use crate::ledger::query::{EntryLine, EntryTeller};
use crate::ledger::{ReadError, Stored, Unverified};
use crate::types::limits;
use axum::extract::{Path, State};
use axum::response::Html;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use serde_json::Value;

/// Longer headers are not put into the page for the browser to hash, in bytes.
const HASHED_BYTES_MAX: usize = 24 << 10;
/// Maximum length of a field in the table, in characters.
const FIELD_CHARS_MAX: usize = 200;

struct Around {
    stored: Stored,
    before: Option<Stored>,
    after: Option<Stored>,
    /// The entry in words.
    line: EntryLine,
}

/// What is stored under a number.
enum EntryAsStored {
    Entry(Box<Around>),
    Unverified(Unverified),
}

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Path(seq): Path<String>,
) -> Result<Html<String>, Problem> {
    let scope = visitor.reading()?;
    let none = || Problem::new(Code::NotFound, "no entry has this number");
    let seq: u64 = seq.parse().map_err(|_| none())?;
    let app = ui.app.clone();
    let found = blocking(move || {
        let reader = app.agent.ledger().reader();
        if matches!(scope, Scope::All)
            && let Some(unverified) = reader.unverified(seq)?
        {
            return Ok(Some(EntryAsStored::Unverified(unverified)));
        }
        let Some(stored) = reader.entry(seq)? else { return Ok(None) };
        // What the visitor may not read is as if it were not there.
        if !scope.has(&app, &stored)? {
            return Ok(None);
        }
        // A damaged neighbour is shown on its own page.
        let near = |seq| match reader.entry(seq) {
            Err(ReadError::Damaged(..)) => Ok(None),
            read => read,
        };
        let before = seq.checked_sub(1).map(near).transpose()?.flatten();
        let after = seq.checked_add(1).map(near).transpose()?.flatten();
        let names = app.agent.ledger().state(key_names).map_err(ReadError::from)?;
        let line = match (EntryTeller { reader, names: &names }).line(&stored.header) {
            Err(ReadError::Damaged(..)) => EntryLine::default(),
            line => line?,
        };
        Ok(Some(EntryAsStored::Entry(Box::new(Around { stored, before, after, line }))))
    });
    let found = found.await?.ok_or_else(none)?;
    let same = format!("/audit/entries/{seq}");
    let title = format!("Entry {seq}");
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Audit, title: &title, same: &same };
    Ok(page.with(&match &found {
        EntryAsStored::Entry(around) => body(around),
        EntryAsStored::Unverified(entry) => unverified(entry),
    }))
}

/// What is stored of an entry that does not verify.
fn unverified(entry: &Unverified) -> Markup {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    html! {
        div.title { h1 { "Entry " (format::count(entry.seq)) } }
        p.notice.bad role="alert" {
            "This entry does not verify: " (format::line(&entry.what, 400))
            ". What follows is what is stored; it may not be what was written."
        }
        section aria-labelledby="bytes" {
            h2 #bytes { "Stored header" }
            (block(&text(&entry.header), limits::BLOCK_BYTES_MAX, "The stored header"))
        }
        section aria-labelledby="payload" {
            h2 #payload { "Stored payload" }
            @match &entry.payload {
                Some((_, body)) => (block(&text(body), limits::BLOCK_BYTES_MAX, "The stored payload")),
                None => p.empty { "Erased, or never shown." },
            }
        }
    }
}

fn body(around: &Around) -> Markup {
    let header = &around.stored.header;
    html! {
        div.title {
            h1 { "Entry " (format::count(header.seq)) " " span.muted { (format::line(&header.kind, 40)) } }
            nav.actions aria-label="Neighbours" {
                @if let Some(before) = &around.before {
                    a.button rel="prev" href={ "/ui/audit/" (before.header.seq) } { "← " (before.header.seq) }
                }
                @if let Some(after) = &around.after {
                    a.button rel="next" href={ "/ui/audit/" (after.header.seq) } { (after.header.seq) " →" }
                }
            }
        }
        (words(around))
        @if let Some(nearest) = timeline::nearest(&around.stored) {
            p.notice { "No policy permits this call; " (nearest) "." }
        }
        (proof(around))
        div.columns {
            section aria-labelledby="header" { h2 #header { "Header" } (fields(around)) }
            section aria-labelledby="payload" { h2 #payload { "Payload" } (payload(&around.stored)) }
        }
        section aria-labelledby="bytes" {
            h2 #bytes { "Canonical bytes" }
            p.muted { (format::count(around.stored.bytes.len())) " bytes. The leaf hash is SHA-256 over a zero byte followed by these bytes." }
            (block(&String::from_utf8_lossy(&around.stored.bytes), limits::BLOCK_BYTES_MAX, "The bytes as text"))
        }
    }
}

/// Who, what and how it ended, before the record itself.
fn words(around: &Around) -> Markup {
    let EntryLine { who, what, outcome, class } = &around.line;
    let wall_us = around.stored.header.u64("wall_us").unwrap_or(0);
    html! {
        p.line.muted {
            @if !who.is_empty() { (format::line(who, 40)) " · " }
            (format::time(wall_us))
            @if !outcome.is_empty() { " · " (page::outcome(&format::line(outcome, 24))) }
            @if let Some(class) = class { " " (class.as_str()) ": " (class.told()) }
        }
        @if !what.is_empty() { p.wrap { (format::line(what, FIELD_CHARS_MAX)) } }
    }
}

/// The hash according to the server, and a slot for the one that the browser computes.
fn proof(around: &Around) -> Markup {
    let (stored, leaf) = (&around.stored, around.stored.leaf().hex());
    let fits = stored.bytes.len() <= HASHED_BYTES_MAX;
    let next = around.after.as_ref().and_then(|after| after.header.prev).map(|prev| prev.hex());
    let before = around.before.as_ref().map(|before| before.leaf().hex());
    let prev = stored.header.prev.map(|prev| prev.hex());
    html! {
        section.card aria-labelledby="proof" {
            h2 #proof { "Hash chain" }
            p.line role="status" {
                span #verdict.badge.plain data-bytes=[fits.then(|| STANDARD.encode(&stored.bytes))]
                    data-leaf=(leaf) data-next=[next.as_deref()] {
                    @if fits { "not checked in this browser: this needs JavaScript" } @else { "too long to check in this browser" }
                }
            }
            dl.facts {
                dt { "leaf" } dd { code { (leaf) } }
                dt { "prev" } dd {
                    @if let Some(prev) = &prev {
                        code { (prev) } " "
                        @if Some(prev) == before.as_ref() { span.badge.good { "matches the previous entry" } }
                        @else { span.badge.bad { "does not match the previous entry" } }
                    } @else { "none: this is the first entry" }
                }
                dt { "next" } dd {
                    @if let Some(next) = &next {
                        @if *next == leaf { span.badge.good { "the next entry contains this leaf" } }
                        @else { span.badge.bad { "the next entry contains a different leaf" } }
                    } @else { "none yet: this is the newest entry" }
                }
            }
        }
    }
}

fn fields(around: &Around) -> Markup {
    let header = &around.stored.header;
    html! {
        div.scroll tabindex="0" role="region" aria-label="Header fields" {
            table { tbody {
                @for (name, value) in &header.fields {
                    tr { th scope="row" { (format::line(name, 40)) } td.wrap { (field(name, value)) } }
                }
            } }
        }
    }
}

fn field(name: &str, value: &Value) -> Markup {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let shown = format::line(&text, FIELD_CHARS_MAX);
    match name {
        "wall_us" => html! { (shown) " " span.muted { (format::time(value.as_u64().unwrap_or(0))) } },
        "ref" => html! { a href={ "/ui/audit/" (value.as_u64().unwrap_or(0)) } { (shown) } },
        "run" => html! { a href={ "/ui/runs/" (link(&shown, &[])) } { (shown) } },
        _ => match row::with("", name, &text) {
            Some(q) => html! { a href=(link("/ui/audit", &[("q", &q)])) { (shown) } },
            None => html! { (shown) },
        },
    }
}

fn payload(stored: &Stored) -> Markup {
    match &stored.body {
        None => {
            html! { p.empty { "The payload was erased. The entry keeps its place in the chain." } }
        }
        Some(_) if !stored.header.shows_payload() => {
            html! { p.empty { "Never shown: it contains the verifiers of a key." } }
        }
        Some(body) => {
            let value: Value = serde_json::from_slice(body).unwrap_or_default();
            let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
            html! { (block(&pretty, limits::BLOCK_BYTES_MAX, "The payload as JSON")) }
        }
    }
}
