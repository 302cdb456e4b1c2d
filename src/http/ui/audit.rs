//! `/ui/audit`: entries found by the same query language as the command line and the API.

use super::page::{Here, Page, empty};
use super::row::ShownEntry;
use super::state::Ui;
use super::visitor::{Scope, Visitor};
use super::{format, row};
use crate::http::api::export;
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::Problem;
use crate::ledger::{Coverage, Filter, Order, QueryError, query};
use crate::policy::Power;
use crate::types::{limits, text};
use axum::extract::{Query, State};
use axum::response::{Html, Response};
use maud::{Markup, html};

/// Default number of rows.
const ROWS: usize = 100;

/// The parameters of the page.
struct AuditQuery {
    q: String,
    /// The parsed query, or why it cannot be parsed.
    filter: Result<Filter, QueryError>,
    /// The newest entry to show.
    upto: Option<u64>,
    /// Shows the newest entry last, and new ones as they come.
    follow: bool,
    limit: usize,
}

struct AuditRows {
    rows: Vec<ShownEntry>,
    /// The `upto` of the next older page.
    older: Option<u64>,
    /// Number of entries on the ledger at the time of the search.
    size: u64,
    /// How far the index covers the ledger, if it was used.
    index: Option<Coverage>,
}

pub(super) async fn show(
    State(ui): State<Ui>,
    visitor: Visitor,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Html<String>, Problem> {
    let scope = visitor.reading()?;
    let is_all = matches!(scope, Scope::All);
    let mut asked = AuditQuery::read(&asked, is_all);
    let (filter, upto, limit) = (asked.filter.clone().unwrap_or_default(), asked.upto, asked.limit);
    let none = AuditRows { rows: Vec::new(), older: None, size: 0, index: None };
    let found = match &asked.filter {
        Ok(_) => {
            let (app, principal) = (ui.app.clone(), visitor.principal().clone());
            let found = blocking(move || {
                let filter = scope.confine(&app, filter)?;
                let known = match is_all {
                    true => app.known_query(filter, &principal)?,
                    false => match app.unknown_tool(&filter, &principal, is_all)? {
                        Some(unknown) => Err(unknown),
                        None => Ok(app.by_ids(filter)?),
                    },
                };
                match known {
                    Ok(filter) => find(&app, &filter, upto, limit).map(Ok),
                    Err(unknown) => Ok(Err(unknown)),
                }
            });
            found.await?.unwrap_or_else(|unknown| {
                asked.filter = Err(unknown);
                none
            })
        }
        Err(_) => none,
    };
    let limit = limit.to_string();
    let same = link("/audit/entries", &[("q", &asked.q), ("order", "desc"), ("limit", &limit)]);
    let page = Page { ui: &ui, visitor: &visitor, here: Here::Audit, title: "Audit", same: &same };
    Ok(page.with(&body(&asked, found, is_all, visitor.may(Power::Export))))
}

/// Exports the same entries as one file.
pub(super) async fn export(
    State(ui): State<Ui>,
    visitor: Visitor,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let asked = export::ExportQuery::read(&asked)?;
    let (principal, power) = visitor.exporting()?;
    export::answer(ui.app, asked, principal, power).await
}

impl AuditQuery {
    /// Ignores what it does not understand: a page with a wrong parameter is still shown.
    /// Only a reader of the whole ledger follows it live.
    fn read(asked: &[(String, String)], may_follow: bool) -> Self {
        let value = |name: &str| asked.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str());
        let q = text::prefix(value("q").unwrap_or_default(), limits::QUERY_BYTES_MAX).trim().to_owned();
        let limit = value("limit").and_then(|limit| limit.parse().ok());
        Self {
            filter: Filter::parse(&q),
            q,
            upto: value("upto").and_then(|seq| seq.parse().ok()),
            follow: may_follow && value("follow") == Some("1"),
            limit: limit.filter(|limit| (1..=limits::PAGE_ROWS_MAX).contains(limit)).unwrap_or(ROWS),
        }
    }
}

fn find(
    app: &crate::http::app::App,
    filter: &Filter,
    upto: Option<u64>,
    limit: usize,
) -> Result<AuditRows, Problem> {
    // Read first: the live tail sends entries that are appended meanwhile, and the script shows
    // each once.
    let size = app.agent.ledger().head().size;
    let from = upto.unwrap_or_else(|| size.saturating_sub(1));
    let found = app.headers(filter, from, Order::Descending, limit)?;
    let rows = row::rows(app.agent.ledger(), found.headers)?;
    Ok(AuditRows { rows, older: found.next, size, index: found.index })
}

fn body(asked: &AuditQuery, mut found: AuditRows, is_all: bool, may_export: bool) -> Markup {
    if asked.follow {
        found.rows.reverse();
    }
    html! {
        div.title {
            h1 { "Audit" }
            div.actions { @if is_all { (follow(asked)) } @if may_export && asked.filter.is_ok() { (exports(asked)) } }
        }
        @if !is_all { p.muted { "The entries of your own runs." } }
        form.search method="get" action="/ui/audit" role="search" {
            label.sr for="q" { "Query" }
            input #q type="search" name="q" value=(format::block(&asked.q, limits::QUERY_BYTES_MAX).0) data-search spellcheck="false"
                autocomplete="off" placeholder="decision:deny tool:read_* since:24h -kind:model.reply nginx";
            @if asked.follow { input type="hidden" name="follow" value="1"; }
            button type="submit" { "Search" }
        }
        (conditions(asked))
        @if let Err(why) = &asked.filter { p.notice.bad role="alert" { (format::line(&why.to_string(), 300)) } }
        @if found.rows.is_empty() && asked.filter.is_ok() && !asked.follow {
            (nothing(asked, &found))
        } @else if asked.filter.is_ok() {
            div #tail data-follow=[asked.follow.then_some(asked.q.as_str())]
                data-last=[asked.follow.then(|| found.size.saturating_sub(1))] {
                (row::table(&found.rows, &asked.q))
            }
            (covered(&found))
            (steps(asked, &found))
        }
    }
}

fn follow(asked: &AuditQuery) -> Markup {
    html! {
        @if asked.follow {
            span.live #state role="status" { "following needs JavaScript" }
            a.button href=(link("/ui/audit", &[("q", &asked.q)])) { "Stop following" }
        } @else {
            a.button href=(link("/ui/audit", &[("q", &asked.q), ("follow", "1")])) { "Follow live" }
        }
    }
}

/// Links that export every matching entry. The page shows only some of them.
fn exports(asked: &AuditQuery) -> Markup {
    html! {
        @for (format, name) in [("jsonl", "JSONL"), ("csv", "CSV")] {
            a.button href=(link("/ui/export", &[("q", &asked.q), ("format", format)])) download
                title="every matching entry; the ledger records the export" { (name) }
        }
    }
}

/// Each condition of the query with a link that removes it, or suggestions for an empty query.
fn conditions(asked: &AuditQuery) -> Markup {
    let words = query::split(&asked.q).unwrap_or_default();
    let without = |at: usize| {
        let rest: Vec<&str> =
            words.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, word)| *word).collect();
        link("/ui/audit", &[("q", &rest.join(" "))])
    };
    html! {
        ul.chips aria-label="Conditions" {
            @for (at, word) in words.iter().enumerate().take(32) {
                li { a.chip.on href=(without(at)) title="remove this condition" { (format::line(word, 60)) " ×" } }
            }
            @if words.is_empty() {
                @for q in ["decision:deny", "kind:call.decision", "kind:run.request", "status:error", "kind:key.*", "since:24h"] {
                    li { a.chip href=(link("/ui/audit", &[("q", q)])) { (q) } }
                }
            }
        }
    }
}

fn nothing(asked: &AuditQuery, found: &AuditRows) -> Markup {
    let upto = found.older.map(|seq| seq.to_string());
    html! {
        @if let Some(upto) = &upto {
            div.empty {
                p { "No match among the entries searched so far." }
                p { a.button href=(link("/ui/audit", &[("q", &asked.q), ("upto", upto)])) { "Search further back" } }
            }
        } @else {
            (empty("No entry matches. The same on the server:", &command(&asked.q)))
        }
    }
}

/// The command that searches for the same. Each term is an argument of its own.
fn command(q: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-:/*@+,=".contains(c);
    let words = query::split(q).unwrap_or_default();
    // A term that excludes something would be read as an option.
    let dashes = if words.iter().any(|word| word.starts_with('-')) { " --" } else { "" };
    let quoted = words.iter().map(|word| match word.chars().all(is_plain) {
        true => (*word).to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    });
    quoted.fold(format!("par audit show{dashes}"), |line, word| format!("{line} {word}"))
}

/// Says which part of the result comes from the index, if not all of it.
fn covered(found: &AuditRows) -> Markup {
    let Some(Coverage { covered, unsound }) = &found.index else { return html! {} };
    html! {
        @if *covered < found.size {
            p.muted { "The index covers " (format::count(*covered)) " of " (format::count(found.size))
                " entries; the others were read one by one." }
        }
        @if !unsound.is_empty() {
            p.notice.bad { (format::count(unsound.len())) " blocks of the index do not match the ledger: these entries were read from "
                "the ledger, and those blocks are being rebuilt." }
        }
    }
}

fn steps(asked: &AuditQuery, found: &AuditRows) -> Markup {
    let older = found.older.filter(|_| !asked.follow).map(|seq| seq.to_string());
    html! {
        nav.steps aria-label="Further entries" {
            @if asked.upto.is_some() { a.button href=(link("/ui/audit", &[("q", &asked.q)])) { "Newest" } }
            @if let Some(older) = &older {
                a.button rel="next" href=(link("/ui/audit", &[("q", &asked.q), ("upto", older)])) { "Older" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::command;

    /// Under an empty search stands the same search, not another one (A10).
    #[test]
    fn the_command_searches_for_the_same() {
        for (q, expect) in [
            ("", "par audit show"),
            ("decision:deny tool:read_*", "par audit show decision:deny tool:read_*"),
            ("tool:\"a b\" it's", "par audit show 'tool:\"a b\"' 'it'\\''s'"),
            ("nginx -kind:model.reply", "par audit show -- nginx -kind:model.reply"),
            ("$(reboot)", "par audit show '$(reboot)'"),
        ] {
            assert_eq!(command(q), expect);
        }
    }
}
