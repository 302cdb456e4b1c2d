//! One entry for a person: what it is, who caused it, what was decided by which rule, what happened
//! then, and which entries are near it.

use super::row::{about, outcome};
use super::source::{EntrySource, Sound};
use crate::cli::exit::Fail;
use crate::cli::table::{Cell, Column, Screen, Sheet, Tone, told, words};
use crate::ledger::payload::{
    ApprovalGrantPayload, ApprovalRefusePayload, CallDecisionPayload, CallResultPayload, HaltLiftPayload,
    HaltSetPayload, ObjectFound, PolicyLoadPayload, RunCancelPayload, SessionEndPayload, ToolsLoadPayload,
};
use crate::ledger::{Filter, Header, Kind, Order, Stored};
use crate::tools::UnknownTool;
use crate::types::clock::Wall;
use crate::types::{Decision, limits, text};
use serde_json::{Map, Value};

/// Entries of a run that are looked at for neighbours, at most.
const NEIGHBOURS_MAX: usize = 1_000;

/// Prints the card of an entry. `before` is the log that was set aside and that the entry is in.
pub(super) fn print(stored: &Stored, source: &EntrySource<'_>, before: Option<&str>) -> Result<(), Fail> {
    let screen = Screen::stdout();
    let header = &stored.header;
    let (seq, kind) = (header.seq, text::visible_line(&header.kind));
    let at = header.u64("wall_us").map(|us| when(Wall(us), &screen)).unwrap_or_default();
    words(&screen, &format!("entry {seq}: {kind}, {at}"))?;
    let mut lines = Lines::new();
    if let Some(principal) = header.str("principal") {
        lines.put("who", &who(principal, &source.line(stored)?.who));
    }
    match given(stored) {
        // A person's reason is shown once, and whole.
        Some((what, reason)) => {
            lines.put("what", format!("{} {what}", header.str("tool").unwrap_or_default()).trim());
            lines.put("reason", &reason);
        }
        None => lines.put("what", &about(stored, source)?),
    }
    match &stored.body {
        None if header.payload_len > 0 => lines.put("payload", "erased"),
        Some(_) if header.is(Kind::CallDecision) => decision(&mut lines, stored),
        Some(_) if header.is(Kind::CallResult) => result(&mut lines, stored),
        _ => {}
    }
    if let Some(withheld) = withheld(stored, source)? {
        lines.put("tool", &withheld);
    }
    lines.cell("outcome", outcome(&header.fields));
    lines.put("rule", &rules(header, source)?.join("\n"));
    lines.put("labels", &labels(&header.fields));
    lines.put("run", header.str("run").unwrap_or_default());
    for (name, near) in neighbours(header, source)? {
        lines.put(name, &near);
    }
    let of_log = before.map_or_else(String::new, |log| format!(" --before {log}"));
    lines.put("record", &format!("par audit show {seq}{of_log} --json"));
    // Only what the rules decided can be explained by them.
    let decided = stored.payload::<CallDecisionPayload>().and_then(|decided| decided.request);
    if before.is_none() && decided.is_some_and(|request| request.get("action").is_some()) {
        lines.put("why", &format!("par policy explain {seq}"));
    }
    lines.0.print(&screen)
}

/// The names and values of a card. Empty values are left out.
struct Lines(Sheet);

impl Lines {
    fn new() -> Self {
        Self(Sheet::bare(&[Column::Whole(""), Column::Whole("name"), Column::Words("value")]))
    }

    fn put(&mut self, name: &str, value: &str) {
        self.cell(name, Cell::from(text::visible(value)));
    }

    fn cell(&mut self, name: &str, value: Cell) {
        if !value.is_empty() {
            self.0.push(vec![Cell::default(), Cell::from(name).toned(Tone::Faint), value]);
        }
    }
}

fn when(at: Wall, screen: &Screen) -> String {
    if screen.columns.is_some() { told(at, screen.now) } else { at.rfc3339() }
}

/// A principal by its name, and as the record writes it.
fn who(principal: &str, name: &str) -> String {
    match text::visible_line(principal) {
        shown if shown == name => shown,
        shown => format!("{name}, {shown}"),
    }
}

/// What a person's act was about, and the reason that the person gave.
fn given(stored: &Stored) -> Option<(String, String)> {
    let acted = |what: String, reason: Option<String>| (what, reason.unwrap_or_default());
    match stored.header.known_kind()? {
        Kind::ApprovalRefuse => {
            stored.payload().map(|refused: ApprovalRefusePayload| acted(String::new(), refused.reason))
        }
        Kind::ApprovalGrant => {
            stored.payload().map(|given: ApprovalGrantPayload| acted(String::new(), given.reason))
        }
        Kind::HaltSet => {
            stored.payload().map(|halt: HaltSetPayload| acted(halt.scope.to_string(), Some(halt.reason)))
        }
        Kind::HaltLift => {
            stored.payload().map(|lift: HaltLiftPayload| acted(lift.scope.to_string(), lift.reason))
        }
        Kind::RunCancel => {
            stored.payload().map(|cancel: RunCancelPayload| acted(String::new(), cancel.reason))
        }
        Kind::SessionEnd => stored.payload().map(|end: SessionEndPayload| acted(String::new(), end.reason)),
        _ => None,
    }
}

/// What a decision was about, and why it was made.
fn decision(lines: &mut Lines, stored: &Stored) {
    let Some(decided) = stored.payload::<CallDecisionPayload>() else { return };
    lines.put("object", &object(&decided));
    let arguments = decided.arguments.as_ref().map(Value::to_string).or(decided.arguments_raw);
    lines.put("arguments", &text::visible_line(&arguments.unwrap_or_default()));
    let left_out: Vec<String> =
        decided.exclusions.into_iter().flatten().map(|one| text::visible_line(&one.canonical)).collect();
    lines.put("leaves out", &left_out.join("\n"));
    lines.put("hosts", &decided.connect.unwrap_or_default().join(", "));
    lines.put("reason", decided.reason.as_deref().unwrap_or_default());
    lines.put("nearest", &decided.nearest.map(|nearest| nearest.line()).unwrap_or_default());
    lines.put("advice", &decided.advice.unwrap_or_default().join("\n"));
    // What keeps a call from being decided by the rules is its reason and its only error.
    let errors = decided.errors.unwrap_or_default().into_iter();
    let errors: Vec<String> = errors.filter(|error| Some(error) != decided.reason.as_ref()).collect();
    lines.put("errors", &errors.join("\n"));
    if let Some(shadow) = decided.shadow {
        lines.put("in shadow", &format!("{} by {}", shadow.decision, shadow.policies.join(", ")));
    }
    lines.put("taint", &taint(decided.request.as_ref()).join(", "));
}

/// The object of a call as the sandbox found it.
fn object(decided: &CallDecisionPayload) -> String {
    let id = || decided.request.as_ref()?.pointer("/resource/id")?.as_str().map(text::visible_line);
    match &decided.object {
        Some(ObjectFound::Path { canonical, .. }) => text::visible_line(canonical),
        Some(ObjectFound::Absent { folder, rest }) => {
            format!("{}, which does not exist", text::visible_line(&format!("{folder}/{rest}")))
        }
        Some(ObjectFound::Outside) => {
            id().map(|id| format!("{id}, outside the folders of the tool")).unwrap_or_default()
        }
        _ => id().unwrap_or_default(),
    }
}

/// The labels of untrusted text that the run had read, as the policies saw them.
fn taint(request: Option<&Value>) -> Vec<String> {
    let session =
        |entity: &&Value| entity.pointer("/uid/type").and_then(Value::as_str) == Some("PAR::Session");
    let entities = request.and_then(|request| request.get("entities")?.as_array()).into_iter().flatten();
    let labels = entities.filter(session).filter_map(|entity| entity.pointer("/attrs/taint")?.as_array());
    labels.flatten().filter_map(Value::as_str).map(text::visible_line).collect()
}

fn result(lines: &mut Lines, stored: &Stored) {
    let Some(ended) = stored.payload::<CallResultPayload>() else { return };
    let cut = if ended.truncated { ", the output was cut" } else { "" };
    lines.put("took", &format!("{}{cut}", crate::cli::table::span(ended.wall_us)));
    if let Some(made) = ended.connections {
        let hosts: Vec<String> = made.told.iter().map(|one| text::visible_line(&one.host)).collect();
        lines.put("connected", &hosts.join(", "));
    }
}

/// Labels of an entry's header, if it has any.
fn labels(fields: &Map<String, Value>) -> String {
    let of = |name: &str| fields.get(name).and_then(Value::as_array).into_iter().flatten();
    let words = ["taint", "seen"].into_iter().flat_map(of).filter_map(Value::as_str);
    words.map(text::visible_line).collect::<Vec<_>>().join(", ")
}

/// The rules that determined a decision, each with the file and line where the bundle of that time
/// defines it.
fn rules(header: &Header, source: &EntrySource<'_>) -> Result<Vec<String>, Fail> {
    let policies = header.policies();
    if policies.is_empty() {
        return Ok(Vec::new());
    }
    let loads = source.headers(
        &Filter::field("kind", Kind::PolicyLoad.as_str()),
        header.seq,
        Order::Descending,
        1,
        usize::MAX,
    )?;
    let Some(seq) = loads.first().map(|load| load.seq) else { return Ok(lines(policies, |_| None)) };
    let found = source.sound(seq)?;
    if matches!(found, Sound::Damaged) {
        let origin = format!("loaded by entry {seq}, which does not verify");
        return Ok(lines(policies, |_| Some(origin.as_str())));
    }
    let load: Option<PolicyLoadPayload> = found.entry().and_then(|load| load.payload());
    let load = load.filter(|load| header.str("policy") == Some(load.digest.hex().as_str()));
    Ok(lines(policies, |id| {
        let found = load.as_ref()?.policies.iter().find(|one| one.id == id);
        Some(found.map_or("built in", |one| one.origin.as_str()))
    }))
}

/// A line for each rule, with the place that defines it if it is known.
fn lines<'a>(policies: Vec<String>, origin: impl Fn(&str) -> Option<&'a str>) -> Vec<String> {
    let line = |id: String| match origin(&id) {
        Some(origin) => format!("{id}, {origin}"),
        None => id,
    };
    policies.into_iter().map(line).map(|line| text::visible_line(&line)).collect()
}

/// Says that the tool of an invalid call was loaded, although the caller was told that no tool has
/// this name. Only a reader of the whole ledger learns it: a tool that is not offered and an
/// unknown one look the same to the model and to the caller.
fn withheld(stored: &Stored, source: &EntrySource<'_>) -> Result<Option<String>, Fail> {
    let header = &stored.header;
    let Some(tool) = header.str("tool").filter(|_| header.decision() == Some(Decision::Invalid)) else {
        return Ok(None);
    };
    let reason = stored.payload::<CallDecisionPayload>().and_then(|decided| decided.reason);
    if !reason.is_some_and(|reason| UnknownTool::is_reason(&reason, tool)) {
        return Ok(None);
    }
    let loads = Filter::field("kind", Kind::ToolsLoad.as_str());
    let loads = source.headers(&loads, header.seq, Order::Descending, 1, usize::MAX)?;
    let load = loads.first().map(|load| source.sound(load.seq)).transpose()?.and_then(Sound::entry);
    let load: Option<ToolsLoadPayload> = load.and_then(|load| load.payload());
    let is_loaded = load.is_some_and(|load| load.tools.iter().any(|one| one.name == tool));
    Ok(is_loaded.then(|| {
        format!(
            "`{tool}` was loaded, but no policy permits this caller to use it at all, so it was not offered"
        )
    }))
}

/// The entries around an entry of a run: those of the same call, and the ones before and after it.
fn neighbours(header: &Header, source: &EntrySource<'_>) -> Result<Vec<(&'static str, String)>, Fail> {
    let Some(run) = header.str("run") else { return Ok(Vec::new()) };
    let of_run = Filter::field("run", run);
    // A run that waits goes on later; its entries are then looked for in both directions.
    let mut near =
        source.headers(&of_run, header.seq, Order::Descending, NEIGHBOURS_MAX, limits::PAGE_SCAN_MAX)?;
    near.reverse();
    near.extend(source.headers(
        &of_run,
        header.seq + 1,
        Order::Ascending,
        NEIGHBOURS_MAX,
        limits::PAGE_SCAN_MAX,
    )?);
    let is_of_call = |one: &&Header| header.str("call").is_some() && one.str("call") == header.str("call");
    let mut found = Vec::new();
    let mut put = |name, near: &Header| {
        let line = match source.sound(near.seq)? {
            Sound::Entry(stored) => about(&stored, source)?,
            Sound::Absent => String::new(),
            Sound::Damaged => format!("does not verify: par audit show {}", near.seq),
        };
        let line = format!("#{} {} {line}", near.seq, text::visible_line(&near.kind));
        found.push((name, line.trim_end().to_owned()));
        Ok::<(), Fail>(())
    };
    let others = |one: &&Header| one.seq != header.seq;
    near.iter().filter(is_of_call).filter(others).try_for_each(|one| put("same call", one))?;
    if let Some(before) = near.iter().rev().find(|one| one.seq < header.seq && !is_of_call(one)) {
        put("before", before)?;
    }
    if let Some(after) = near.iter().find(|one| one.seq > header.seq && !is_of_call(one)) {
        put("after", after)?;
    }
    Ok(found)
}
