//! Answers about what systemd says of its units.

use super::shape::{count, items, joined, number, size, time, word};
use serde_json::Value;

/// The answer to a call of `tool`; `None` for another tool, or if the result has another shape.
pub(super) fn units(tool: &str, result: &Value) -> Option<String> {
    match tool {
        "service_status" => status(result),
        "failed_units" => failed(result),
        "service_list" => services(result),
        "timer_list" => timers(result),
        _ => None,
    }
}

/// `failed (failed)`: the state, and that in the words of the unit's type.
fn state(unit: &Value) -> Option<String> {
    Some(format!("{} ({})", word(unit, "active")?, word(unit, "sub")?))
}

/// How the last run ended, if it did not end well.
fn ending(unit: &Value) -> Option<String> {
    let result = word(unit, "last_result").filter(|result| result != "success")?;
    let status = unit.get("exit_status").and_then(Value::as_i64);
    Some(match status {
        Some(status) => format!("{result}, exit status {status}"),
        None => result,
    })
}

fn since(unit: &Value) -> Option<String> {
    time(unit, "since").map(|since| format!("since {since}"))
}

fn restarts(unit: &Value) -> Option<String> {
    number(unit, "restarts").filter(|restarts| *restarts > 0).map(|restarts| count(restarts, "restart"))
}

fn status(result: &Value) -> Option<String> {
    let said = format!("{} is {}", word(result, "service")?, state(result)?);
    let reload = result.get("needs_daemon_reload") == Some(&Value::Bool(true));
    Some(joined([
        Some(said),
        since(result),
        ending(result),
        number(result, "main_pid").filter(|pid| *pid > 0).map(|pid| format!("process {pid}")),
        number(result, "memory_bytes").map(size),
        restarts(result),
        reload.then(|| "its file has changed since systemd read it".to_owned()),
    ]))
}

fn failed(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let parts = [ending(one), restarts(one), since(one)];
        Some(format!("{}: {}", word(one, "name")?, joined(parts)))
    };
    let lines = items(result, "units", line)?;
    Some(format!("{}{lines}", count(number(result, "failed")?, "failed unit")))
}

fn services(result: &Value) -> Option<String> {
    let states = result.get("count_by_state")?.as_object()?;
    let states: Vec<String> = states
        .iter()
        .filter_map(|(state, many)| Some(format!("{} {state}", many.as_u64().filter(|many| *many > 0)?)))
        .collect();
    let line = |one: &Value| Some(format!("{}: {}", word(one, "name")?, state(one)?));
    Some(format!("{}{}", states.join(", "), items(result, "units", line)?))
}

fn timers(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let parts = [
            word(one, "starts").map(|starts| format!("starts {starts}")),
            time(one, "last_at").map(|at| format!("last {at}")),
            time(one, "next_at").map(|at| format!("next {at}")),
            ending(one),
        ];
        Some(format!("{}: {}", word(one, "name")?, joined(parts)))
    };
    Some(format!("{}{}", count(number(result, "timers_seen")?, "timer"), items(result, "timers", line)?))
}

#[cfg(test)]
mod tests {
    use super::units;
    use serde_json::json;

    #[test]
    fn units_are_told_in_few_lines() {
        let check = |tool: &str, result: serde_json::Value, expect: &str| {
            assert_eq!(units(tool, &result).as_deref(), Some(expect), "{tool}");
        };
        let at = "2026-11-18T11:06:40.000000Z";
        check(
            "service_status",
            json!({ "service": "nginx.service", "active": "active", "sub": "running", "since": at, "main_pid": 7,
                "memory_bytes": 4_096, "restarts": 2, "last_result": "success", "needs_daemon_reload": true }),
            "nginx.service is active (running); since 2026-11-18T11:06:40Z; process 7; 4096 bytes; 2 restarts; its \
             file has changed since systemd read it",
        );
        check(
            "failed_units",
            json!({ "failed": 1, "truncated": false, "units": [{ "name": "a.service", "last_result": "exit-code",
                "exit_status": 3, "restarts": 1, "since": at }] }),
            "1 failed unit\n  a.service: exit-code, exit status 3; 1 restart; since 2026-11-18T11:06:40Z",
        );
        check(
            "service_list",
            json!({ "count_by_state": { "active": 2, "failed": 0 }, "truncated": true,
                "units": [{ "name": "a.service", "active": "active", "sub": "exited" }] }),
            "2 active\n  a.service: active (exited)\n  …",
        );
        check(
            "timer_list",
            json!({ "timers_seen": 2, "timers": [{ "name": "b.timer", "starts": "b.service", "next_at": at }] }),
            "2 timers\n  b.timer: starts b.service; next 2026-11-18T11:06:40Z",
        );
        assert_eq!(units("service_status", &json!({})), None);
        assert_eq!(units("other", &json!({})), None);
    }
}
