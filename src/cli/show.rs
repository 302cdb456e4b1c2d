//! Printing for people: plain lines and tables, with control characters from outside made visible.

use super::exit::{self, Fail};
use crate::agent::{AnswerBy, RunReply, Step, unread};
use crate::config::is_color_wanted;
use crate::types::{Decision, RefusalClass, StepStatus, limits, text};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write as _};

/// Writes a line to standard output. A reader that has closed the pipe is not an error.
pub(super) fn line(text: &str) -> Result<(), Fail> {
    bytes(format!("{text}\n").as_bytes())
}

/// Writes bytes to standard output, like [`line`].
pub(super) fn bytes(bytes: &[u8]) -> Result<(), Fail> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Fail::failed(e)),
        _ => Ok(()),
    }
}

/// Writes a line that must reach a reader: a closed pipe is an error, and so is the null device,
/// which replaces a standard output that was closed before this process started.
pub(super) fn hand_over(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let stat = rustix::fs::fstat(&stdout)?;
    let is_device = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device();
    if is_device && stat.st_rdev == rustix::fs::makedev(1, 3) {
        return Err(std::io::Error::other("standard output is closed or `/dev/null`"));
    }
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// Writes a message to standard error. A failure to write it is ignored.
pub(super) fn note(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

/// Writes one JSON object on a line.
pub(super) fn json(value: &impl Serialize) -> Result<(), Fail> {
    line(&serde_json::to_string(value).map_err(Fail::failed)?)
}

/// Writes rows in columns as wide as their widest cell. The last column is not padded.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), Fail> {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let format = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    line(&format(&mut head.iter().copied()))?;
    rows.iter().try_for_each(|row| line(&format(&mut row.iter().map(String::as_str))))
}

/// Formats a number and a noun, with the plural if the number is not 1.
pub(super) fn counted(count: u64, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if count == 1 => format!("1 {one}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {one}s"),
    }
}

/// Prints a run: its steps, its answer and its entries on the ledger.
fn run(reply: &RunReply) -> Result<(), Fail> {
    for one in &reply.steps {
        line(&step(one))?;
    }
    for refusal in reply.refusals() {
        line(&refusal)?;
    }
    if let Some(answer) = &reply.answer {
        let answer = text::visible(answer);
        // What PAR says is not the model's.
        line(&if reply.said_by == Some(AnswerBy::Par) { format!("par: {answer}") } else { answer })?;
    }
    let classes: BTreeSet<RefusalClass> = reply.steps.iter().filter_map(|step| step.class).collect();
    // The words of the other classes end with what to do, or the caller can do nothing.
    for class in classes.iter().filter(|class| matches!(class, RefusalClass::Host | RefusalClass::Capacity)) {
        note(&format!("{class}: {}", class.mend()));
    }
    for approval in reply.steps.iter().filter_map(waits_for) {
        note(&format!(
            "waiting for approval: run `par approval show {approval}`, then `par approval approve` or `deny`"
        ));
    }
    if let Some(ledger) = &reply.ledger {
        let (run, status) = (&reply.run, reply.status.as_str());
        note(&format!("{run} {status}; ledger entries {} to {}", ledger.first, ledger.last));
    }
    Ok(())
}

/// Prints a reply and returns its exit code.
pub(super) fn reply(reply: &RunReply, is_json: bool) -> Result<u8, Fail> {
    if is_json {
        json(reply)?;
    } else {
        run(reply)?;
    }
    Ok(exit::of_run(reply.status))
}

/// The id of the approval that a step waits for.
fn waits_for(step: &Step) -> Option<String> {
    let approval = step.result.get("approval").filter(|_| step.status == StepStatus::Waiting)?;
    Some(text::visible_line(approval.as_str()?))
}

/// Prints a whole result, with control characters made visible.
pub(super) fn result(result: &Value) -> Result<(), Fail> {
    line(&text::visible(&serde_json::to_string_pretty(result).map_err(Fail::failed)?))
}

/// Formats a step on one line: `✓ read_file /var/log/x   allow  ok  #12 #13  read-logs`. The class
/// of a refusal replaces its status.
pub(super) fn step(step: &Step) -> String {
    let is_well = step.decision == Decision::Allow && step.status == StepStatus::Ok;
    let mark = match step.decision {
        Decision::Allow if is_well => paint("32", "✓"),
        Decision::NeedsApproval => paint("33", "…"),
        _ => paint("31", "✗"),
    };
    let what = format!("{} {}", text::visible_line(&step.tool), arguments(&step.args));
    let reason = if is_well { unread(&step.result) } else { reason(&step.result) };
    let why: Vec<String> =
        [step.policies.join(", ")].into_iter().chain(reason).filter(|part| !part.is_empty()).collect();
    let why = why.join(if is_well { "; " } else { " " });
    let status = step.class.map_or_else(|| step.status.as_str(), RefusalClass::as_str);
    let seqs = match step.ledger.result {
        Some(result) => format!("#{} #{result}", step.ledger.decision),
        None => format!("#{}", step.ledger.decision),
    };
    format!("{mark} {what:<40} {:<6} {status:<8} {seqs:<10} {why}", step.decision)
}

/// Colours the text if colours are wanted.
pub(super) fn paint(code: &str, words: &str) -> String {
    if is_color_wanted() { format!("\u{1b}[{code}m{words}\u{1b}[0m") } else { words.to_owned() }
}

fn arguments(args: &Value) -> String {
    let shown = match args {
        Value::Object(members) => {
            let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // The path is the most important argument: it comes first, without its name.
            let path = members.get("path").map(plain);
            let others = members.iter().filter(|(name, _)| *name != "path");
            let others = others.map(|(name, value)| format!("{name}={}", plain(value)));
            path.into_iter().chain(others).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    text::visible_line(text::prefix(&shown, limits::SHOWN_BYTES_MAX))
}

fn reason(result: &Value) -> Option<String> {
    let error = result.get("error")?.as_str()?;
    Some(text::visible_line(text::prefix(error, limits::SHOWN_BYTES_MAX)))
}
