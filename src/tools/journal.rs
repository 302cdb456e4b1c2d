//! What `journalctl -o json` prints, as one result.
//!
//! Entries are strangers' words, and what a service or a user adds to them can be anything. Six
//! members of each are kept, however many it has; command lines and environments are not among
//! them (systemd.journal-fields(7)).

use crate::types::clock::Wall;
use crate::types::json::{INTEGER_MAX, parse_strict};
use crate::types::text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Depth of one entry: an object of texts and lists.
const DEPTH_MAX: usize = 4;
/// Bytes of one message that are returned.
const MESSAGE_BYTES_MAX: usize = 2_000;
/// Entries that a shipped command asks for if the call sets no `limit`.
const LIMIT_DEFAULT: usize = 50;
/// The largest number in a result.
const NUMBER_MAX: u64 = INTEGER_MAX.unsigned_abs();
/// What journalctl says on standard error if some journals may not be read. With `-o json` it does
/// not say it.
const HINT: &str = "You are currently not seeing messages from other users";
/// How the line begins that says which files there are.
const FILES_MARK: &str = "par: journal files";
/// The names of priorities (syslog(3)).
const PRIORITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// The files of a journal, as a call's child counted them before it started journalctl, which with
/// `-o json` does not say that it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFiles {
    /// Files that can be opened.
    pub readable: u64,
    /// Files and folders that cannot.
    pub unreadable: u64,
}

impl JournalFiles {
    /// The line that stands before everything that journalctl writes to standard error.
    #[must_use]
    pub fn line(self) -> String {
        format!("{FILES_MARK} {} {}\n", self.readable, self.unreadable)
    }

    /// Takes that line from the start of `stderr`, if it is there.
    pub fn take(stderr: &mut Vec<u8>) -> Option<Self> {
        let rest = stderr.strip_prefix(FILES_MARK.as_bytes())?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let mut words = std::str::from_utf8(rest.get(..end)?).ok()?.split_ascii_whitespace();
        let mut number = || words.next()?.parse().ok();
        let files = Self { readable: number()?, unreadable: number()? };
        stderr.drain(..=FILES_MARK.len() + end);
        Some(files)
    }
}

/// Whether journalctl said nothing but that it leaves out damaged files.
#[must_use]
pub fn is_only_about_damage(stderr: &[u8]) -> bool {
    String::from_utf8_lossy(stderr).lines().all(is_about_damage)
}

/// `Journal file … corrupted, ignoring file.`
fn is_about_damage(line: &str) -> bool {
    line.starts_with("Journal file ") && line.contains(", ignoring")
}

/// The entries in `stdout` as one JSON object. `limit` is how many were asked for at most; `files`
/// is what there was to read.
///
/// The result has the entries as they come, the cursor of the last, and what the kernel says of
/// processes that it killed because memory ran out. A line that is not an entry is only counted. A
/// journal that is not there, may not be read or is damaged is in `not_seen`: without entries and
/// with an empty `not_seen`, the journal was read and has no such entry.
#[must_use]
pub fn journal_result(
    stdout: &[u8],
    stderr: &[u8],
    files: Option<JournalFiles>,
    limit: Option<u64>,
    host: &str,
) -> Value {
    let mut entries = Vec::new();
    let mut oom_kills = Vec::new();
    let (mut cursor, mut unread) = (Value::Null, 0_u64);
    for line in stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match parse_strict(line, DEPTH_MAX) {
            Ok(Value::Object(fields)) => {
                let one = entry(&fields);
                oom_kills.extend(oom_kill(&fields, &one));
                cursor =
                    fields.get("__CURSOR").filter(|cursor| cursor.is_string()).cloned().unwrap_or(cursor);
                entries.push(one);
            }
            _ => unread += 1,
        }
    }
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LIMIT_DEFAULT);
    let not_seen = not_seen(&String::from_utf8_lossy(stderr), files, unread);
    json!({
        "observed_at": Wall::now().rfc3339(),
        "host": host,
        "truncated": entries.len() >= limit,
        "entries": entries,
        "oom_kills": oom_kills,
        "cursor": cursor,
        "not_seen": not_seen,
    })
}

fn not_seen(stderr: &str, files: Option<JournalFiles>, unread: u64) -> Vec<&'static str> {
    let has_none = files.is_some_and(|files| files == JournalFiles::default());
    let reasons = [
        (has_none, "no_journal_files"),
        (files.is_some_and(|files| files.unreadable > 0), "unreadable_journal_files"),
        (stderr.lines().any(is_about_damage), "damaged_journal_files"),
        (stderr.contains(HINT), "journals_of_other_users"),
        (unread > 0, "lines_that_are_no_entries"),
    ];
    reasons.into_iter().filter_map(|(is, reason)| is.then_some(reason)).collect()
}

fn entry(fields: &Map<String, Value>) -> Value {
    let mut one = Map::new();
    let micros = first_text(fields, "__REALTIME_TIMESTAMP").and_then(|micros| micros.parse::<u64>().ok());
    let micros = micros.filter(|micros| *micros <= NUMBER_MAX);
    one.extend(micros.map(|micros| ("at".to_owned(), json!(Wall(micros).rfc3339()))));
    for (field, name) in [("_SYSTEMD_UNIT", "unit"), ("SYSLOG_IDENTIFIER", "identifier")] {
        one.extend(first_text(fields, field).map(|words| (name.to_owned(), json!(words))));
    }
    let pid = first_text(fields, "_PID").and_then(|pid| pid.parse::<u32>().ok());
    one.extend(pid.map(|pid| ("pid".to_owned(), json!(pid))));
    let priority = first_text(fields, "PRIORITY").and_then(|number| number.parse::<usize>().ok());
    let priority = priority.and_then(|number| PRIORITIES.get(number));
    one.extend(priority.map(|name| ("priority".to_owned(), json!(name))));
    match fields.get("MESSAGE") {
        // journalctl writes bytes that are not UTF-8, or that are not printable, as numbers.
        Some(Value::Array(members)) => match bytes(members) {
            Some(bytes) => put_message(&mut one, &bytes),
            // A field may be there several times.
            None => {
                let words = members.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
                put_message(&mut one, words.as_bytes());
            }
        },
        Some(Value::String(words)) => put_message(&mut one, words.as_bytes()),
        // journalctl leaves out what is longer than 4 KiB.
        Some(Value::Null) => drop(one.insert("message_left_out".to_owned(), json!(true))),
        _ => {}
    }
    Value::Object(one)
}

fn put_message(one: &mut Map<String, Value>, message: &[u8]) {
    let (name, shown, is_cut) = match std::str::from_utf8(message) {
        Ok(words) => {
            let shown = text::prefix(words, MESSAGE_BYTES_MAX);
            ("message", shown.to_owned(), shown.len() < words.len())
        }
        Err(_) => {
            let shown = message.get(..MESSAGE_BYTES_MAX).unwrap_or(message);
            ("message_base64", STANDARD.encode(shown), shown.len() < message.len())
        }
    };
    one.insert(name.to_owned(), json!(shown));
    one.extend(is_cut.then(|| ("message_cut".to_owned(), json!(true))));
}

/// The text of a field; the first, if it is there several times.
fn first_text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    match fields.get(name)? {
        Value::Array(all) => all.first().and_then(Value::as_str),
        one => one.as_str(),
    }
}

fn bytes(members: &[Value]) -> Option<Vec<u8>> {
    members.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect()
}

/// A process that the kernel killed because memory ran out. Only the kernel's own messages count:
/// anyone can write such a line.
fn oom_kill(fields: &Map<String, Value>, shown: &Value) -> Option<Value> {
    if first_text(fields, "_TRANSPORT") != Some("kernel") {
        return None;
    }
    let message = shown.get("message")?.as_str()?;
    let (_, rest) = message.split_once("emory: Killed process ")?;
    let (pid, rest) = rest.split_once(" (")?;
    // The name is the process's own, and may hold brackets.
    let (name, figures) = rest.rsplit_once(") total-vm:")?;
    let mut one = Map::from_iter([
        ("at".to_owned(), shown.get("at").cloned().unwrap_or(Value::Null)),
        ("pid".to_owned(), json!(pid.parse::<u32>().ok()?)),
        ("name".to_owned(), json!(name)),
    ]);
    let resident = figures.split_once("anon-rss:").and_then(|(_, rest)| rest.split_once("kB"));
    let resident = resident.and_then(|(kib, _)| kib.parse::<u64>().ok());
    let resident = resident.and_then(|kib| kib.checked_mul(1024)).filter(|bytes| *bytes <= NUMBER_MAX);
    one.extend(resident.map(|bytes| ("resident_bytes".to_owned(), json!(bytes))));
    Some(Value::Object(one))
}

#[cfg(test)]
mod tests {
    use super::{JournalFiles, journal_result};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn result(lines: &[Value]) -> Value {
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        journal_result(text.as_bytes(), b"", None, None, "h")
    }

    /// H22: however many fields an entry has, six are shown.
    #[test]
    fn six_members_of_an_entry_are_kept() {
        let entry = json!({
            "__REALTIME_TIMESTAMP": "1795000000000000", "__CURSOR": "s=1;i=2", "_SYSTEMD_UNIT": "nginx.service",
            "SYSLOG_IDENTIFIER": "nginx", "_PID": "7", "PRIORITY": "3", "MESSAGE": "m", "_TRANSPORT": "stdout",
            "_CMDLINE": "nginx --password=S3CRET", "_HOSTNAME": "web", "ENV": "S3CRET", "_EXE": "/S3CRET",
        });
        let told = result(&[entry]);
        let expect = json!({
            "at": "2026-11-18T11:06:40.000000Z", "unit": "nginx.service", "identifier": "nginx", "pid": 7,
            "priority": "err", "message": "m",
        });
        assert_eq!((&told["entries"], &told["cursor"]), (&json!([expect]), &json!("s=1;i=2")));
        assert!(!told.to_string().contains("S3CRET") && told["truncated"] == false, "{told}");
    }

    #[test]
    fn messages_of_every_form_are_shown() {
        for (message, expect) in [
            (json!([104, 105, 255]), json!({ "message_base64": "aGn/" })),
            (json!([27, 91, 50, 74]), json!({ "message": "\u{1b}[2J" })),
            (json!(["a", "b"]), json!({ "message": "a\nb" })),
            (json!([300]), json!({ "message": "" })),
            (Value::Null, json!({ "message_left_out": true })),
            (json!(7), json!({})),
            (json!("é".repeat(1_500)), json!({ "message": "é".repeat(1_000), "message_cut": true })),
        ] {
            assert_eq!(result(&[json!({ "MESSAGE": message })])["entries"][0], expect);
        }
    }

    /// C5: a line about killed processes counts only if it is the kernel's.
    #[test]
    fn only_the_kernel_says_what_it_killed() {
        let said = |transport: &str, message: &str| {
            let line = json!({ "_TRANSPORT": transport, "MESSAGE": message, "SYSLOG_IDENTIFIER": "kernel" });
            result(&[line])["oom_kills"].clone()
        };
        let real = "Memory cgroup out of memory: Killed process 44 (a) (b) total-vm:1kB, anon-rss:20kB, file-rss:0kB";
        let expect = json!([{ "at": null, "pid": 44, "name": "a) (b", "resident_bytes": 20_480 }]);
        assert_eq!(said("kernel", real), expect);
        assert_eq!(said("syslog", real), json!([]));
        assert_eq!(said("kernel", "Out of memory: Killed process x (a) total-vm:1kB"), json!([]));
        assert_eq!(said("kernel", "Killed process 1 (a) total-vm:1kB"), json!([]));
    }

    #[test]
    fn what_was_not_seen_is_said() {
        let hint = b"Hint: You are currently not seeing messages from other users and the system.\n";
        let told = journal_result(b"no entry\n{\"MESSAGE\":\"m\"}\n", hint, None, Some(1), "h");
        assert_eq!(told["not_seen"], json!(["journals_of_other_users", "lines_that_are_no_entries"]));
        assert_eq!((&told["truncated"], &told["cursor"]), (&json!(true), &Value::Null));
    }

    /// A journal without files, with closed ones and with damaged ones is not one without entries.
    #[test]
    fn a_journal_that_could_not_be_read_is_not_an_empty_one() {
        let check = |readable, unreadable, stderr: &str, expect: serde_json::Value| {
            let files = JournalFiles { readable, unreadable };
            let mut written = [files.line().as_bytes(), stderr.as_bytes()].concat();
            let taken = JournalFiles::take(&mut written);
            assert_eq!((taken, written.as_slice()), (Some(files), stderr.as_bytes()));
            let told = journal_result(b"", &written, taken, None, "h");
            assert_eq!((&told["not_seen"], &told["entries"]), (&expect, &json!([])), "{files:?} {stderr}");
        };
        check(1, 0, "", json!([]));
        check(0, 0, "", json!(["no_journal_files"]));
        check(1, 2, "", json!(["unreadable_journal_files"]));
        let damaged = "Journal file /var/log/journal/system.journal corrupted, ignoring file.\n";
        check(1, 0, damaged, json!(["damaged_journal_files"]));
        for other in ["", "par: journal files 1", "par: journal files 1 x\n", " par: journal files 1 0\n"] {
            assert_eq!(JournalFiles::take(&mut other.as_bytes().to_vec()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_output_gives_a_result_of_bounded_entries(text in "[\\[\\]{}\":,a-zA-Z_0-9\n]{0,200}", bytes: Vec<u8>) {
            for stdout in [text.as_bytes(), &bytes] {
                let told = journal_result(stdout, &bytes, None, None, "h");
                let lines = stdout.split(|byte| *byte == b'\n').count();
                prop_assert!(told["entries"].as_array().is_some_and(|all| all.len() <= lines));
            }
        }
    }
}
