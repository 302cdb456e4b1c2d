//! A run's entries as steps in time: what each one was, its outcome, and its time in the run.

use super::{format, page};
use crate::agent::unread;
use crate::ledger::payload::{
    CallConnectPayload, CallDecisionPayload, CallForecastPayload, CallResultPayload, ContextTrimPayload,
    ModelAskPayload, ModelErrorPayload, ModelReplyPayload, RunReplyPayload, RunRequestPayload,
};
use crate::ledger::{Kind, Stored};
use crate::types::ModelSink;
use crate::types::RefusalClass;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;

/// Width of the time axis, in its own units.
const AXIS: u64 = 1_000;
/// Minimum width of a visible bar, in units of the axis.
const BAR_MIN: u64 = 6;
/// Maximum length of a step's subject, in characters.
const WHAT_CHARS_MAX: usize = 140;

/// One entry as a step.
#[derive(Debug)]
pub(super) struct TimelineStep {
    seq: u64,
    kind: String,
    what: String,
    /// A second line for people.
    more: Option<String>,
    outcome: String,
    begin_us: u64,
    end_us: u64,
}

/// Returns the steps of a run's entries, in order.
pub(super) fn steps(entries: &[Stored]) -> Vec<TimelineStep> {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    let mut before = None;
    let mut steps = Vec::with_capacity(entries.len());
    for stored in entries {
        let header = &stored.header;
        let written_us = header.u64("wall_us").unwrap_or(0);
        // These took time; all other entries are moments.
        let begin_us = match header.known_kind() {
            Some(Kind::ModelReply | Kind::ModelError) => before,
            Some(Kind::CallResult) => header.u64("ref").and_then(|decision| times.get(&decision).copied()),
            _ => None,
        };
        let begin_us = begin_us.unwrap_or(written_us).min(written_us);
        // The results of a group are written together, so the duration comes from the result
        // itself.
        let took = stored.payload().map(|result: CallResultPayload| result.wall_us);
        let end_us = took.map_or(written_us, |took| begin_us.saturating_add(took).min(written_us));
        steps.push(TimelineStep {
            seq: header.seq,
            kind: format::line(&header.kind, 32),
            what: format::line(&what(stored), WHAT_CHARS_MAX),
            more: nearest(stored),
            outcome: outcome(stored),
            begin_us,
            end_us,
        });
        times.insert(header.seq, written_us);
        before = Some(written_us);
    }
    steps
}

/// Which rule was nearest to permitting a call that none permits.
pub(super) fn nearest(stored: &Stored) -> Option<String> {
    let decided = stored.header.is(Kind::CallDecision).then(|| stored.payload::<CallDecisionPayload>());
    decided.flatten()?.nearest.map(|nearest| nearest.line())
}

fn outcome(stored: &Stored) -> String {
    let header = &stored.header;
    let is_class = header.is(Kind::ApprovalRefuse) && header.str("principal").is_some();
    let word = header.str("decision").or_else(|| header.str("status").filter(|_| !is_class));
    let word = word.unwrap_or(match header.known_kind() {
        Some(Kind::RunRequest) => "asked",
        Some(Kind::ModelReply) => "model",
        Some(Kind::ModelError) => "error",
        Some(Kind::CallConnect) => "connects",
        Some(Kind::ApprovalRequest) => "waiting",
        Some(Kind::ApprovalGrant) => "approved",
        Some(Kind::ApprovalRefuse) => "refused",
        _ => "noted",
    });
    format::line(word, 24)
}

/// The subject of an entry, on one line; control characters are not yet made visible.
fn what(stored: &Stored) -> String {
    let tool = stored.header.str("tool").unwrap_or_default();
    if stored.body.is_none() {
        return format!("{tool} (erased)").trim_start().to_owned();
    }
    said(stored, tool).unwrap_or_else(|| tool.to_owned())
}

/// What the payload adds to the header, if anything.
fn said(stored: &Stored, tool: &str) -> Option<String> {
    Some(match stored.header.known_kind()? {
        Kind::RunRequest => stored.payload::<RunRequestPayload>()?.message,
        Kind::ModelAsk => {
            let ask: ModelAskPayload = stored.payload()?;
            let why = ask.reason.map(|why| format!(" · {why}")).unwrap_or_default();
            format!("{} at {}{why}", ask.name, ask.host)
        }
        Kind::ModelReply => reply(&stored.payload()?),
        Kind::ModelError => {
            let ModelErrorPayload { named, error, .. } = stored.payload()?;
            of_model(named.as_deref(), error)
        }
        Kind::CallDecision => {
            let payload: CallDecisionPayload = stored.payload()?;
            let arguments = payload.arguments.or(payload.arguments_raw.map(Value::from));
            let arguments = arguments.as_ref().map(brief).unwrap_or_default();
            let header = &stored.header;
            let class = header.decision().and_then(|is| RefusalClass::of(is, header.str("status")));
            let why = class.zip(payload.reason).map(|(class, why)| format!(" · {class}: {why}"));
            format!("{tool} {arguments}{}", why.unwrap_or_default())
        }
        Kind::ContextTrim => stored.payload::<ContextTrimPayload>()?.line(),
        Kind::CallForecast => {
            format!("{tool} {}", brief(&stored.payload::<CallForecastPayload>()?.arguments))
        }
        Kind::CallConnect => {
            let payload: CallConnectPayload = stored.payload()?;
            format!("{tool} → {} ({})", payload.host, payload.address)
        }
        Kind::CallResult => {
            let CallResultPayload { result, .. } = stored.payload()?;
            let error = result.get("error").and_then(Value::as_str).map(str::to_owned);
            let unread = unread(&result).map(|what| format!("{what} · ")).unwrap_or_default();
            format!("{tool} → {unread}{}", error.unwrap_or_else(|| brief(&result)))
        }
        Kind::RunReply => stored.payload::<RunReplyPayload>()?.answer.unwrap_or_default(),
        _ => return None,
    })
}

fn reply(reply: &ModelReplyPayload) -> String {
    let calls = reply.calls.len();
    let said = reply.text.as_ref().map(|text| format!(" · {text}")).unwrap_or_default();
    let tokens =
        format!("{} in / {} out", format::count(reply.input_tokens), format::count(reply.output_tokens));
    let what =
        if calls > 0 { format!("{tokens} · {calls} proposed{said}") } else { format!("{tokens}{said}") };
    of_model(reply.named.as_deref(), what)
}

/// `what`, after the name of the model in the configuration, unless that is the one of `[llm]`.
fn of_model(named: Option<&str>, what: String) -> String {
    match named.filter(|name| *name != ModelSink::DEFAULT) {
        Some(name) => format!("{name} · {what}"),
        None => what,
    }
}

/// A value on one line: strings without quotes, members as `name=value`.
fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let pairs = members.iter().take(8).map(|(name, value)| match value {
                Value::String(text) => format!("{name}={text}"),
                Value::Object(_) | Value::Array(_) => format!("{name}=…"),
                other => format!("{name}={other}"),
            });
            pairs.collect::<Vec<_>>().join(" ")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Renders the steps as a table with a bar each. The outcome is a word as well as a colour.
pub(super) fn table(steps: &[TimelineStep]) -> Markup {
    let begin = steps.iter().map(|step| step.begin_us).min().unwrap_or(0);
    let end = steps.iter().map(|step| step.end_us).max().unwrap_or(0);
    let whole = end.saturating_sub(begin).max(1);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Timeline" {
            table.timeline {
                thead { tr {
                    th scope="col" { "seq" } th scope="col" { "kind" } th scope="col" { "outcome" }
                    th scope="col" { "what" } th.n scope="col" { "took" }
                    th scope="col" { "when in the run: " (format::span(whole)) }
                } }
                tbody { @for step in steps { (row(step, begin, whole)) } }
            }
        }
    }
}

fn row(step: &TimelineStep, begin: u64, whole: u64) -> Markup {
    let took = step.end_us.saturating_sub(step.begin_us);
    let place = |us: u64| us.saturating_mul(AXIS) / whole;
    let width = place(took).clamp(BAR_MIN, AXIS);
    let x = place(step.begin_us.saturating_sub(begin)).min(AXIS - width);
    html! {
        tr {
            td.n { a.open href={ "/ui/audit/" (step.seq) } { (step.seq) } }
            td { (step.kind) }
            td { (page::outcome(&step.outcome)) }
            td.what { (step.what) @if let Some(more) = &step.more { br; span.muted { (more) } } }
            td.n { @if took > 0 { (format::span(took)) } }
            td.bar {
                svg viewBox={ "0 0 " (AXIS) " 20" } preserveAspectRatio="none" aria-hidden="true" {
                    line.axis x1="0" y1="10" x2=(AXIS) y2="10" {}
                    rect.(format::tone(&step.outcome)) x=(x) y=(if took > 0 { 4 } else { 2 })
                        width=(width) height=(if took > 0 { 12 } else { 16 }) {}
                }
            }
        }
    }
}
