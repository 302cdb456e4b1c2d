//! The house rules that the compiler does not check: which room may name which, where unsafe code
//! is, and which words the source must not use.

mod english;
mod inside;
mod lines;
mod names;
mod packages;
mod reach;
pub(crate) mod source;

use source::{File, files, paths, shown, top, without_words};
use std::collections::{BTreeMap, BTreeSet};

/// Each room with the rooms that it may name, lowest first.
const ARROWS: [(&str, &[&str]); 20] = [
    ("types", &[]),
    ("call", &["types"]),
    ("provenance", &["types"]),
    ("secrets", &["call", "types"]),
    ("config", &["types"]),
    ("tools", &["config", "types"]),
    ("runbooks", &["tools", "secrets", "types"]),
    ("launcher", &["tools", "config", "call", "types"]),
    ("store", &["config", "types"]),
    ("egress", &["config", "secrets", "call", "types"]),
    ("ledger", &["store", "egress", "config", "call", "types"]),
    ("auth", &["ledger", "store", "config", "secrets", "types"]),
    ("policy", &["auth", "runbooks", "tools", "ledger", "config", "provenance", "types"]),
    (
        "gate",
        &["policy", "tools", "auth", "ledger", "egress", "config", "secrets", "provenance", "call", "types"],
    ),
    ("llm", &["gate", "runbooks", "tools", "egress", "config", "secrets", "types"]),
    ("sandbox", &["gate", "launcher", "tools", "config", "call", "types"]),
    (
        "rules",
        &[
            "sandbox", "gate", "policy", "launcher", "runbooks", "tools", "auth", "ledger", "config",
            "secrets", "call", "types",
        ],
    ),
    (
        "agent",
        &[
            "llm",
            "sandbox",
            "gate",
            "policy",
            "launcher",
            "runbooks",
            "tools",
            "auth",
            "ledger",
            "egress",
            "secrets",
            "provenance",
            "call",
            "types",
        ],
    ),
    ("http", &["agent", "rules", "sandbox", "gate", "policy", "tools", "auth", "ledger", "config", "types"]),
    (
        "cli",
        &[
            "http",
            "agent",
            "rules",
            "llm",
            "sandbox",
            "gate",
            "policy",
            "launcher",
            "runbooks",
            "tools",
            "auth",
            "ledger",
            "egress",
            "config",
            "secrets",
            "provenance",
            "call",
            "types",
        ],
    ),
];

#[test]
fn rooms_name_only_rooms_below() {
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| !file.is_test()) {
        let Some(room) = file.room() else { continue };
        let allowed = arrows.get(room).unwrap_or_else(|| panic!("`{room}` is not in the table of rooms"));
        for named in paths(&file.code)
            .into_iter()
            .filter(|path| path[0] == "crate")
            .filter_map(|path| path.get(1).cloned())
        {
            if named != room && !allowed.contains(&named.as_str()) {
                wrong.push(format!("{}: `{room}` names `{named}`", shown(&file.path)));
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
    let has = |file: &&File| without_words(&file.text).contains("unsafe ");
    let with: BTreeSet<String> = files().iter().filter(has).map(|file| shown(&file.path)).collect();
    assert_eq!(with, BTreeSet::from(["src/launcher/sys.rs".to_owned()]));
}

/// A process id may belong to another process by the time it is used. -1 is safe: it means all
/// others of a namespace.
#[test]
fn only_descriptors_are_signalled() {
    for file in files().iter().filter(|file| !file.is_test()) {
        for word in ["kill_process", "signal::kill(", "libc::kill", "tgkill(", "killpg("] {
            let all = "signal::kill(nix::unistd::Pid::from_raw(-1)";
            let plain = file.code.replace("test_kill_process", "").replace(all, "");
            assert!(!plain.contains(word), "{} has `{word}`", shown(&file.path));
        }
    }
}

#[test]
fn pure_files_stay_pure() {
    let files = files();
    for file in [
        "src/egress/address.rs",
        "src/ledger/checkpoint/anchored.rs",
        "src/ledger/checkpoint/epoch.rs",
        "src/ledger/checkpoint/note.rs",
        "src/ledger/checkpoint/witness.rs",
        "src/ledger/entry/draft.rs",
        "src/ledger/entry/header.rs",
        "src/ledger/entry/kind.rs",
        "src/ledger/entry/parse.rs",
        "src/ledger/entry/plain.rs",
        "src/ledger/entry/seal.rs",
        "src/ledger/payload/segments.rs",
        "src/ledger/tree/merkle.rs",
        "src/ledger/tree/proof.rs",
        "src/ledger/verify/entry.rs",
        "src/ledger/verify/signatures.rs",
        "src/ledger/verify/walk.rs",
        "src/secrets/finder.rs",
        "src/secrets/forms.rs",
        "src/types/host.rs",
    ] {
        let file = files.iter().find(|one| shown(&one.path) == file).unwrap_or_else(|| panic!("{file}"));
        check_pure(file);
    }
}

/// The decision point: a repeated decision is the same, so nothing in the room reads anything but
/// its arguments.
#[test]
fn the_whole_decision_point_is_pure() {
    let files = files();
    let rooms = [Some("policy"), Some("provenance")];
    let policy = files.iter().filter(|file| rooms.contains(&file.room()) && !file.is_test());
    assert!(policy.clone().count() > 30, "the files of `policy` were not found");
    policy.for_each(check_pure);
}

fn check_pure(file: &File) {
    for word in ["std::fs", "tokio::", "async fn", "clock::", "rusqlite::Connection", "std::net::Tcp"] {
        assert!(!file.code.contains(word), "{} has `{word}`", shown(&file.path));
    }
}

#[test]
fn no_room_or_file_has_an_empty_name() {
    for file in files() {
        let name = file.path.file_stem().expect("name").to_string_lossy().into_owned();
        for word in
            ["util", "utils", "common", "core", "manager", "service", "engine", "helper", "helpers", "misc"]
        {
            assert_ne!(name, word, "{}", shown(&file.path));
        }
    }
}

#[test]
fn nothing_is_left_for_later_or_switched_off() {
    let words = ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "#[ignore", "#[allow("];
    let mut found = Vec::new();
    for file in files() {
        for (at, line) in file.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", shown(&file.path), at + 1, line.trim()));
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
