//! The first command: what its home allows, what it prints, and what it leaves behind.

use crate::support::{TestHome, signal, text};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The beginning of the last line before quickstart only serves.
const SERVES: &str = "Ctrl-C stops";

/// A quickstart that serves, and what it has printed until then.
pub(crate) struct Tour {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) shown: String,
}

impl Tour {
    /// Starts `command`, a quickstart, and reads until it serves.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.env("PAR_SERVER__LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().expect("par starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output"));
        let mut shown = String::new();
        while !shown.lines().last().is_some_and(|line| line.starts_with(SERVES)) {
            if stdout.read_line(&mut shown).expect("a line") == 0 {
                let output = child.wait_with_output().expect("ends");
                panic!("quickstart ended: {shown}{}", text(&output.stderr));
            }
        }
        Self { child, stdout, shown }
    }

    /// Interrupts it as Ctrl-C does, with all its processes. Returns its exit code and what else it
    /// printed.
    pub(crate) fn interrupt(mut self) -> (Option<i32>, String) {
        let group = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("pid"));
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT).expect("signal");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("output");
        (self.child.wait().expect("ends").code(), rest)
    }
}

impl Drop for Tour {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(self.child.id(), nix::sys::signal::Signal::SIGTERM);
            let _ended = self.child.wait();
        }
    }
}

/// Approves without a terminal: with the end of the digest of what is approved.
fn approve(home: &TestHome, id: &str) {
    let card: Value =
        serde_json::from_str(&home.expect(0, &["approval", "show", id, "--json"])).expect("JSON");
    let digest = card["card"].as_str().or(card["call_hash"].as_str()).expect("a digest");
    let end = &digest[digest.len() - 4..];
    home.expect(0, &["approval", "approve", id, "--card", end]);
}

fn keys(home: &TestHome) -> Vec<Value> {
    let list = home.expect(0, &["key", "list", "--json"]);
    list.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Finding B1: in the home of quickstart, the person who tries it can answer the first call that
/// waits.
#[test]
fn the_first_approval_can_be_given() {
    let home = TestHome::empty();
    home.expect(0, &["quickstart", "--once"]);
    home.expect(4, &["run", r#"deploy(project="demo", version="1.0.1")"#]);
    let waiting: Value =
        serde_json::from_str(&home.expect(0, &["approval", "list", "--json"])).expect("one approval");
    let id = waiting["id"].as_str().expect("id");
    approve(&home, id);
    let deployed = std::fs::read_to_string(home.path("workspace/demo/current/VERSION"));
    assert_eq!(deployed.expect("deployed").trim(), "1.0.1");
}

/// Finding B4: however often it starts, it leaves one live key, and that key expires.
#[test]
fn one_key_stays_and_expires() {
    let home = TestHome::empty();
    for _ in 0..2 {
        let tour = Tour::start(&mut home.command(&["quickstart"]));
        assert_eq!(tour.interrupt().0, Some(0));
    }
    let keys = keys(&home);
    let live: Vec<&Value> = keys.iter().filter(|key| key["state"] == "live").collect();
    assert_eq!(live.len(), 1, "{keys:?}");
    assert!(live[0]["expires"].is_string(), "{live:?}");
    assert_eq!(keys.iter().filter(|key| key["state"] == "revoked").count(), 1, "{keys:?}");
}

/// Findings B3, B4: it ends with the dashboard's address and the next steps, among them how another
/// terminal finds `par` and the home, and Ctrl-C says what stays.
#[test]
fn it_says_what_is_next_and_what_stays() {
    let home = TestHome::empty();
    let tour = Tour::start(&mut home.command(&["quickstart"]));
    let next = tour.shown.split_once("entries: chain").expect("the ledger was verified").1;
    assert!(next.contains("http://127.0.0.1:") && next.contains("/ui/"), "{next}");
    let exports = next.lines().find(|line| line.trim().starts_with("export PAR_HOME=")).expect("exports");
    let (root, folder) = (home.root(), crate::support::binary());
    let folder = folder.parent().expect("folder").display().to_string();
    assert!(exports.contains(&format!("PAR_HOME={}", root.display())), "{exports}");
    assert!(exports.contains(&format!("PATH={folder}:$PATH")), "{exports}");
    assert!(next.contains("par run '") && next.contains("par approval list"), "{next}");
    let root = root.display().to_string();
    let (code, rest) = tour.interrupt();
    assert_eq!(code, Some(0));
    assert!(rest.contains("stay") && rest.contains(&root) && rest.contains("par serve"), "{rest}");
    assert!(rest.contains("par key revoke quickstart"), "{rest}");
}

/// Issue 15, finding B4: the last lines act on the home that a flag named.
#[test]
fn what_it_says_last_names_the_home_that_was_given() {
    let home = TestHome::empty();
    let root = home.root().display().to_string();
    let tour = Tour::start(home.command(&["quickstart", "--home", &root]).env_remove("PAR_HOME"));
    let rest = tour.interrupt().1;
    assert!(rest.contains(&format!("par --home {root} serve")), "{rest}");
    assert!(rest.contains(&format!("par --home {root} key revoke quickstart")), "{rest}");
}

/// A folder that is on the search path already is not added again.
#[test]
fn a_program_on_the_path_is_not_added() {
    let home = TestHome::empty();
    let folder = crate::support::binary();
    let folder = folder.parent().expect("folder").display().to_string();
    let mut command = home.command(&["quickstart"]);
    let tour = Tour::start(command.env("PATH", format!("/usr/bin:/bin:{folder}")));
    assert!(tour.shown.contains("export PAR_HOME=") && !tour.shown.contains("$PATH"), "{}", tour.shown);
}
