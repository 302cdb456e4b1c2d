//! What a run comes to for each reason to stop that a wire has: its status and exit code, what a
//! person reads, and what the ledger says. `golden/stops.txt` has a row for each.

use super::{RunSeen, Scripted, run};
use crate::support::{Server, TestHome, start, text};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// The reasons, each with the wires that have it.
fn stops() -> Vec<(String, Vec<String>)> {
    let listed = start(Path::new("python3")).arg(Scripted::script()).arg("--stops").output();
    let listed = text(&listed.expect("python3").stdout);
    let words = listed.lines().map(|line| line.split(' ').map(str::to_owned));
    words.map(|mut words| (words.next().expect("a reason"), words.collect())).collect()
}

/// The first reply of the run on the ledger: why it stopped, and its text and calls.
fn recorded(home: &TestHome, run: &Value) -> String {
    let query = format!("run:{}", run.as_str().expect("a run"));
    let first = home.entries(&["kind:model.reply", &query]).remove(0);
    let reply = home.entry(first["seq"].as_u64().expect("number"))["payload"].clone();
    let calls = reply["calls"].as_array().expect("calls").iter();
    let calls: Vec<&str> = calls.map(|call| call["arguments"].as_str().expect("text")).collect();
    let stop = reply["stop"].as_str().expect("a word");
    format!("{stop} {} {} {}", reply["stop_text"], reply["text"], json!(calls))
}

/// The run without what differs from one to the next.
fn told(home: &TestHome, seen: &RunSeen) -> Value {
    let reply = &seen.reply;
    let steps = reply["steps"].as_array().expect("steps").iter();
    let steps: Vec<Value> = steps.map(|step| json!([step["decision"], step["class"]])).collect();
    json!([reply["status"], reply["said_by"], reply["answer"], steps, recorded(home, &reply["run"])])
}

/// What `par run` prints, without the line that names the run, and its exit code.
fn printed(home: &TestHome, message: &str) -> (Option<i32>, String) {
    let output = home.par(&["run", message]);
    let words = text(&output.stdout) + &text(&output.stderr);
    let kept: Vec<&str> = words.lines().filter(|line| !line.contains("ledger entries ")).collect();
    (output.status.code(), kept.join("\n"))
}

fn row(table: &mut String, home: &TestHome, server: &Server, key: &str, (stop, wire): (&str, &str)) {
    let message = format!("stop: {stop}");
    let whole = run(server, key, &message, false);
    let streamed = run(server, key, &message, true);
    let as_whole = told(home, &whole);
    assert_eq!(told(home, &streamed), as_whole, "{stop}, {wire}: a stream is not as a whole answer");
    let is_unusable = stop == "truncated";
    assert_eq!(streamed.is_void, is_unusable && !streamed.words.is_empty(), "{stop}, {wire}");
    let (code, words) = printed(home, &message);
    let recorded = as_whole[4].as_str().expect("text");
    let status = as_whole[0].as_str().expect("a status");
    writeln!(table, "{stop} · {wire}: {status} {}\n  ledger: {recorded}", code.expect("ends"))
        .expect("written");
    for line in words.lines() {
        writeln!(table, "  {line}").expect("written");
    }
}

/// A reply that a stream cut has its own words, and no call.
fn cut(table: &mut String, home: &TestHome, server: &Server, key: &str, wire: &str) {
    let seen = run(server, key, "fault: cut-before-the-end", true);
    assert!(seen.is_void && seen.reply["steps"] == json!([]), "{wire}: {}", seen.reply);
    let recorded = recorded(home, &seen.reply["run"]);
    let (status, answer) = (&seen.reply["status"], &seen.reply["answer"]);
    let [status, answer] = [status, answer].map(|word| word.as_str().expect("text"));
    writeln!(table, "cut · {wire}: {status}\n  ledger: {recorded}\n  {answer}").expect("written");
}

/// The same for every wire, and for a whole answer and a stream. No reason passes in silence.
#[test]
fn each_reason_to_stop_is_told_and_recorded_on_each_wire() {
    let Some(model) = Scripted::start() else { return };
    let mut tables: Vec<Vec<String>> = Vec::new();
    let stops = stops();
    assert!(stops.len() > 8, "{stops:?}");
    for wire in super::WIRES {
        let home = model.home(wire);
        let key = home.key("ops", "operator");
        let server = home.serve();
        let rows = stops.iter().map(|(stop, wires)| {
            let mut rows = String::new();
            if wires.iter().any(|one| one == wire) {
                row(&mut rows, &home, &server, &key, (stop, wire));
            }
            rows
        });
        let mut rows: Vec<String> = rows.collect();
        let mut last = String::new();
        cut(&mut last, &home, &server, &key, wire);
        rows.push(last);
        tables.push(rows);
        assert_eq!(server.stop(), Some(0));
        home.expect(0, &["audit", "verify"]);
    }
    let rows = (0..=stops.len()).flat_map(|at| tables.iter().map(move |table| table[at].as_str()));
    let table: String = rows.collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/stops.txt");
    if table != std::fs::read_to_string(golden).unwrap_or_default() {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stops.txt");
        std::fs::write(&place, &table).expect("written");
        panic!("tests/it/golden/stops.txt is not {}\n{table}", place.display());
    }
}
