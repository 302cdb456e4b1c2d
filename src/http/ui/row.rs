//! An entry as a row: the same fields for a page and for the live tail, already made visible.

use super::{format, page};
use crate::auth::key_names;
use crate::http::link::link;
use crate::ledger::query::{EntryLine, EntryTeller};
use crate::ledger::{Header, Ledger, ReadError, query};
use crate::types::RefusalClass;
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

/// The longest object in a row, in characters.
const WHAT_CHARS_MAX: usize = 72;

/// The fields of a row, as text.
#[derive(Debug, Serialize)]
pub(super) struct EntryRow {
    seq: u64,
    time: String,
    kind: String,
    /// The principal as people know it, and as a query names it.
    who: String,
    principal: String,
    tool: String,
    /// The object, host, key or question.
    what: String,
    /// The decision with the class of a refusal, or the status.
    outcome: String,
    tone: &'static str,
    policies: String,
    run: String,
}

impl EntryRow {
    fn new(header: &Header, line: &EntryLine) -> Self {
        let text = |name: &str, chars| format::line(header.str(name).unwrap_or_default(), chars);
        let outcome = header.str("decision").or_else(|| header.str("status")).unwrap_or_default();
        let policies = header.fields.get("policies").and_then(Value::as_array).into_iter().flatten();
        let policies: Vec<&str> = policies.filter_map(Value::as_str).collect();
        // Rules that are named say that the rules refused, and a page of 200 rows must stay short.
        let class = line.class.filter(|class| *class != RefusalClass::Policy || policies.is_empty());
        let class = class.map(RefusalClass::as_str).unwrap_or_default();
        Self {
            seq: header.seq,
            time: format::time(header.u64("wall_us").unwrap_or(0)),
            kind: format::line(&header.kind, 32),
            who: format::line(&line.who, 32),
            principal: text("principal", 80),
            tool: text("tool", 32),
            what: format::line(&line.what, WHAT_CHARS_MAX),
            outcome: format::line(&[line.outcome.as_str(), class].join(" "), 32).trim_end().to_owned(),
            tone: page::loud(outcome),
            policies: format::line(&policies.join(" "), 40),
            run: text("run", 32),
        }
    }
}

/// A row with the header that it is made from.
#[derive(Debug)]
pub(super) struct ShownEntry {
    header: Header,
    row: EntryRow,
}

impl ShownEntry {
    /// The row as JSON, for the live tail.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(&self.row).unwrap_or_default()
    }

    /// The number of the entry.
    pub(super) fn seq(&self) -> u64 {
        self.row.seq
    }
}

/// Makes the rows of these entries. Reads their payloads. Blocking.
pub(super) fn rows(ledger: &Ledger, headers: Vec<Header>) -> Result<Vec<ShownEntry>, ReadError> {
    let names = ledger.state(key_names)?;
    let teller = EntryTeller { reader: ledger.reader(), names: &names };
    let rows = headers.into_iter().map(|header| {
        // One entry that is damaged must not hide the others; its own page says what is wrong.
        let line = match teller.line(&header) {
            Err(ReadError::Damaged(_, what)) => {
                EntryLine { what: format!("damaged: {what}"), ..EntryLine::default() }
            }
            line => line?,
        };
        Ok(ShownEntry { row: EntryRow::new(&header, &line), header })
    });
    rows.collect()
}

/// Rows in a table that scrolls within itself. A click on a value adds it to the query `q`.
pub(super) fn table(rows: &[ShownEntry], q: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Entries" {
            table.entries {
                thead { tr {
                    th scope="col" { "seq" } th scope="col" { "time" } th scope="col" { "kind" }
                    th scope="col" { "who" } th scope="col" { "tool" } th scope="col" { "what" }
                    th scope="col" { "outcome" } th scope="col" { "policies" } th scope="col" { "run" }
                } }
                tbody #rows { @for shown in rows { (line(shown, q)) } }
            }
        }
    }
}

/// Its markup is short: a page of 200 rows must stay below 100 KB. Links are relative to
/// `/ui/audit`.
fn line(ShownEntry { header, row }: &ShownEntry, q: &str) -> Markup {
    let (word, name) = match header.str("decision") {
        Some(word) => (word, "decision"),
        None => (header.str("status").unwrap_or_default(), "status"),
    };
    let badge = format!("badge {}", row.tone);
    html! {
        tr {
            td { a.open href={ "audit/" (row.seq) } { (row.seq) } }
            td { (row.time) }
            td { (value(q, "kind", &header.kind, &row.kind, None)) }
            td { (value(q, "principal", header.str("principal").unwrap_or_default(), &row.who, None)) }
            td { (value(q, "tool", header.str("tool").unwrap_or_default(), &row.tool, None)) }
            td { (row.what) }
            td { @if !word.is_empty() { (value(q, name, word, &row.outcome, Some(&badge))) } }
            td { (row.policies) }
            td { @if let Some(run) = header.str("run") { a href={ "runs/" (run) } { "…" (tail(run)) } } }
        }
    }
}

/// The end of an id. Its beginning is a time that neighbours share.
pub(super) fn tail(id: &str) -> String {
    let skipped = id.chars().count().saturating_sub(6);
    format::line(&id.chars().skip(skipped).collect::<String>(), 48)
}

/// A value that narrows the list when clicked, or plain text if the query language cannot express
/// it.
fn value(q: &str, name: &str, value: &str, shown: &str, class: Option<&str>) -> Markup {
    match with(q, name, value) {
        Some(q) => html! { a class=[class] href=(link("", &[("q", &q)])) { (shown) } },
        None => html! { span class=[class] { (shown) } },
    }
}

/// The query `q` with one more condition. `None` if the query language cannot express the value, or
/// if it is too long.
pub(super) fn with(q: &str, name: &str, value: &str) -> Option<String> {
    let more = query::word(name, value).filter(|_| value.len() <= 64)?;
    let is_there = query::split(q).is_ok_and(|words| words.contains(&more.as_str()));
    Some(match (is_there, q.is_empty()) {
        (true, _) => q.to_owned(),
        (false, true) => more,
        (false, false) => format!("{q} {more}"),
    })
}

#[cfg(test)]
mod tests {
    use super::with;

    #[test]
    fn a_clicked_value_is_added_once_and_only_if_it_can_be_expressed() {
        for (q, name, value, expect) in [
            ("", "tool", "read_file", Some("tool:read_file")),
            ("kind:a", "tool", "b", Some("kind:a tool:b")),
            ("tool:b", "tool", "b", Some("tool:b")),
            ("nginx", "tool", "a b", Some("nginx tool:\"a b\"")),
            ("tool:\"a*\"", "tool", "a*", Some("tool:\"a*\"")),
            ("", "tool", "", None),
            ("", "payload", "x", None),
        ] {
            assert_eq!(with(q, name, value).as_deref(), expect, "{q} {name} {value}");
        }
    }
}
