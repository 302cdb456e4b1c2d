//! Entries are reported as they are appended.

use crate::support::{TestHome, until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// A command that follows the ledger, and what it has written so far.
struct Followed {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Followed {
    fn start(home: &TestHome, key: Option<&str>, args: &[&str]) -> Self {
        let mut command = home.command(args);
        if let Some(key) = key {
            command.env("PAR_KEY", key);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("par starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = lines.clone();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| told.lock().expect("lines").push(line));
        });
        Self { child, lines }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("lines").clone()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn each_match_is_printed_once_as_it_is_appended() {
    let home = TestHome::init();
    let (key, viewer) = (home.key("script", "operator"), home.key("viewer", "viewer"));
    let server = home.serve();
    let url = format!("http://{}", server.address);
    let first = server.run(&key, "health_check()").json();
    let query = ["kind:run.request", "key:*"];
    let files =
        Followed::start(&home, None, &[&["audit", "show", "--follow", "--json"], &query[..]].concat());
    let table = Followed::start(&home, None, &["audit", "show", "--follow", "decision:deny"]);
    let served = [&["audit", "show", "--follow", "--json", "--url", &url], &query[..]].concat();
    let served = Followed::start(&home, Some(&viewer), &served);
    until("what was there is told", || files.lines().len() == 1 && served.lines().len() == 1);
    let second = server.run(&key, r#"read_file(path="/etc/shadow")"#).json();
    let third = server.run(&key, "health_check()").json();
    until("what came is told", || files.lines().len() >= 3 && served.lines().len() >= 3);
    until("in a table too", || !table.lines().is_empty());
    let runs = |followed: &Followed| -> Vec<Value> {
        let entry = |line: &String| serde_json::from_str::<Value>(line).expect("JSON")["run"].take();
        followed.lines().iter().map(entry).collect()
    };
    let expect = [first["run"].clone(), second["run"].clone(), third["run"].clone()];
    assert_eq!(runs(&files), expect);
    assert_eq!(runs(&served), expect);
    assert!(table.lines().len() == 1 && table.lines()[0].contains("read_file"), "{:?}", table.lines());
    // Without `--follow` a server returns what there is, oldest first.
    let mut command = home.command(&["audit", "show", "--json", "--url", &url, "--limit", "2", query[0]]);
    let told = command.env("PAR_KEY", &viewer).output().expect("par starts");
    let told = crate::support::text(&told.stdout);
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(told.iter().map(|entry| &entry["run"]).collect::<Vec<_>>(), [&expect[1], &expect[2]]);
    let refused =
        home.command(&["audit", "show", "--url", &url]).env("PAR_KEY", &key).output().expect("par starts");
    assert_eq!(refused.status.code(), Some(3), "an operator reads no ledger");
}
