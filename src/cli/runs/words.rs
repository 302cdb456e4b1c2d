//! What is said of a run, one line each.

use crate::agent::RunReply;
use crate::cli::exit::Fail;
use crate::cli::show::word;
use crate::cli::table::{Cell, Column, Screen, Sheet, span};
use serde_json::Value;

/// Whether every entry of the run verifies.
pub(super) fn is_whole(found: &RunReply) -> bool {
    found.ledger.as_ref().is_none_or(|ledger| ledger.damaged.is_empty())
}

/// The damaged entries of a run, as one line; empty without any.
pub(super) fn damage(found: &RunReply) -> String {
    let damaged = found.ledger.as_ref().map(|ledger| ledger.damaged.as_slice()).unwrap_or_default();
    let Some(first) = damaged.first() else { return String::new() };
    let all: Vec<String> = damaged.iter().map(u64::to_string).collect();
    let what = if all.len() == 1 { "this entry does" } else { "these entries do" };
    format!("{what} not verify: {}; what they say is left out: par audit show {first}", all.join(", "))
}

/// An approval with the person who answered it.
pub(super) fn answered(approval: &Value) -> String {
    let by = match word(approval, "/answer/who") {
        by if by.is_empty() => String::new(),
        by => format!(" by {by}"),
    };
    let reason = match word(approval, "/answer/reason") {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {reason}"),
    };
    format!("{} {}{by}{reason}", word(approval, "/id"), word(approval, "/state"))
}

/// What the model used, and the time from the request to the reply, most of which may be that of a
/// person.
pub(super) fn cost(found: &RunReply, asked: &Value, has_waited: bool) -> String {
    let usage = &found.usage;
    let time = |at: &str| asked.pointer(at).and_then(Value::as_u64);
    let took = time("/ended_us").zip(time("/started_us")).map(|(end, start)| span(end.saturating_sub(start)));
    let with = if has_waited { " from the request to the reply, with the time for the approval" } else { "" };
    let took = took.map_or_else(String::new, |took| format!(", {took}{with}"));
    let (read, written) = (usage.input_tokens, usage.output_tokens);
    let replies = match usage.model_calls {
        1 => "1 reply".to_owned(),
        count => format!("{count} replies"),
    };
    format!("{replies} of the model, {read} tokens read, {written} written{took}")
}

/// The runs of a list.
pub(in crate::cli) fn table(rows: &[Value]) -> Result<(), Fail> {
    let screen = Screen::stdout();
    let mut table = Sheet::new(&[
        Column::Whole("run"),
        Column::Whole("started"),
        Column::Whole("status"),
        Column::Cut("who"),
        Column::Whole("calls"),
        Column::Words("message"),
    ]);
    for row in rows {
        let message = match word(row, "/damaged") {
            seq if seq.is_empty() => word(row, "/message"),
            seq => format!("entry {seq} does not verify: {}", word(row, "/message")),
        };
        table.push(vec![
            word(row, "/run").into(),
            Cell::written_time(&word(row, "/started"), &screen),
            Cell::outcome(&word(row, "/status")),
            word(row, "/who").into(),
            word(row, "/calls").into(),
            message.trim_end_matches(": ").into(),
        ]);
    }
    table.print_or(&screen, "par: no run matches")
}
