//! Answers made from reports on the host: a line for the report, and lines for its longest part.

use super::shape::{ITEMS_SHOWN_MAX, items, number, shown, size, unreadable, word};
use serde_json::Value;

/// The report of `tool` in words; `None` for another tool, or if the report has another shape.
pub(super) fn report(tool: &str, result: &Value) -> Option<String> {
    match tool {
        "process_list" => processes(result),
        "memory_usage" => memory(result),
        "disk_usage" => file_systems(result),
        "disk_io" => devices(result),
        "largest_paths" => largest(result),
        "listening_ports" => ports(result),
        "connections" => connections(result),
        "interfaces" => interfaces(result),
        _ => None,
    }
}

fn processes(result: &Value) -> Option<String> {
    let seen = number(result, "processes_seen")?;
    let by = match word(result, "sorted_by").as_deref() {
        Some("io") => format!(", those that wait for a disk first{}", unseen_of_disks(result)),
        Some(by) => format!(", most {by} first"),
        None => String::new(),
    };
    let line = |one: &Value| {
        let name = word(one, "name").unwrap_or_else(|| "?".to_owned());
        let parts = [
            number(one, "cpu_percent_of_one_core").map(|percent| format!("{percent} % of a core")),
            number(one, "memory_bytes").map(size),
            word(one, "user").map(|user| format!("user {user}")),
            word(one, "state"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Some(format!("{} {name}: {}", number(one, "pid")?, parts.join(", ")))
    };
    Some(format!("{seen} processes{by}{}", items(result, "processes", line)?))
}

/// What a list of processes by their use of disks does not show.
fn unseen_of_disks(result: &Value) -> String {
    let not_seen = result.get("not_seen").and_then(Value::as_array);
    let waited = not_seen.is_some_and(|all| all.iter().any(|one| one == "time_waited_for_disks"));
    let waited = if waited { ", nor how long they have waited" } else { "" };
    format!(" (how much each reads and writes is not seen{waited})")
}

fn memory(result: &Value) -> Option<String> {
    let memory = result.get("memory")?;
    let mut said = format!(
        "{} of {} available",
        size(number(memory, "available_bytes")?),
        size(number(memory, "total_bytes")?)
    );
    if let Some(percent) = number(memory, "available_percent") {
        said.push_str(&format!(" ({percent} %)"));
    }
    let swap = result.get("swap");
    match swap.and_then(|swap| Some((number(swap, "used_bytes")?, number(swap, "total_bytes")?))) {
        Some((_, 0)) => said.push_str("; no swap"),
        Some((used, total)) => said.push_str(&format!("; swap {} of {}", size(used), size(total))),
        None => {}
    }
    if let Some(kills) = result.get("since_start").and_then(|since| number(since, "oom_kills")) {
        said.push_str(&format!("; {kills} processes ended by the kernel, short of memory, since the start"));
    }
    Some(said)
}

fn file_systems(result: &Value) -> Option<String> {
    let all = result.get("file_systems")?.as_array()?;
    let percent = |one: &Value, name| number(one, name).unwrap_or(0);
    let fullness = |one: &&Value| percent(one, "used_percent").max(percent(one, "inodes_used_percent"));
    let mut fullest: Vec<&Value> = all.iter().collect();
    fullest.sort_by_key(|one| std::cmp::Reverse(fullness(one)));
    let line = |one: &&Value| {
        let parts = [
            number(one, "used_percent").map(|percent| format!("{percent} % used")),
            number(one, "free_bytes").map(|bytes| format!("{} free", size(bytes))),
            number(one, "inodes_used_percent").map(|percent| format!("{percent} % of the inodes")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Some(format!("\n  {} {}: {}", word(one, "mount")?, word(one, "type")?, parts.join(", ")))
    };
    let lines: String = fullest.iter().take(ITEMS_SHOWN_MAX).filter_map(line).collect();
    let more = if fullest.len() > ITEMS_SHOWN_MAX { "\n  …" } else { "" };
    Some(format!("{} file systems, the fullest first{lines}{more}", all.len()))
}

fn devices(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let rate = |name| number(one, name).map(size);
        Some(format!(
            "{}: {} % busy, reads {}/s, writes {}/s",
            word(one, "device")?,
            number(one, "busy_percent")?,
            rate("read_bytes_per_s")?,
            rate("written_bytes_per_s")?
        ))
    };
    let lines = items(result, "devices", line)?;
    Some(format!("{} devices{lines}", result.get("devices")?.as_array()?.len()))
}

fn largest(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        Some(format!(
            "{} {}",
            size(number(one, "on_disk_bytes")?),
            word(one, "path").unwrap_or_else(|| "?".to_owned())
        ))
    };
    let found = size(number(result, "found_bytes")?);
    let explains = number(result, "explained_percent")
        .map(|percent| format!(", {percent} % of what the file system uses"))
        .unwrap_or_default();
    let left = [("excluded", "excluded by policy")]
        .into_iter()
        .filter_map(|(name, words)| Some((number(result, name).filter(|count| *count > 0)?, words)))
        .map(|(count, words)| format!(", {count} {words}"))
        .collect::<String>();
    let left = left + &unreadable(result);
    Some(format!(
        "{found} below {}{explains}{left}\n largest folders{}\n largest files{}",
        word(result, "path")?,
        items(result, "folders", line)?,
        items(result, "files", line)?
    ))
}

fn ports(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let user = word(one, "user").map(|user| format!(", user {user}")).unwrap_or_default();
        let at = match one.get("reachable_at").and_then(Value::as_str) {
            Some("every_address") => "every address".to_owned(),
            Some("this_host") => "this host only".to_owned(),
            _ => word(one, "address")?,
        };
        Some(format!("{}/{} at {at}{user}", number(one, "port")?, word(one, "protocol")?))
    };
    let found = number(result, "ports_found")
        .or_else(|| result.get("ports")?.as_array().map(|ports| ports.len() as u64))?;
    Some(format!("{found} ports listen{}", items(result, "ports", line)?))
}

fn connections(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let end = |side: &str| {
            Some(format!(
                "{}:{}",
                word(one, &format!("{side}_address"))?,
                number(one, &format!("{side}_port"))?
            ))
        };
        Some(format!("{} → {} {}", end("local")?, end("peer")?, word(one, "state")?))
    };
    let found = number(result, "connections_found")?;
    Some(format!("{found} connections{}", items(result, "connections", line)?))
}

fn interfaces(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let addresses = one.get("addresses").and_then(Value::as_array).into_iter().flatten();
        let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(shown).collect();
        let errors: u64 = ["receive_errors", "send_errors"].iter().filter_map(|name| number(one, name)).sum();
        Some(format!("{}: {}; {errors} errors", word(one, "name")?, addresses.join(", ")))
    };
    Some(format!(
        "{} interfaces{}",
        result.get("interfaces")?.as_array()?.len(),
        items(result, "interfaces", line)?
    ))
}

#[cfg(test)]
mod tests {
    use super::{report, size};
    use serde_json::json;

    #[test]
    fn a_report_is_told_in_few_lines() {
        let check = |tool: &str, result: serde_json::Value, expect: &str| {
            assert_eq!(report(tool, &result).as_deref(), Some(expect), "{tool}");
        };
        check(
            "process_list",
            json!({ "processes_seen": 80, "sorted_by": "cpu", "truncated": true, "processes":
                [{ "pid": 7, "name": "a\u{1b}[2J", "cpu_percent_of_one_core": 99, "memory_bytes": 1 << 20, "user": "root", "state": "running" }] }),
            "80 processes, most cpu first\n  7 a\\u{1b}[2J: 99 % of a core, 1024 KiB, user root, running\n  …",
        );
        check(
            "process_list",
            json!({ "processes_seen": 2, "sorted_by": "io", "processes": [], "not_seen": ["arguments", "time_waited_for_disks"] }),
            "2 processes, those that wait for a disk first (how much each reads and writes is not seen, nor how long \
             they have waited)",
        );
        check(
            "disk_usage",
            json!({ "file_systems": [{ "mount": "/", "type": "ext4", "used_percent": 3 },
                { "mount": "/srv", "type": "tmpfs", "used_percent": 100, "free_bytes": 0, "inodes_used_percent": 1 }] }),
            "2 file systems, the fullest first\n  /srv tmpfs: 100 % used, 0 bytes free, 1 % of the inodes\n  / ext4: 3 % used",
        );
        check(
            "memory_usage",
            json!({ "memory": { "total_bytes": 8_u64 << 30, "available_bytes": 1 << 30, "available_percent": 12 },
                "swap": { "total_bytes": 0, "used_bytes": 0 }, "since_start": { "oom_kills": 2 } }),
            "1024 MiB of 8192 MiB available (12 %); no swap; 2 processes ended by the kernel, short of memory, since the start",
        );
        check(
            "listening_ports",
            json!({ "ports_found": 1, "ports": [{ "port": 22, "protocol": "tcp", "address": "0.0.0.0", "reachable_at": "every_address" }] }),
            "1 ports listen\n  22/tcp at every address",
        );
        check(
            "largest_paths",
            json!({ "path": "/a", "found_bytes": 20_480, "explained_percent": 4, "excluded": 1,
                "files": [{ "path": "/a/x", "on_disk_bytes": 4_096 }], "folders": [] }),
            "20 KiB below /a, 4 % of what the file system uses, 1 excluded by policy\n largest folders\n largest files\n  4096 bytes /a/x",
        );
        // Issue 15, finding A1: what it may not look into is said, not only counted.
        check(
            "largest_paths",
            json!({ "path": "/a", "found_bytes": 8_192, "skipped_by": { "unreadable": 2, "too_deep": 1 },
                "files": [], "folders": [] }),
            "8192 bytes below /a, 2 paths may not be read\n largest folders\n largest files",
        );
        check(
            "connections",
            json!({ "connections_found": 1, "connections": [{ "local_address": "::1", "local_port": 22, "peer_address": "::2",
                "peer_port": 40_000, "state": "established" }] }),
            "1 connections\n  ::1:22 → ::2:40000 established",
        );
        check(
            "disk_io",
            json!({ "devices": [{ "device": "sda", "busy_percent": 5, "read_bytes_per_s": 0, "written_bytes_per_s": 4_096 }] }),
            "1 devices\n  sda: 5 % busy, reads 0 bytes/s, writes 4096 bytes/s",
        );
        check(
            "interfaces",
            json!({ "interfaces": [{ "name": "eth0", "addresses": ["10.0.0.2"], "send_errors": 1 }] }),
            "1 interfaces\n  eth0: 10.0.0.2; 1 errors",
        );
        assert_eq!(report("process_list", &json!([])), None);
        assert_eq!(report("other", &json!({})), None);
        assert_eq!(
            (size(0), size(9_999), size(10_240)),
            ("0 bytes".into(), "9999 bytes".into(), "10 KiB".into())
        );
    }
}
