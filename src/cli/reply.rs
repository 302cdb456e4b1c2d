//! A run for people: its steps, its answer and where it is on the ledger.

use super::exit::{self, Fail};
use super::show;
use super::table::{Screen, Tone, width, wrap};
use crate::agent::{AnswerBy, HeldResponse, RunReply, Step, unread};
use crate::ledger::payload::NearestRule;
use crate::tools::builtin::NOT_FOUND;
use crate::types::{CallId, Decision, RefusalClass, RunId, RunStatus, StepStatus, limits, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// What is on the screen of a run.
#[derive(Debug, Default)]
pub(super) struct PrintedRun {
    /// The run, once it began.
    pub(super) run: Option<RunId>,
    /// The calls whose steps were printed.
    pub(super) calls: BTreeSet<CallId>,
    /// The text of the model's last reply, as it is recorded, if all of it was printed.
    pub(super) said: Option<String>,
}

/// Prints the steps of a run, who refused a call, and the answer.
pub(super) fn body(reply: &RunReply) -> Result<(), Fail> {
    rest(reply, &PrintedRun::default())
}

/// Prints a run as [`body`] does, without what is on the screen already.
fn rest(reply: &RunReply, printed: &PrintedRun) -> Result<(), Fail> {
    let screen = Screen::stdout();
    let left = reply.steps.iter().filter(|step| !printed.calls.contains(&step.call));
    left.into_iter().try_for_each(|step| self::step(step, &screen))?;
    for refusal in reply.refusals() {
        show::line(&refusal)?;
    }
    let Some(answer) = &reply.answer else { return Ok(()) };
    let answer = text::visible(answer);
    // An answer that matches a schema is for programs: without a fence around it.
    let held = reply.answer_json.as_ref().filter(|_| screen.columns.is_none());
    let answer = held.map_or(answer, Value::to_string);
    // What PAR says is not the model's.
    let is_par = reply.said_by == Some(AnswerBy::Par);
    if !is_par && printed.said.as_ref() == Some(&answer) {
        return Ok(());
    }
    // A pipe gets the bare answer. On a terminal the label stands between PAR's words and others.
    if !is_par && screen.columns.is_some() {
        show::note("the model says:");
    }
    // An answer that PAR made without a model is what the caller asked for, not a message.
    let is_message = is_par && reply.status != RunStatus::Done;
    show::line(&if is_message { format!("par: {answer}") } else { answer })
}

/// Prints a run: its steps, its answer and its entries on the ledger.
fn run(reply: &RunReply, printed: &PrintedRun) -> Result<(), Fail> {
    rest(reply, printed)?;
    if let Some(line) = contradicts(reply) {
        show::note(&line);
    }
    if let Some(line) = reply.incomplete() {
        show::note(line);
    }
    let classes: BTreeSet<RefusalClass> = reply.steps.iter().filter_map(|step| step.class).collect();
    // The words of the other classes end with what to do, or the caller can do nothing.
    for class in classes.iter().filter(|class| matches!(class, RefusalClass::Host | RefusalClass::Capacity)) {
        show::note(&format!("{class}: {}", class.mend()));
    }
    if let Some(line) = reply.response.as_ref().and_then(HeldResponse::line) {
        show::note(&line);
    }
    for approval in reply.steps.iter().filter_map(waits_for) {
        show::note(&format!(
            "waiting for approval: run `par approval show {approval}`, then `par approval approve` or `deny`"
        ));
    }
    if let Some(ledger) = &reply.ledger {
        let (run, status) = (&reply.run, reply.status.as_str());
        let models = models(&reply.models);
        let runbook = reply.runbook.as_deref().map(text::visible_line);
        let runbook = runbook.map(|name| format!("; runbook {name}")).unwrap_or_default();
        show::note(&format!(
            "{run} {status}{runbook}; ledger entries {} to {}{models}",
            ledger.first, ledger.last
        ));
    }
    Ok(())
}

/// Which models answered, in order: `; answered by fast 2 times, local`.
fn models(names: &[String]) -> String {
    let mut told: Vec<(&str, u32)> = Vec::new();
    for name in names {
        match told.last_mut() {
            Some((last, times)) if last == name => *times += 1,
            _ => told.push((name, 1)),
        }
    }
    let one = |(name, times): (&str, u32)| match times {
        1 => text::visible_line(name),
        times => format!("{} {times} times", text::visible_line(name)),
    };
    match told.is_empty() {
        true => String::new(),
        false => format!("; answered by {}", told.into_iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// Which calls were refused, below an answer: a model may say that they ran.
fn contradicts(reply: &RunReply) -> Option<String> {
    let is_answer = reply.said_by == Some(AnswerBy::Model) || reply.status == RunStatus::Done;
    reply.answer.as_ref().filter(|_| is_answer)?;
    let refused =
        |step: &&Step| matches!(step.decision, Decision::Deny | Decision::Invalid) || step.class.is_some();
    let refused: Vec<String> = reply
        .steps
        .iter()
        .filter(refused)
        .map(|step| {
            let why = step.class.map_or_else(|| step.decision.as_str(), RefusalClass::as_str);
            format!("{} ({why})", text::visible_line(text::prefix(&step.tool, 64)))
        })
        .collect();
    let were = match refused.len() {
        0 => return None,
        1 => "1 call was refused".to_owned(),
        count => format!("{count} calls were refused"),
    };
    Some(format!("{were} and did not run: {}", refused.join(", ")))
}

/// Prints a reply and returns its exit code.
pub(super) fn print(reply: &RunReply, is_json: bool) -> Result<u8, Fail> {
    print_rest(reply, &PrintedRun::default(), is_json)
}

/// Does what [`print`] does, after what is `printed` already.
pub(super) fn print_rest(reply: &RunReply, printed: &PrintedRun, is_json: bool) -> Result<u8, Fail> {
    if is_json {
        show::json(reply)?;
    } else {
        run(reply, printed)?;
    }
    Ok(exit::of_run(reply.status))
}

/// The id of the approval that a step waits for.
fn waits_for(step: &Step) -> Option<String> {
    let approval = step.result.get("approval").filter(|_| step.status == StepStatus::Waiting)?;
    Some(text::visible_line(approval.as_str()?))
}

/// Prints steps, each on one line if the terminal is wide enough.
pub(super) fn steps(steps: &[Step]) -> Result<(), Fail> {
    let screen = Screen::stdout();
    steps.iter().try_for_each(|step| self::step(step, &screen))
}

/// Prints a step and, if no policy permits its call, the nearest rule.
pub(super) fn step(step: &Step, screen: &Screen) -> Result<(), Fail> {
    lines(step, screen).iter().chain(&nearest(step, screen)).try_for_each(|line| show::line(line))
}

/// A step: `✓ read_file /var/log/x   allow  ok  #12 #13  read-logs`. The class of a refusal
/// replaces its status. What does not fit on one line of a terminal continues below the call.
fn lines(step: &Step, screen: &Screen) -> Vec<String> {
    let is_well = step.decision == Decision::Allow && step.status == StepStatus::Ok;
    let (tone, mark) = match step.decision {
        Decision::Allow if is_well => (Tone::Good, "✓"),
        Decision::NeedsApproval => (Tone::Warn, "…"),
        _ => (Tone::Bad, "✗"),
    };
    let mark = screen.paint(tone, mark);
    let what = format!("{} {}", text::visible_line(&step.tool), arguments(&step.args));
    let what = what.trim_end();
    let reason = if is_well { unread(&step.result) } else { reason(step) };
    let why: Vec<String> =
        [step.policies.join(", ")].into_iter().chain(reason).filter(|part| !part.is_empty()).collect();
    let why = why.join(if is_well { "; " } else { " " });
    let status = step.class.map_or_else(|| step.status.as_str(), RefusalClass::as_str);
    let seqs = match step.ledger.result {
        Some(result) => format!("#{} #{result}", step.ledger.decision),
        None => format!("#{}", step.ledger.decision),
    };
    let decision = step.decision.to_string();
    let painted = screen.paint(Tone::of(&decision), &decision);
    let pad = " ".repeat(6_usize.saturating_sub(width(&decision)));
    let rest = format!("{pad} {status:<8} {seqs:<10} {why}");
    let one = format!("{what:<40} {decision}{rest}");
    match screen.columns {
        Some(columns) if 2 + width(one.trim_end()) > columns => {
            let mut lines: Vec<String> = wrap(what, columns.saturating_sub(2).max(10))
                .into_iter()
                .enumerate()
                .map(|(at, piece)| if at == 0 { format!("{mark} {piece}") } else { format!("  {piece}") })
                .collect();
            let rest = format!("{decision}  {status}  {seqs}  {why}");
            for (at, piece) in wrap(rest.trim_end(), columns.saturating_sub(4).max(10)).iter().enumerate() {
                let piece = if at == 0 { piece.replacen(&decision, &painted, 1) } else { piece.clone() };
                lines.push(format!("    {}", piece.trim_end()));
            }
            lines
        }
        _ => vec![format!("{mark} {what:<40} {painted}{rest}").trim_end().to_owned()],
    }
}

/// Which rule was nearest to permitting a call that none permits, below its step.
fn nearest(step: &Step, screen: &Screen) -> Vec<String> {
    let Some(line) = step.nearest.as_ref().map(NearestRule::line) else { return Vec::new() };
    let lines = match screen.columns {
        Some(columns) => wrap(&line, columns.saturating_sub(4).max(10)),
        None => vec![line],
    };
    lines.into_iter().map(|line| format!("    {}", line.trim_end())).collect()
}

pub(super) fn arguments(args: &Value) -> String {
    let shown = match args {
        Value::Object(members) => {
            let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // The path is the most important argument: it comes first, without its name.
            let path = members.get("path").map(plain);
            let others = members.iter().filter(|(name, _)| *name != "path");
            let others = others.map(|(name, value)| format!("{name}={}", plain(value)));
            path.into_iter().chain(others).collect::<Vec<_>>().join(" ")
        }
        // What is not JSON, or does not match the schema, is recorded as text.
        Value::String(raw) => raw.clone(),
        other => other.to_string(),
    };
    text::visible_line(text::prefix(&shown, limits::SHOWN_BYTES_MAX))
}

/// Why a call did not do what it should. To a caller who was allowed to ask, an object that was not
/// there is no secret.
fn reason(step: &Step) -> Option<String> {
    let error = match step.result.get("error")?.as_str()? {
        NOT_FOUND if step.decision == Decision::Allow => "not found",
        error => error,
    };
    Some(text::visible_line(text::prefix(error, limits::SHOWN_BYTES_MAX)))
}
