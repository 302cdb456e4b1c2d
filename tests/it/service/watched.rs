//! What monitoring sees: metrics, logs, the doctor; and the files for a shell and for `man`.

use super::refused;
use crate::support::{TestHome, text};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn metrics_are_openmetrics_and_count() {
    let home = TestHome::init();
    let key = home.key("watch", "admin");
    let server = home.serve();
    server.run(&key, "read_file(path=\"/etc/shadow\")");
    server.run(&key, "made_up_by_a_model()");
    assert_eq!(server.get("par_wrong", "/metrics").status, 401);
    let answer = server.get(&key, "/metrics");
    assert!(answer.head.contains("application/openmetrics-text"), "{}", answer.head);
    let told = text(&answer.body);
    assert!(told.ends_with("# EOF\n"), "{told}");
    let mut families = BTreeMap::new();
    for line in told.lines().filter(|line| *line != "# EOF") {
        match line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            Some((name, kind)) => assert!(families.insert(name, kind).is_none(), "{name} twice"),
            None if line.starts_with("# HELP ") => {}
            None => {
                let (series, value) = line.rsplit_once(' ').expect("a sample");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = series.split('{').next().unwrap_or_default();
                assert!(families.keys().any(|family| name.starts_with(family)), "{line} has no family");
            }
        }
    }
    for sample in [
        "par_calls_total{tool=\"read_file\",decision=\"deny\",status=\"refused\"} 1",
        "par_auth_refused_total 1",
        "par_http_requests_total{code=\"401\"} 1",
        "par_launcher_restarts_total 0",
        "par_ledger_obstacle 0",
    ] {
        assert!(told.lines().any(|line| line == sample), "{sample}\n{told}");
    }
    for database in ["ledger", "state", "index"] {
        let bytes = format!("par_ledger_wal_bytes{{database=\"{database}\"}} ");
        assert!(told.lines().any(|line| line.starts_with(&bytes)), "{bytes}\n{told}");
    }
    assert!(!told.contains("made_up"), "a model's words are no label: {told}");
}

#[test]
fn json_logs_carry_the_run() {
    let home = TestHome::init();
    let key = home.key("log", "operator");
    let server = home.serve_with(&[("PAR_SERVER__LOG", "json")]);
    let run = server.run(&key, "health_check()").json()["run"].as_str().expect("a run").to_owned();
    let line = server.log().lines().find(|line| line.contains("run finished")).map(str::to_owned);
    let line: serde_json::Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
    assert_eq!(line["run"], run.as_str());
    assert_eq!(line["status"], "done");
    let entries = home.entries(&["kind:run.reply"]);
    assert_eq!(entries.last().expect("a reply")["run"], run.as_str());
    let seq = entries.last().and_then(|entry| entry["seq"].as_u64()).expect("a number");
    assert_eq!(home.entry(seq)["payload"]["status"], "done");
}

#[test]
fn the_doctor_names_what_is_wrong() {
    let home = TestHome::init();
    home.key("one", "viewer");
    let words = |told: &str| -> Vec<String> {
        let line = |line: &str| {
            line.split("  ")
                .filter(|cell| !cell.is_empty())
                .map(str::trim)
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        };
        told.lines().map(line).collect()
    };
    let told = home.expect(0, &["doctor"]);
    let shown: Vec<String> = words(&told).into_iter().filter(|line| !line.starts_with("warn")).collect();
    let expect = [
        "ok protections",
        "ok level",
        "ok configuration",
        "ok files of etc/",
        "ok files of data/",
        "ok secrets",
        "ok ledger",
        "ok anchor",
        "ok clock",
        "ok disk",
        "ok model",
        "ok server",
    ];
    assert_eq!(shown, expect, "{told}");
    assert!(told.contains("entries verified") && told.contains("offline: no model, no network"), "{told}");
    for line in home.expect(0, &["doctor", "--json", "--quick"]).lines() {
        let check: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(["ok", "warn"].contains(&check["level"].as_str().expect("level")), "{check}");
    }
    home.configure("[llm]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let mode = |below: &str, mode| {
        std::fs::set_permissions(home.path(below), std::fs::Permissions::from_mode(mode)).expect("mode");
    };
    mode("etc/tools.d/read_file.toml", 0o666);
    mode("data/pepper", 0o644);
    std::fs::remove_file(home.path("data/log.key")).expect("removed");
    let told = home.expect(1, &["doctor"]);
    for wrong in [
        "tools.d/read_file.toml: is writable by others",
        "data/pepper: mode 0644 gives access to others",
        "data/log.key: does not exist",
        "http://127.0.0.1:1/v1: ",
    ] {
        assert!(told.lines().any(|line| line.starts_with("fail") && line.contains(wrong)), "{wrong}\n{told}");
    }
}

#[test]
fn completions_and_manual_come_from_the_commands() {
    let home = TestHome::empty();
    for (shell, sign) in [("bash", "complete -F _par"), ("zsh", "#compdef par"), ("fish", "complete -c par")]
    {
        let script = home.expect(0, &["completion", shell]);
        assert!(script.contains(sign) && script.contains("quickstart"), "{shell}");
        assert!(!script.contains("launcher --fd"), "{shell} offers what is for the service manager");
    }
    let page = home.expect(0, &["man"]);
    assert!(page.contains(".TH par 1") && page.contains("par\\-doctor"), "{page}");
    refused(&home.par(&["completion", "nosuchshell"]), 2, "nosuchshell");
}
