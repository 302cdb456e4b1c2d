//! One unit.

use super::unit::{UNIT, check_name, interface, known, put, said, time, word};
use crate::tools::builtin::answer::Answer;
use crate::tools::builtin::bus::{BusValue, Systemd};
use serde_json::{Map, Value, json};
use std::io::{Read, Write};

/// What a service has in addition to other units, and what it is called in the result.
const NUMBERS_OF_SERVICE: [(&str, &str); 5] = [
    ("MainPID", "main_pid"),
    ("NRestarts", "restarts"),
    ("MemoryCurrent", "memory_bytes"),
    ("TasksCurrent", "tasks"),
    ("ExecMainStatus", "exit_status"),
];

/// How the unit `name` is. Every word in the result is one of systemd's states, so that it can be
/// trusted.
pub(super) fn service_status<S: Read + Write>(systemd: &mut Systemd<S>, name: &str) -> Answer {
    let own = interface(name)?;
    check_name(systemd, name)?;
    let mut members = Map::from_iter([("service".to_owned(), json!(name))]);
    let all = &mut members;
    for (property, shown) in [
        ("LoadState", "load"),
        ("ActiveState", "active"),
        ("SubState", "sub"),
        ("UnitFileState", "unit_file"),
    ] {
        put(systemd, [name, UNIT, property], shown, word, all).map_err(said)?;
    }
    put(systemd, [name, UNIT, "StateChangeTimestamp"], "since", time, all).map_err(said)?;
    put(systemd, [name, UNIT, "NeedDaemonReload"], "needs_daemon_reload", flag, all).map_err(said)?;
    if own != UNIT {
        put(systemd, [name, own, "Result"], "last_result", word, all).map_err(said)?;
    }
    let mut not_seen = Vec::new();
    if name.ends_with(".service") {
        for (property, shown) in NUMBERS_OF_SERVICE {
            put(systemd, [name, own, property], shown, known, all).map_err(said)?;
        }
        put(systemd, [name, own, "ExecMainCode"], "exit_kind", exit_kind, all).map_err(said)?;
        // systemd counts memory and tasks only for a service that runs, and where accounting is on.
        not_seen.extend(["memory_bytes", "tasks"].into_iter().filter(|name| !all.contains_key(*name)));
    }
    // 0 stands for none.
    if all.get("main_pid") == Some(&json!(0)) {
        all.remove("main_pid");
    }
    all.insert("not_seen".to_owned(), json!(not_seen));
    Ok(Value::Object(members))
}

fn flag(value: &BusValue) -> Option<Value> {
    match value {
        BusValue::Flag(flag) => Some(json!(flag)),
        _ => None,
    }
}

/// How the main process ended, by `si_code` (sigaction(2)); nothing if none has.
fn exit_kind(value: &BusValue) -> Option<Value> {
    match value.number()? {
        1 => Some(json!("exited")),
        2 => Some(json!("killed")),
        3 => Some(json!("dumped")),
        _ => None,
    }
}
