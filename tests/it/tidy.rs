//! The house rules that no compiler knows: which room may name which, where unsafe code is, and what
//! words the source does not use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each room with the rooms that it may name, lowest first.
const ARROWS: [(&str, &[&str]); 15] = [
    ("types", &[]),
    ("secrets", &["types"]),
    ("config", &["types"]),
    ("store", &["config", "types"]),
    ("egress", &["config", "secrets", "types"]),
    ("ledger", &["store", "egress", "config", "types"]),
    ("auth", &["ledger", "store", "config", "secrets", "types"]),
    ("tools", &["ledger", "store", "egress", "config", "types"]),
    ("policy", &["auth", "tools", "ledger", "config", "types"]),
    ("gate", &["policy", "tools", "auth", "ledger", "egress", "config", "secrets", "types"]),
    ("llm", &["gate", "tools", "egress", "config", "secrets", "types"]),
    ("sandbox", &["gate", "tools", "config", "types"]),
    (
        "agent",
        &[
            "llm", "sandbox", "gate", "policy", "tools", "auth", "ledger", "egress", "config", "secrets",
            "types",
        ],
    ),
    ("http", &["agent", "sandbox", "gate", "policy", "tools", "auth", "ledger", "config", "types"]),
    (
        "cli",
        &[
            "http", "agent", "llm", "sandbox", "gate", "policy", "tools", "auth", "ledger", "egress",
            "config", "secrets", "types",
        ],
    ),
];

#[test]
fn rooms_name_only_rooms_below() {
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let Some(room) = room_of(&path) else { continue };
        let allowed = arrows.get(room.as_str()).unwrap_or_else(|| panic!("`{room}` is no room"));
        for named in named_rooms(product_part(&text)) {
            if named != room && !allowed.contains(&named.as_str()) {
                wrong.push(format!("{}: `{room}` names `{named}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that go up:\n{}", wrong.join("\n"));
}

#[test]
fn every_arrow_goes_down() {
    let order: Vec<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    for (at, (room, below)) in ARROWS.iter().enumerate() {
        for one in *below {
            let place = order.iter().position(|room| room == one).expect("a room");
            assert!(place < at, "`{room}` → `{one}` goes up");
        }
    }
}

#[test]
fn gate_knows_neither_sandbox_nor_model() {
    let gate = ARROWS.iter().find(|(room, _)| *room == "gate").expect("gate");
    assert!(!gate.1.contains(&"sandbox") && !gate.1.contains(&"llm"));
}

#[test]
fn unsafe_code_is_in_one_file() {
    let with: BTreeSet<String> = sources()
        .into_iter()
        .filter(|(_, text)| text.lines().any(|line| !is_comment(line) && line.contains("unsafe ")))
        .map(|(path, _)| path.strip_prefix(top()).expect("below").display().to_string())
        .collect();
    assert_eq!(with, BTreeSet::from(["src/sandbox/sys.rs".to_owned()]));
}

/// A process number may be another's by the time that it is used.
#[test]
fn only_descriptors_are_signalled() {
    for (path, text) in sources().into_iter().filter(|(path, _)| !path.to_string_lossy().contains("tests")) {
        for word in ["kill_process", "signal::kill(", "libc::kill", "tgkill(", "killpg("] {
            let has = |line: &str| !is_comment(line) && line.replace("test_kill_process", "").contains(word);
            let found = product_part(&text).lines().any(has);
            assert!(!found, "{} has `{word}`", path.display());
        }
    }
}

#[test]
fn pure_files_stay_pure() {
    for file in [
        "src/egress/address.rs",
        "src/ledger/anchored.rs",
        "src/ledger/cosignature.rs",
        "src/ledger/entry.rs",
        "src/ledger/merkle.rs",
        "src/ledger/verify.rs",
        "src/policy/complete.rs",
        "src/policy/decide.rs",
        "src/policy/kept.rs",
        "src/policy/labels.rs",
        "src/policy/links.rs",
        "src/policy/lower.rs",
        "src/policy/replay.rs",
        "src/policy/request.rs",
        "src/policy/shadow.rs",
        "src/policy/slice.rs",
        "src/secrets/finder.rs",
        "src/secrets/forms.rs",
        "src/types/host.rs",
    ] {
        let text = std::fs::read_to_string(top().join(file)).expect("file");
        for word in ["std::fs", "tokio::", "async fn", "clock::", "rusqlite::Connection", "std::net::Tcp"] {
            let has = |line: &str| !is_comment(line) && line.replace("test_kill_process", "").contains(word);
            let found = product_part(&text).lines().any(has);
            assert!(!found, "{file} has `{word}`");
        }
    }
}

#[test]
fn no_room_or_file_has_an_empty_name() {
    for (path, _) in sources() {
        let name = path.file_stem().expect("name").to_string_lossy().into_owned();
        for word in
            ["util", "utils", "common", "core", "manager", "service", "engine", "helper", "helpers", "misc"]
        {
            assert_ne!(name, word, "{}", path.display());
        }
    }
}

#[test]
fn nothing_is_left_for_later_or_switched_off() {
    let words = ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "#[ignore", "#[allow("];
    let mut found = Vec::new();
    for (path, text) in sources() {
        for (at, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_limit_that_is_documented_is_there() {
    let limits = std::fs::read_to_string(top().join("src/types/limits.rs")).expect("limits");
    for name in [
        "REQUEST_BYTES_MAX",
        "JSON_DEPTH_MAX",
        "HEADER_BYTES_MAX",
        "CONNECTIONS_MAX",
        "RUNS_RUNNING_MAX",
        "QUEUE_ENTRIES_MAX",
        "CALLS_PER_RUN_MAX",
        "REPLY_CALLS_MAX",
        "MODEL_ROUNDS_MAX",
        "RUN_MS_MAX",
        "CONTEXT_BYTES_MAX",
        "PAYLOAD_BYTES_MAX",
        "PREPARE_MS_MAX",
        "APPROVAL_MS_MAX",
        "LEDGER_FREE_BYTES_MIN",
    ] {
        assert!(limits.contains(&format!("pub const {name}:")), "{name}");
    }
}

/// Every source file of the product with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![top().join("src")];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).expect("folder") {
            let path = item.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path).expect("text");
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 50, "the source was not found");
    found
}

fn room_of(path: &Path) -> Option<String> {
    let below = path.strip_prefix(top().join("src")).ok()?;
    let mut parts = below.components();
    let first = parts.next()?.as_os_str().to_string_lossy().into_owned();
    // `lib.rs` and `main.rs` are above all rooms.
    parts.next().map(|_| first)
}

/// The rooms that a text names by `crate::room`, also within `use crate::{…}`.
fn named_rooms(text: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for line in text.lines().filter(|line| !is_comment(line)) {
        for rest in line.split("crate::").skip(1) {
            assert!(!rest.starts_with('{'), "name rooms one by one: {line}");
            named.insert(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
        }
    }
    named
}

/// The text before its tests: tests may use more.
fn product_part(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
