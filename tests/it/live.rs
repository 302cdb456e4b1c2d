//! A run of the command line without a server: what a person sees while it goes on, when it is
//! interrupted, and while a server is just starting.

use crate::crash::home_with_nap;
use crate::support::{TestHome, signal, text, until};
use nix::sys::signal::Signal;
use par::ledger::{Files, Lock};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Starts a run with its output in pipes.
fn start(home: &TestHome, args: &[&str]) -> Child {
    home.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("par starts")
}

/// C8: a step is printed once its outcome is on the ledger, while the next call still runs; Ctrl-C
/// then says what happened and where to look, and the end of the run is on the ledger.
#[test]
fn steps_are_printed_as_they_happen_and_an_interrupt_says_where_to_look() {
    let (home, _) = home_with_nap(50);
    let mut child = start(&home, &["run", "health_check() nap()"]);
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert!(line.starts_with("✓ health_check") && line.contains("read-health"), "{line}");
    assert!(child.try_wait().expect("state").is_none(), "the nap goes on");
    until("the nap is decided", || home.entries(&["kind:call.decision", "tool:nap"]).len() == 1);
    signal(child.id(), Signal::SIGINT);
    let (mut rest, mut said) = (String::new(), String::new());
    stdout.read_to_string(&mut rest).expect("output");
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("output");
    assert_eq!(child.wait().expect("ends").code(), Some(1), "{said}");
    assert!(rest.is_empty(), "{rest}");
    let told = "par: interrupted: the run ended here, and its end is recorded: `par runs show run_";
    assert!(said.contains(told), "{said}");
    let run = said.split('`').nth(1).expect("a command").split(' ').next_back().expect("a run").to_owned();
    let shown = home.expect(0, &["runs", "show", &run]);
    for words in ["interrupted", "✓ health_check", "✗ nap"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(home.expect(0, &["audit", "show", "kind:stop"]).contains("run"));
    home.expect(0, &["audit", "verify"]);
}

/// C8: without an interrupt every step is printed once, and JSON has all of them at the end.
#[test]
fn a_step_is_printed_once() {
    let home = TestHome::init();
    let calls = r#"list_dir(path="/var/log") read_file(path="/etc/shadow")"#;
    let told = home.expect(0, &["run", calls]);
    for tool in ["✓ list_dir", "✗ read_file"] {
        assert_eq!(told.matches(tool).count(), 1, "{told}");
    }
    let reply: serde_json::Value =
        serde_json::from_str(&home.expect(0, &["run", calls, "--json"])).expect("JSON");
    assert_eq!(reply["steps"].as_array().map(Vec::len), Some(2), "{reply}");
}

/// A command next to a server that is just starting asks that server, or runs before it.
#[test]
fn a_server_that_is_starting_is_waited_for() {
    let home = TestHome::init();
    let mut serve = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut serve = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("par starts");
    let files = Files::below(&home.path("data"));
    until("the server has the ledger", || Lock::holder(&files).is_some());
    home.expect(0, &["run", "health_check()"]);
    signal(serve.id(), Signal::SIGTERM);
    assert_eq!(serve.wait().expect("ends").code(), Some(0));
}

/// A command that holds the ledger is waited for, and named; what to do is said if it stays.
#[test]
fn a_command_that_holds_the_ledger_is_waited_for() {
    let home = TestHome::init();
    home.expect(0, &["run", "health_check()"]);
    let files = Files::below(&home.path("data"));
    let lock = Lock::take(&files, Duration::ZERO).expect("free");
    let mut child = start(&home, &["run", "health_check()"]);
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    stderr.read_line(&mut said).expect("a line");
    let holder = format!("held by another process: pid={}; waiting up to 10 s", std::process::id());
    assert!(said.contains(&holder), "{said}");
    drop(lock);
    stderr.read_to_string(&mut said).expect("output");
    assert_eq!(child.wait().expect("ends").code(), Some(0), "{said}");
    let _lock = Lock::take(&files, Duration::from_secs(5)).expect("free");
    let refused = home.par(&["run", "health_check()"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("it neither serves nor ends"), "{said}");
}

/// A6: a person reads which rule was nearest to permitting a call; it names none that a person's
/// answer could not lift, and the reply for a model has no word of it.
#[test]
fn a_person_reads_the_nearest_rule() {
    let home = TestHome::init();
    std::fs::create_dir_all(home.path("workspace/shop")).expect("folder");
    let told = home.expect(3, &["tool", "call", "deploy", r#"{"project":"shop","version":"1.4.2"}"#]);
    let nearest = "the nearest rule is deploy-demo (policies/20-deploy.cedar:";
    let line = told.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with(&format!("    {nearest}")) && line.ends_with("which is for `demo`"), "{told}");
    assert!(!told.contains("needs-release"), "{told}");
    let seq = home.entries(&["decision:deny"])[0]["seq"].as_u64().expect("seq").to_string();
    let card = home.expect(0, &["audit", "show", &seq]);
    assert!(card.contains(&format!("nearest    {nearest}")), "{card}");
    let run = home.entries(&["kind:run.reply"])[0]["run"].as_str().expect("run").to_owned();
    assert!(home.expect(0, &["runs", "show", &run]).contains(nearest));
}
