//! Answers made from results, in plain sentences.
//!
//! A result is JSON text whose shape belongs to other rooms and to the tools. It is read leniently:
//! missing members are left out, and no content can prevent an answer.

use super::absent::{self, since_asked};
use super::full_disk;
use super::probed::probed;
use super::reads::reads;
use super::report::report;
use super::sentences::sentences;
use super::shape::{count, shown, unreadable, unwrapped};
use super::units::units;
use crate::llm::conversation::Message;
use crate::llm::provider::ToolOffer;
use crate::runbooks::{GivenRunbook, WrittenCall};
use crate::types::{limits, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// The reply to a message that is not understood: the message that was likely meant, the sentences
/// that come nearest to it, and how to see all.
pub(super) fn not_understood(meant: Option<&str>, near: &[&str], tools: &[ToolOffer]) -> String {
    let meant = meant.map(|meant| format!(" Did you mean `{}`?", shown(meant))).unwrap_or_default();
    let near: String = near.iter().map(|example| format!("\n  {example}")).collect();
    let calls =
        if tools.iter().any(|tool| tool.name == "list_dir") { " such as `list_dir(/var/log)`" } else { "" };
    format!(
        "This message is not understood.{meant}\n\
         offline provider: no model is configured, so only tool calls{calls} and some sentences are \
         understood. The nearest are:{near}\n\
         `par run help`, or the message `help`, lists all sentences and tools."
    )
}

/// The answer if no version of a project is live.
pub(super) fn nothing_live(project: &str) -> String {
    let project = shown(project);
    format!(
        "No version of {project} is live, or no such project is there. `which versions of {project} are there?` \
         lists those that can be deployed, and `which projects are there?` the projects.\n{NO_ASSESSMENT}"
    )
}

/// The last line of answers that are made of results.
const NO_ASSESSMENT: &str =
    "offline provider: no model is configured; these are the results of the calls, without an assessment.";

/// The reply to a question for help: what is understood.
pub(super) fn help(tools: &[ToolOffer]) -> String {
    let mut out = String::from(
        "offline provider: no model is configured, so only tool calls and some sentences are understood.\n\
         Write one or more calls, such as `list_dir(/var/log)`, or one of these sentences.\n\
         A file that does not begin with `/` is one of the logs.",
    );
    let known = sentences().filter(|sentence| sentence.is_on(tools));
    out.extend(known.map(|sentence| format!("\n  {}", sentence.example)));
    if !tools.is_empty() {
        out.push_str("\nAvailable tools:");
        out.extend(tools.iter().map(|tool| format!("\n  {}: {}", tool.name, tool.summary)));
    }
    out
}

/// Says which runbook is followed, and which of its steps are left out.
pub(super) fn following(runbook: &GivenRunbook, steps: usize, left: &[WrittenCall]) -> String {
    let all = steps + left.len();
    let mut said = match all {
        0 => format!("runbook {}", runbook.name),
        _ => format!("runbook {}: {steps} of {all} steps", runbook.name),
    };
    if !left.is_empty() {
        let tools: BTreeSet<&str> = left.iter().map(|call| call.tool.as_str()).collect();
        let tools: Vec<String> = tools.into_iter().map(|tool| format!("`{tool}`")).collect();
        said.push_str(&format!(
            "; left out are those of {}, which is not on or which no policy permits you to call",
            tools.join(" and ")
        ));
    }
    said
}

/// One line for each result since a person asked, the words of a runbook after its steps, and a
/// line that says that no model wrote this.
pub(super) fn results(messages: &[Message], runbook: Option<&GivenRunbook>) -> String {
    let since = since_asked(messages);
    let first = since.iter().position(|message| matches!(message, Message::Reply { .. }));
    let line = |(at, message): (usize, &Message)| match message {
        Message::Tool { tool, text, .. } => Some(format!("{}: {}", shown(tool), sentence(tool, text))),
        // The words about the runbook whose steps these are.
        Message::Reply { text, .. } if runbook.is_some() => text.clone(),
        // The one reply that this provider gives after results.
        Message::Reply { .. } if Some(at) != first => Some(absent::before(since.get(at + 1)).to_owned()),
        Message::User(_) | Message::Reply { .. } => None,
    };
    let mut lines: Vec<String> = since.iter().enumerate().filter_map(line).collect();
    lines.extend(full_disk::not_looked_into(since));
    if let Some(next) = runbook.map(GivenRunbook::after_steps).filter(|next| !next.is_empty()) {
        lines.push(format!("What the runbook says next:\n{next}"));
    }
    lines.push(NO_ASSESSMENT.to_owned());
    lines.join("\n")
}

/// The text of a result.
pub(super) fn result_text(message: &Message) -> Option<&str> {
    match message {
        Message::Tool { text, .. } => Some(text),
        Message::User(_) | Message::Reply { .. } => None,
    }
}

fn sentence(tool: &str, text: &str) -> String {
    let Ok(told) = serde_json::from_str::<Value>(text) else { return shown(text) };
    if let Some(failure) = failure(&told) {
        return failure;
    }
    let result = unwrapped(&told);
    let known = match tool {
        "health_check" => health(&result),
        "list_dir" => listing(&result),
        "read_file" => contents(&result),
        "tail_file" => last_lines(&result).or_else(|| contents(&result)),
        "search_files" => finds(&result),
        other => report(other, &result)
            .or_else(|| units(other, &result))
            .or_else(|| probed(other, &result))
            .or_else(|| reads(other, &result)),
    };
    known.unwrap_or_else(|| shown(&members(&result)))
}

/// The content of a value: a flat object as its members by name, without those that are null or
/// empty lists.
fn members(value: &Value) -> String {
    let is_one = |member: &&Value| match member {
        Value::Array(items) => items.iter().any(|item| item.is_object() || item.is_array()),
        other => other.is_object(),
    };
    match value {
        Value::Object(all) if all.len() > 1 && !all.values().any(|member| is_one(&member)) => {
            let known =
                all.iter().filter(|(_, member)| !member.is_null() && **member != Value::Array(Vec::new()));
            known.map(|(name, member)| format!("{name} {}", plain(member))).collect::<Vec<_>>().join(", ")
        }
        other => plain(other),
    }
}

/// Says that a call did not run or failed, with the reason if there is one.
fn failure(told: &Value) -> Option<String> {
    let word = |name| told.get(name).and_then(Value::as_str);
    let what = match (word("decision"), word("status")) {
        (Some("deny"), _) if word("class") == Some("host") => "not possible on this host",
        (Some("deny"), _) if word("class") == Some("capacity") => "not run now",
        (Some("deny"), _) if word("class") == Some("asked") => "not run",
        (Some("deny"), _) => "denied",
        (Some("needs_approval"), Some("refused")) => "not approved",
        (Some("needs_approval"), _) | (_, Some("waiting")) => "waiting for approval",
        (Some("invalid"), _) => "not a valid call",
        (_, Some("error")) => "failed",
        (_, Some("dry_run")) => "not run because this is a dry run",
        (_, Some("denied")) => "denied",
        (_, Some("invalid")) => "not a valid call",
        (_, Some("ok")) => return None,
        // A status inside a tool's own result is not a failure of the call, and comes without a
        // reason.
        (_, Some(other)) if END.contains(&other) => other,
        _ if word("error").is_some() => "failed",
        _ => return None,
    };
    let reason = ["reason", "error", "message", "advice"].into_iter().find_map(word);
    Some(reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {}", shown(reason))))
}

/// The outcomes of a call other than `ok`, `error` and `waiting`.
const END: &[&str] = &["signal", "timeout", "oom", "output_cap", "quota", "killed", "refused", "interrupted"];

fn health(result: &Value) -> Option<String> {
    let mut verdict = shown(result.get("verdict")?.as_str()?);
    let reasons = reasons(result.get("checks"));
    if !reasons.is_empty() {
        verdict = format!("{verdict}: {}", reasons.join(", "));
    }
    let parts = [
        result.get("load").map(|load| format!("load {}", shown(&plain(load)))),
        result.get("memory").and_then(memory),
        result.get("disks").and_then(disks),
        result.get("uptime_s").and_then(Value::as_u64).map(uptime),
    ];
    Some(std::iter::once(verdict).chain(parts.into_iter().flatten()).collect::<Vec<_>>().join("; "))
}

/// What a verdict other than `ok` is about, such as `load 6.93 on 2 processors`.
fn reasons(checks: Option<&Value>) -> Vec<String> {
    let word = |check: &Value, name: &str| check.get(name).and_then(Value::as_str).map(shown);
    let checks = checks.and_then(Value::as_array).into_iter().flatten();
    let bad = checks.filter(|check| word(check, "status").is_some_and(|status| status != "ok"));
    bad.filter_map(|check| Some(format!("{} {}", word(check, "name")?, word(check, "detail")?))).collect()
}

fn memory(memory: &Value) -> Option<String> {
    let total = memory.get("total_bytes")?.as_u64()?;
    let available = memory.get("available_bytes")?.as_u64()?;
    let used = u128::from(total.saturating_sub(available)) * 100;
    Some(format!("memory {} % used", used.checked_div(u128::from(total))?))
}

fn disks(disks: &Value) -> Option<String> {
    let one = |disk: &Value| {
        let mount = disk.get("mount")?.as_str()?;
        Some(format!("{} {} %", shown(mount), plain(disk.get("used_percent")?)))
    };
    let shares: Vec<String> = disks.as_array()?.iter().filter_map(one).collect();
    (!shares.is_empty())
        .then(|| format!("disk {}", text::prefix(&shares.join(", "), limits::REASON_BYTES_MAX)))
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("up {minutes} min"),
        (0, _) => format!("up {hours} h {minutes} min"),
        _ => format!("up {days} d {hours} h"),
    }
}

fn listing(result: &Value) -> Option<String> {
    let entries = result.get("entries")?.as_array()?;
    let count = match entries.len() {
        1 => "1 entry".to_owned(),
        many => format!("{many} entries"),
    };
    let name = |entry: &Value| entry.get("name").unwrap_or(entry).as_str().map(shown);
    let names: Vec<String> = entries.iter().filter_map(name).collect();
    let names = names.join(", ");
    let names = text::prefix(&names, limits::REASON_BYTES_MAX);
    let more = if is_cut(result) || names.len() == limits::REASON_BYTES_MAX { ", …" } else { "" };
    Some(if names.is_empty() { count } else { format!("{count}: {names}{more}") })
}

/// Lines of a file that an answer shows.
const LINES_SHOWN_MAX: usize = 5;
/// Lines of the end of a file that an answer shows.
const TAIL_SHOWN_MAX: usize = 20;

fn finds(result: &Value) -> Option<String> {
    let matches = result.get("matches")?.as_array()?;
    let number = |name: &str| result.get(name).and_then(Value::as_u64).unwrap_or(0);
    let count = |many: u64, one: &str| if many == 1 { format!("1 {one}") } else { format!("{many} {one}s") };
    let mut said = format!(
        "{} in {} searched",
        count(matches.len() as u64, "matching line"),
        count(number("files_read"), "file")
    );
    if number("excluded") > 0 {
        said.push_str(&format!(", {} excluded by policy", number("excluded")));
    }
    said.push_str(&unreadable(result));
    said.push_str(&stopped(result));
    let line = |one: &Value| {
        let word = |name: &str| one.get(name).and_then(Value::as_str).map_or_else(String::new, shown);
        format!("\n  {}:{}: {}", word("path"), plain(one.get("line").unwrap_or(&Value::Null)), word("text"))
    };
    said.extend(matches.iter().take(LINES_SHOWN_MAX).map(line));
    let more = is_cut(result) || matches.len() > LINES_SHOWN_MAX;
    Some(said + if more { "\n  …" } else { "" })
}

/// That a search ended before everything was read, why, and how to go on.
fn stopped(result: &Value) -> String {
    let why = match result.get("stopped_by").and_then(Value::as_str) {
        Some("limit" | "output") => return "; there are more: ask for less, or set `limit`".to_owned(),
        Some("bytes") => "it had read as much as one call may".to_owned(),
        Some("entries") => "there are more files than one call looks at".to_owned(),
        Some("time") => "its time was over".to_owned(),
        Some(other) => shown(other),
        None => return String::new(),
    };
    format!(
        "; the search STOPPED EARLY because {why}, so the rest was not searched: search one file or folder, or set \
         `name` or `since`; `tail_file` shows the end of a file"
    )
}

fn contents(result: &Value) -> Option<String> {
    let content = ["content", "text", "data"].into_iter().find_map(|name| result.get(name)?.as_str())?;
    let size = ["size_bytes", "file_bytes", "size", "bytes"];
    let size = size.into_iter().find_map(|name| result.get(name)?.as_u64()).unwrap_or(content.len() as u64);
    let lines = content.lines().take(LINES_SHOWN_MAX).map(|line| format!("\n  {}", shown(line)));
    let more = is_cut(result) || content.lines().nth(LINES_SHOWN_MAX).is_some();
    Some(format!("{size} bytes{}{}", lines.collect::<String>(), if more { "\n  …" } else { "" }))
}

/// The lines that a program printed, the last ones if there are too many.
fn last_lines(result: &Value) -> Option<String> {
    let printed = result.as_str().or_else(|| result.get("stdout")?.as_str())?;
    let lines: Vec<&str> = printed.lines().collect();
    let left = lines.len().saturating_sub(TAIL_SHOWN_MAX);
    let before = if left > 0 { "\n  …" } else { "" };
    let last = lines.iter().skip(left).map(|line| format!("\n  {}", shown(line)));
    Some(format!("{}{before}{}", count(lines.len() as u64, "line"), last.collect::<String>()))
}

fn is_cut(result: &Value) -> bool {
    result.get("truncated").or_else(|| result.get("more")).is_some_and(|flag| flag == true)
}

/// The content of a value without punctuation: a text, or the members of a flat object.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items)
            if !items.is_empty() && !items.iter().any(|item| item.is_object() || item.is_array()) =>
        {
            items.iter().map(plain).collect::<Vec<_>>().join(" ")
        }
        Value::Object(members)
            if members.values().all(|member| !member.is_object() && !member.is_array()) =>
        {
            members.values().map(plain).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{help, results, sentence};
    use crate::llm::Message;

    #[test]
    fn each_result_is_one_sentence() {
        let check = |tool: &str, told: &str, expect: &str| {
            assert_eq!(sentence(tool, told), expect, "{tool} {told}");
        };
        let health = r#"{"verdict":"warning","checks":[{"name":"load","status":"warning","detail":"6.93 on 2 processors"},
            {"name":"memory","status":"ok","detail":"80 % available"}],"load":{"one":"0.52","five":"0.58"},
            "memory":{"total_bytes":1000,"available_bytes":580},
            "disks":[{"mount":"/","used_percent":91},{"mount":"/srv","used_percent":3}],"uptime_s":273600}"#;
        let line = "warning: load 6.93 on 2 processors; load 0.52 0.58; memory 42 % used; disk / 91 %, /srv 3 %; up 3 d 4 h";
        check("health_check", health, line);
        check("health_check", &format!(r#"{{"status":"ok","result":{health}}}"#), line);
        check("health_check", r#"{"verdict":"ok","memory":{"total_bytes":0,"available_bytes":0}}"#, "ok");
        check("health_check", "[]", "[]");
        check("list_dir", r#"{"entries":[]}"#, "0 entries");
        check("list_dir", r#"{"entries":["a","b"],"truncated":true}"#, "2 entries: a, b, …");
        check("read_file", r#"{"content":"one\ntwo\n","size":8}"#, "8 bytes\n  one\n  two");
        let found = r#"{"matches":[{"path":"/a","line":3,"text":"x"}],"files_read":2,"excluded":1}"#;
        check("search_files", found, "1 matching line in 2 files searched, 1 excluded by policy\n  /a:3: x");
        let found = r#"{"matches":[],"files_read":1,"files_skipped_by":{"unreadable":2,"special":1}}"#;
        check("search_files", found, "0 matching lines in 1 file searched, 2 files may not be read");
        let early = r#"{"matches":[],"files_read":1,"truncated":true,"stopped_by":"bytes"}"#;
        let said = "0 matching lines in 1 file searched; the search STOPPED EARLY because it had read as much as \
                    one call may, so the rest was not searched: search one file or folder, or set `name` or \
                    `since`; `tail_file` shows the end of a file\n  …";
        check("search_files", early, said);
        let tail = r#"{"status":"ok","result":{"stdout":"one\ntwo\u001b[2J\n"}}"#;
        check("tail_file", tail, "2 lines\n  one\n  two\\u{1b}[2J");
        check("read_file", r#"{"decision":"deny","reason":"no permit"}"#, "denied: no permit");
        check("read_file", r#"{"decision":"allow","status":"timeout"}"#, "timeout");
        check("read_file", r#"{"status":"error","error":"is a folder"}"#, "failed: is a folder");
        check("read_file", r#"{"decision":"needs_approval"}"#, "waiting for approval");
        check("disk_usage", r#"{"status":"ok","output":"12 GiB\u001b[2J"}"#, "12 GiB\\u{1b}[2J");
        check("disk_usage", "not JSON\nat all", "not JSON\\nat all");
        let deployed =
            r#"{"status":"ok","result":{"project":"demo","version":"1.0.1","from":null,"live":true}}"#;
        check("deploy", deployed, "project demo, version 1.0.1, live true");
    }

    #[test]
    fn only_the_newest_results_are_shown() {
        let tool = |text: &str| Message::Tool { call_id: "1".into(), tool: "t".into(), text: text.into() };
        let messages =
            [tool("old"), Message::User("next".into()), tool("\"new\""), tool("{\"a\":\"newer\"}")];
        let told = results(&messages, None);
        assert!(told.starts_with("t: new\nt: newer\noffline provider: no model is configured"), "{told}");
    }

    #[test]
    fn help_without_tools_names_none() {
        assert!(!help(&[]).contains("Tools"));
    }
}
