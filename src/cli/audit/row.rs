//! Entries as rows: when, what kind, who, about what, and the outcome.

use super::source::EntrySource;
use crate::cli::exit::{self, Fail};
use crate::cli::table::{Cell, Column, Screen, Sheet, Tone};
use crate::ledger::{Kind, Stored};
use crate::types::clock::Wall;
use crate::types::{RefusalClass, text};
use serde_json::{Map, Value};

/// Widths that the columns need as a rule, for rows that are written one by one.
pub(super) const USUAL: [usize; 6] = [6, 8, 16, 16, 44, 24];

/// The columns of a list of entries.
pub(super) fn table() -> Sheet {
    Sheet::new(&[
        Column::Whole("seq"),
        Column::Whole("time"),
        Column::Whole("kind"),
        Column::Cut("who"),
        Column::Cut("what"),
        Column::Words("outcome"),
    ])
}

/// An entry, from the fields of its header. If it cannot be read, the row says what the header
/// says.
pub(super) fn row(fields: &Map<String, Value>, source: &EntrySource<'_>, screen: &Screen) -> Vec<Cell> {
    let word = |name: &str| text::visible_line(fields.get(name).and_then(Value::as_str).unwrap_or_default());
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let seq = number("seq").unwrap_or_default();
    let line = source.entry(seq).and_then(|stored| stored.map(|stored| source.line(&stored)).transpose());
    let (who, what) = match line {
        Ok(line) => line.map_or_else(|| (word("principal"), String::new()), |line| (line.who, line.what)),
        Err(why) if why.code == exit::UNVERIFIED => (word("principal"), "does not verify".to_owned()),
        Err(_) => (word("principal"), String::new()),
    };
    vec![
        seq.to_string().into(),
        number("wall_us").map(|us| Cell::time(Wall(us), screen)).unwrap_or_default(),
        word("kind").into(),
        who.into(),
        format!("{} {what}", word("tool")).trim().into(),
        outcome(fields),
    ]
}

/// What an entry is about, on one line, with the tool of a call.
pub(super) fn about(stored: &Stored, source: &EntrySource<'_>) -> Result<String, Fail> {
    let tool = text::visible_line(stored.header.str("tool").unwrap_or_default());
    Ok(format!("{tool} {}", source.line(stored)?.what).trim().to_owned())
}

/// Decision or status, and the policies that determined it.
pub(super) fn outcome(fields: &Map<String, Value>) -> Cell {
    let word = |name: &str| text::visible_line(fields.get(name).and_then(Value::as_str).unwrap_or_default());
    let policies = fields.get("policies").and_then(Value::as_array).into_iter().flatten();
    let policies: Vec<String> = policies.filter_map(Value::as_str).map(text::visible_line).collect();
    let status = match word("status") {
        // The status of a refusal is its class.
        class if word("kind") == Kind::ApprovalRefuse.as_str() && class == RefusalClass::Person.as_str() => {
            "refused".to_owned()
        }
        _ if word("kind") == Kind::ApprovalGrant.as_str() => "granted".to_owned(),
        status => status,
    };
    let words = [word("decision"), status, policies.join(",")];
    let tone = words.iter().map(|word| Tone::of(word)).find(|tone| *tone != Tone::Plain).unwrap_or_default();
    let words: Vec<String> = words.into_iter().filter(|part| !part.is_empty()).collect();
    Cell::from(words.join(" ")).toned(tone)
}
