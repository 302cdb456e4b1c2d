//! Answers from what the host and PAR keep: journals, packages, logins, jobs, files, the record.

use super::shape::{ITEMS_SHOWN_MAX, count, items, number, shown, time, word};
use serde_json::Value;

/// The answer to a call of `tool`; `None` for another tool, or if the result has another shape.
pub(super) fn reads(tool: &str, result: &Value) -> Option<String> {
    match tool {
        "journal_query" | "journal_search" | "kernel_log" => journal(result),
        "diff_files" => differences(result),
        "read_config" => config(result),
        "who_was_denied" => denied(result),
        "pending_updates" => updates(result),
        "logins" => logins(result),
        "cron_list" => jobs(result),
        _ => None,
    }
}

fn journal(result: &Value) -> Option<String> {
    let all = result.get("entries")?.as_array()?;
    let line = |one: &Value| {
        let from = word(one, "unit").or_else(|| word(one, "identifier")).unwrap_or_default();
        let said = word(one, "message").unwrap_or_else(|| no_text(one).to_owned());
        let priority = word(one, "priority").unwrap_or_default();
        Some(format!("{} {from} {priority}: {said}", time(one, "at")?))
    };
    let kills = result.get("oom_kills").and_then(Value::as_array).map_or(0, Vec::len);
    let kills = match kills {
        0 => String::new(),
        1 => "; the kernel ended 1 process for want of memory".to_owned(),
        many => format!("; the kernel ended {many} processes for want of memory"),
    };
    let lines = items(result, "entries", line)?;
    let unseen = unseen(result).map(|unseen| format!(": {unseen}")).unwrap_or_default();
    if all.is_empty() {
        return Some(format!("no entries{unseen}"));
    }
    Some(format!("{}, newest first{kills}{unseen}{lines}", count(all.len() as u64, "entry")))
}

/// What stands in place of a message that is not there as text.
fn no_text(entry: &Value) -> &'static str {
    match entry.get("message_left_out") {
        Some(Value::Bool(true)) => "(longer than 4 KiB: left out)",
        _ => "(not a text)",
    }
}

/// What of the journal was not read.
fn unseen(result: &Value) -> Option<String> {
    let reasons = result.get("not_seen")?.as_array()?.iter().filter_map(Value::as_str);
    let said = reasons.map(|reason| match reason {
        "no_journal_files" => "this host has no journal files that the tool can see".to_owned(),
        "unreadable_journal_files" => "some journal files may not be read".to_owned(),
        "damaged_journal_files" => "some journal files are damaged and were not read".to_owned(),
        other => format!("not seen: {}", shown(other)),
    });
    Some(said.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
}

fn differences(result: &Value) -> Option<String> {
    if result.get("identical") == Some(&Value::Bool(true)) {
        return Some("the files are identical".to_owned());
    }
    let line = |one: &Value| {
        let side = |name: &str, mark: &str| -> String {
            let lines = one.get(name).and_then(Value::as_array).into_iter().flatten();
            let lines = lines.filter_map(Value::as_str).take(ITEMS_SHOWN_MAX);
            lines.map(|line| format!("\n  {mark} {}", shown(line))).collect()
        };
        let at = number(one, "new_line").or_else(|| number(one, "old_line"))?;
        Some(format!("line {at}{}{}", side("removed", "-"), side("added", "+")))
    };
    let lines = |name: &str| count(number(result, name).unwrap_or(0), "line");
    let (removed, added) = (lines("lines_removed"), lines("lines_added"));
    Some(format!("{removed} removed, {added} added{}", items(result, "differences", line)?))
}

fn config(result: &Value) -> Option<String> {
    let mut lines = Vec::new();
    flatten("", result.get("values")?, &mut lines);
    let more = lines.len() > ITEMS_SHOWN_MAX || result.get("truncated") == Some(&Value::Bool(true));
    let shown: String = lines.iter().take(ITEMS_SHOWN_MAX).map(|line| format!("\n  {line}")).collect();
    let left = number(result, "left_out").filter(|left| *left > 0);
    let left = left.map(|left| format!(", {} left out", count(left, "value"))).unwrap_or_default();
    Some(format!("{}{left}{shown}{}", word(result, "format")?, if more { "\n  …" } else { "" }))
}

/// Each value with its name, such as `db.port = 5432`. A line more than is shown says that there
/// are others.
fn flatten(name: &str, value: &Value, lines: &mut Vec<String>) {
    if lines.len() > ITEMS_SHOWN_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let dot = if name.is_empty() { "" } else { "." };
                flatten(&format!("{name}{dot}{member}"), value, lines);
            }
        }
        value => lines.push(format!("{} = {}", shown(name), shown(&value.to_string()))),
    }
}

fn denied(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let rules = one.get("rules").and_then(Value::as_array).into_iter().flatten();
        let rules: Vec<String> = rules.filter_map(Value::as_str).map(shown).collect();
        let why = match (rules.is_empty(), word(one, "class").as_deref()) {
            (false, _) => format!("by {}", rules.join(", ")),
            (true, Some("policy") | None) => "no policy permits it".to_owned(),
            (true, Some(class)) => class.to_owned(),
        };
        let last = time(one, "last_at").map(|at| format!(", last {at}")).unwrap_or_default();
        let calls = count(number(one, "calls")?, "call");
        Some(format!("{} {}: {calls}, {why}{last}", word(one, "principal")?, word(one, "tool")?))
    };
    let whose = if word(result, "runs").as_deref() == Some("own") { " of your own" } else { "" };
    let calls = count(number(result, "calls_denied")?, "call");
    let hours = count(number(result, "hours")?, "hour");
    Some(format!("{calls}{whose} denied in {hours}{}", items(result, "denied", line)?))
}

/// A count that may not be known.
fn known(result: &Value, name: &str) -> String {
    number(result, name).map_or_else(|| "an unknown number of".to_owned(), |many| many.to_string())
}

/// Why one of these counts is not known, as the tool says it.
fn unknown_because(result: &Value, names: &[&str]) -> String {
    let is_unknown = names.iter().any(|name| number(result, name).is_none());
    let all = result.get("not_seen").and_then(Value::as_array).filter(|_| is_unknown);
    // Lists that are compressed are there.
    let is_compressed =
        all.is_some_and(|all| all.iter().any(|one| one.as_str() == Some("compressed_package_lists")));
    let all = all.into_iter().flatten().filter_map(Value::as_str);
    let all = all.filter(|one| !(is_compressed && *one == "package_lists"));
    let why: Vec<String> = all.filter_map(in_words).collect();
    if why.is_empty() { String::new() } else { format!("; the reason: {}", why.join("; ")) }
}

/// What a tool could not see, in words and with what mends it; `None` for what has no effect on a
/// count.
fn in_words(not_seen: &str) -> Option<String> {
    Some(match not_seen {
        "apt_preferences" | "dependencies" => return None,
        "package_lists" => {
            "there are no package lists: `apt-get update` on the server fetches them".to_owned()
        }
        "compressed_package_lists" => {
            "apt keeps its package lists compressed on this host, and PAR does not unpack them: take \
             `Acquire::GzipIndexes` out of /etc/apt/apt.conf.d, then `apt-get update`"
                .to_owned()
        }
        "further_package_lists" => "a package list was not read to its end".to_owned(),
        "further_packages" => "there are more packages than the tool reads".to_owned(),
        other => shown(other),
    })
}

/// What `logins` did not read, a line each: without it, `0 failed` would say that no login failed.
fn logins_unread(result: &Value) -> String {
    let not_seen = result.get("not_seen").and_then(Value::as_array).into_iter().flatten();
    let has = |name: &str| not_seen.clone().any(|one| one.as_str() == Some(name));
    let mut said = String::new();
    if result.get("records_since").is_some_and(Value::is_null) {
        said.push_str("\n no record of a login was found at all: this does not mean that there was none");
    }
    if has("auth_log") {
        said.push_str(
            "\n not read: auth.log or secure in the folder of the tool's manifest, because it is not there or the \
             tools' user may not read it; `par doctor path /var/log/auth.log` says which",
        );
    }
    let other = ["wtmp", "btmp"].into_iter().filter(|name| has(name)).collect::<Vec<_>>();
    if !other.is_empty() {
        said.push_str(&format!("\n not read: {}", other.join(" and ")));
    }
    said
}

fn updates(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let is = |name: &str| one.get(name) == Some(&Value::Bool(true));
        let marks = [(is("security"), ", security"), (is("held"), ", held back")];
        let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        let (installed, candidate) = (word(one, "installed")?, word(one, "candidate")?);
        Some(format!("{} {installed} → {candidate}{marks}", word(one, "name")?))
    };
    let lines = items(result, "packages", line)?;
    let as_of = time(result, "as_of").map(|at| format!(", as of {at}")).unwrap_or_default();
    let why = unknown_because(result, &["count", "security", "held"]);
    let Some(all) = number(result, "count") else {
        return Some(format!("how many updates are pending is not known{as_of}{why}{lines}"));
    };
    let (security, held) = (known(result, "security"), known(result, "held"));
    Some(format!("{all} pending, {security} for security, {held} held back{as_of}{why}{lines}"))
}

fn logins(result: &Value) -> Option<String> {
    let times = |one: &Value| {
        let last = time(one, "last_at").map(|at| format!(", last {at}")).unwrap_or_default();
        Some(format!("{}{last}", count(number(one, "count")?, "time")))
    };
    let login = |one: &Value| {
        let from = word(one, "from").map(|from| format!(" from {from}")).unwrap_or_default();
        Some(format!("{}{from}: {}", word(one, "user")?, times(one)?))
    };
    let failed = |one: &Value| Some(format!("from {}: {}", word(one, "from")?, times(one)?));
    let hours = count(number(result, "hours")?, "hour");
    let failures = items(result, "failed_by_source", failed).unwrap_or_default();
    Some(format!(
        "{} logins in {hours}{}\n {} failed{}{failures}{}",
        known(result, "logins_total"),
        items(result, "logins", login)?,
        known(result, "failed_total"),
        unknown_because(result, &["logins_total", "failed_total"]),
        logins_unread(result)
    ))
}

fn jobs(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let user = word(one, "user").map(|user| format!(" by {user}")).unwrap_or_default();
        let program = word(one, "program").unwrap_or_else(|| "an unknown program".to_owned());
        let off = if one.get("enabled") == Some(&Value::Bool(false)) { ", off" } else { "" };
        Some(format!("{} {program}{user} ({}){off}", word(one, "schedule")?, word(one, "file")?))
    };
    Some(format!("{}{}", count(number(result, "jobs_found")?, "job"), items(result, "jobs", line)?))
}

#[cfg(test)]
mod tests {
    use super::reads;
    use serde_json::json;

    const AT: &str = "2026-11-18T11:06:40.000000Z";

    fn check(tool: &str, result: serde_json::Value, expect: &str) {
        assert_eq!(reads(tool, &result).as_deref(), Some(expect), "{tool}");
    }

    #[test]
    fn what_was_read_is_told_in_few_lines() {
        let at = AT;
        check(
            "journal_query",
            json!({ "oom_kills": [{ "pid": 1 }], "entries": [
                { "at": at, "unit": "nginx.service", "priority": "err", "message": "a\nb" },
                { "at": at, "identifier": "kernel", "priority": "info", "message_left_out": true },
                { "at": at, "identifier": "x", "priority": "info", "message_base64": "//4=" }] }),
            "3 entries, newest first; the kernel ended 1 process for want of memory\n  2026-11-18T11:06:40Z \
             nginx.service err: a\\nb\n  2026-11-18T11:06:40Z kernel info: (longer than 4 KiB: left out)\n  \
             2026-11-18T11:06:40Z x info: (not a text)",
        );
        check(
            "kernel_log",
            json!({ "entries": [], "oom_kills": [], "not_seen": ["no_journal_files", "damaged_journal_files"] }),
            "no entries: this host has no journal files that the tool can see; some journal files are damaged and \
             were not read",
        );
        check("kernel_log", json!({ "entries": [], "not_seen": [] }), "no entries");
        check(
            "diff_files",
            json!({ "identical": false, "lines_removed": 1, "lines_added": 2,
                "differences": [{ "old_line": 3, "new_line": 3, "removed": ["a"], "added": ["b", "c"] }] }),
            "1 line removed, 2 lines added\n  line 3\n  - a\n  + b\n  + c",
        );
        check("diff_files", json!({ "identical": true }), "the files are identical");
        check(
            "read_config",
            json!({ "format": "toml", "left_out": 1, "values": { "port": 80, "db": { "user": "x" } } }),
            "toml, 1 value left out\n  port = 80\n  db.user = \"x\"",
        );
        check(
            "who_was_denied",
            json!({ "hours": 24, "runs": "own", "calls_denied": 3, "denied": [
                { "principal": "os:ana", "tool": "read_file", "rules": [], "class": "policy", "calls": 2, "last_at": at },
                { "principal": "os:ana", "tool": "deploy", "rules": ["night"], "class": "policy", "calls": 1 }] }),
            "3 calls of your own denied in 24 hours\n  os:ana read_file: 2 calls, no policy permits it, last \
             2026-11-18T11:06:40Z\n  os:ana deploy: 1 call, by night",
        );
        assert_eq!(reads("read_config", &json!({})), None);
    }

    #[test]
    fn what_was_counted_is_told_with_what_is_not_known() {
        let at = AT;
        check(
            "pending_updates",
            json!({ "count": 2, "security": 1, "held": null, "as_of": at, "not_seen": ["/var/lib/dpkg/status is not there"], "packages": [
                { "name": "openssl", "installed": "3.0.1", "candidate": "3.0.2", "security": true, "held": false }] }),
            "2 pending, 1 for security, an unknown number of held back, as of 2026-11-18T11:06:40Z; the \
             reason: /var/lib/dpkg/status is not there\n  openssl 3.0.1 → 3.0.2, security",
        );
        check(
            "logins",
            json!({ "hours": 24, "logins_total": 1, "failed_total": 2,
                "logins": [{ "user": "ana", "from": "192.0.2.7", "count": 1 }],
                "failed_by_source": [{ "from": "192.0.2.9", "count": 2, "last_at": at }] }),
            "1 logins in 24 hours\n  ana from 192.0.2.7: 1 time\n 2 failed\n  from 192.0.2.9: 2 times, last \
             2026-11-18T11:06:40Z",
        );
        check(
            "pending_updates",
            json!({ "count": null, "security": null, "held": null, "packages": [],
                "not_seen": ["apt_preferences", "dependencies", "package_lists"] }),
            "how many updates are pending is not known; the reason: there are no package lists: `apt-get update` on \
             the server fetches them",
        );
        // Issue 15, finding 53: failed logins stood in a log that the tool did not read.
        check(
            "logins",
            json!({ "hours": 24, "logins_total": 0, "failed_total": 0, "logins": [], "failed_by_source": [],
                "records_since": null, "not_seen": ["auth_log"] }),
            "0 logins in 24 hours\n 0 failed\n no record of a login was found at all: this does not mean that there \
             was none\n not read: auth.log or secure in the folder of the tool's manifest, because it is not there \
             or the tools' user may not read it; `par doctor path /var/log/auth.log` says which",
        );
        check(
            "cron_list",
            json!({ "jobs_found": 1, "jobs": [{ "file": "/etc/crontab", "schedule": "@daily", "user": "root",
                "program": "/usr/bin/x", "enabled": false }] }),
            "1 job\n  @daily /usr/bin/x by root (/etc/crontab), off",
        );
    }
}
