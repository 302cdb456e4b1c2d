//! A disk that fails at any one moment, under the real binary: no space, an I/O error, half a
//! write, or the end of the process. What was reported is on the ledger, nothing false is reported,
//! and the next start continues.
//!
//! A library in C (`faults/shim.c`), preloaded into the server, counts the calls that change a file
//! of `data/` and fails the n-th. By default at a few of them; `PAR_FAULTS_EVERY=1` at each.
//! Without a C compiler this is skipped with a message, unless `PAR_REQUIRE_CC` is set.

use crate::approval::{People, try_grant};
use crate::support::{Answer, Server, TestHome, copy_folder, start, text};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Calls between two that fail, unless the environment says otherwise.
const EVERY: u64 = 97;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// No space from then on, until the test makes some.
    Full = 1,
    /// One call fails with `EIO`.
    Io = 2,
    /// One write accepts half of its bytes.
    Short = 3,
    /// The process is killed before the call.
    KillBefore = 4,
    /// The process is killed after the call.
    KillAfter = 5,
}

const FAULTS: [Fault; 5] = [Fault::Full, Fault::Io, Fault::Short, Fault::KillBefore, Fault::KillAfter];

#[test]
fn a_disk_that_fails_at_any_moment_loses_and_invents_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(library) = build(folder.path()) else { return };
    let base = base();
    let every = variable("PAR_FAULTS_EVERY").and_then(|text| text.parse().ok()).unwrap_or(EVERY);
    let stage = Stage { library, base: &base, folder: folder.path() };
    let calls = stage.play(None, 0).calls;
    assert!(calls > 100, "the scene changes files: {calls}");
    let (points, next) = (points(calls, every), AtomicUsize::new(0));
    let (counts, wrong) = (Mutex::new(BTreeMap::<(Fault, &str), u32>::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((fault, n)) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                    match std::panic::catch_unwind(|| stage.play(Some(*fault), *n).ended) {
                        Ok(ended) => *counts.lock().expect("counts").entry((*fault, ended)).or_default() += 1,
                        // The others still matter, and the failure is printed already.
                        Err(_) => wrong.lock().expect("wrong").push((*fault, *n)),
                    }
                }
            });
        }
    });
    let (counts, wrong) = (counts.into_inner().expect("counts"), wrong.into_inner().expect("wrong"));
    println!("{calls} calls, every {every}: {counts:?}");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Each fault at every so many calls, each with a different offset; ordered so that all of them are
/// covered early.
fn points(calls: u64, every: u64) -> Vec<(Fault, u64)> {
    let of = |(at, fault): (u64, Fault)| {
        (1 + at * every / 5..=calls).step_by(every as usize).map(move |n| (fault, n))
    };
    let mut points: Vec<(Fault, u64)> = (0..).zip(FAULTS).flat_map(of).collect();
    points.sort_by_key(|(fault, n)| (n * 8 + *fault as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    points
}

#[expect(clippy::disallowed_methods, reason = "who runs the tests says how long they may take")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn build(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, include_str!("faults/shim.c")).expect("source");
    let built =
        start(Path::new("cc")).args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
    match built {
        Ok(output) if output.status.success() => Some(library),
        _ if variable("PAR_REQUIRE_CC").is_some() => panic!("no faults without a C compiler: {built:?}"),
        _ => {
            eprintln!("skipped: the library that makes a disk fail cannot be built: {built:?}");
            None
        }
    }
}

/// A home in which one call waits for a person, with an epoch that is over at the next start.
fn base() -> People {
    let people = People::new();
    let path = people.home.path("data/epoch.key");
    let line = std::fs::read_to_string(&path).expect("epoch key");
    let mut words: Vec<&str> = line.split_whitespace().collect();
    words[2] = "0";
    std::fs::write(&path, words.join(" ") + "\n").expect("epoch key");
    // Not copied each time: it is created again.
    std::fs::remove_file(people.home.path("data/reserve")).expect("reserve");
    people
}

/// Memory shared with the library; see there.
struct Shared(std::fs::File);

impl Shared {
    const CALLS: u64 = 0;
    const AT: u64 = 1;
    const FAULT: u64 = 2;
    const IS_FULL: u64 = 3;
    const HITS: u64 = 4;

    fn new(path: &Path, fault: Option<Fault>, at: u64) -> Self {
        let file =
            std::fs::File::options().read(true).write(true).create_new(true).open(path).expect("state");
        file.set_len(4_096).expect("state");
        let shared = Self(file);
        shared.set(Self::FAULT, fault.map_or(0, |fault| fault as u64));
        shared.set(Self::AT, at);
        shared
    }

    fn set(&self, word: u64, value: u64) {
        self.0.write_all_at(&value.to_ne_bytes(), word * 8).expect("state");
    }

    fn word(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, word * 8).expect("state");
        u64::from_ne_bytes(bytes)
    }

    /// The call that failed.
    fn name(&self) -> String {
        let mut bytes = [0; 256];
        self.0.read_exact_at(&mut bytes, 40).expect("state");
        text(&bytes).trim_end_matches('\0').to_owned()
    }
}

/// The scene and its state.
struct Stage<'a> {
    library: PathBuf,
    base: &'a People,
    folder: &'a Path,
}

/// How it went.
struct Played {
    /// Calls that change a file of `data/`.
    calls: u64,
    ended: &'static str,
}

impl Stage<'_> {
    /// Plays the scene on a copy of the base with `fault` at call `at`, and checks the result.
    fn play(&self, fault: Option<Fault>, at: u64) -> Played {
        let home = TestHome::empty();
        copy_folder(&self.base.home.root(), &home.root());
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(home.path("data"), private).expect("mode");
        let name = fault.map_or("none".to_owned(), |fault| format!("{fault:?}"));
        let state = self.folder.join(format!("{name}-{at}"));
        let shared = Shared::new(&state, fault, at);
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env("LD_PRELOAD", &self.library);
        command.env("PAR_FAULT_FOLDER", home.path("data")).env("PAR_FAULT_STATE", &state);
        let is_over = AtomicBool::new(false);
        let told = std::thread::scope(|scope| {
            scope.spawn(|| make_space(&shared, &is_over));
            let told = Told::new(self.base, &home, Server::try_start(&mut command, home.beside("serve.log")));
            is_over.store(true, Ordering::SeqCst);
            told
        });
        let at = format!("{name} at {at}, {}: {:?}\n{}", shared.name(), told, told.log);
        told.check(&home, fault, shared.word(Shared::HITS) > 0, &at);
        if fault == Some(Fault::Io)
            && shared.name().starts_with("pwrite64 ledger")
            && shared.name().ends_with("-wal")
        {
            assert_ne!(told.code, Some(0), "a commit failed: {at}");
        }
        Played { calls: shared.word(Shared::CALLS), ended: told.ended() }
    }
}

/// A moment after the disk was full there is space again.
fn make_space(shared: &Shared, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
        if shared.word(Shared::IS_FULL) == 1 {
            std::thread::sleep(Duration::from_millis(300));
            shared.set(Shared::IS_FULL, 0);
        }
    }
}

/// What the server reported.
#[derive(Default)]
struct Told {
    /// Runs that were answered with 200 or 202, and the status reported last.
    runs: BTreeMap<String, String>,
    /// The HTTP status of each request in turn, 0 without an answer.
    answers: Vec<u16>,
    granted: Option<String>,
    redacted: Option<String>,
    code: Option<i32>,
    log: String,
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "answers {:?}, exit {:?}, runs {:?}", self.answers, self.code, self.runs)
    }
}

impl Told {
    /// The scene: a run, one that is approved, one that is erased, and a stop.
    fn new(people: &People, home: &TestHome, server: Result<Server, (Option<i32>, String)>) -> Self {
        let mut told = Self::default();
        let mut server = match server {
            Ok(server) => server,
            Err((code, log)) => return Self { code, log, ..told },
        };
        let first = told.run(&server, &people.asker, "health_check()");
        let asks = format!("list_dir(path=\"{}\")", home.path("workspace/box").display());
        if let Some(waiting) =
            told.run(&server, &people.asker, &asks).filter(|reply| reply["status"] == "waiting")
        {
            told.approve(&server, people, &waiting);
        }
        if let Some(reply) = first {
            let run = reply["run"].as_str().expect("run").to_owned();
            if home.par(&["audit", "redact", "--reason", "a test", "--run", &run]).status.success() {
                told.redacted = Some(run);
            }
        }
        // If it only had no space it accepts runs again by itself.
        let until = Instant::now() + Duration::from_secs(10);
        while server.child.try_wait().expect("child").is_none() {
            let last = told.run(&server, &people.asker, "health_check()");
            if last.is_some() || Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        server.signal(Signal::SIGTERM);
        told.code = server.child.wait().expect("ends").code();
        told.log = server.log();
        told
    }

    fn run(&mut self, server: &Server, key: &str, message: &str) -> Option<Value> {
        let answer = server.run_aside(key, message).join().expect("thread");
        self.answers.push(answer.as_ref().map_or(0, |answer| answer.status));
        let reply = answer.filter(|answer| matches!(answer.status, 200 | 202))?.json();
        let word = |name: &str| reply[name].as_str().expect("text").to_owned();
        self.runs.insert(word("run"), word("status"));
        Some(reply)
    }

    fn approve(&mut self, server: &Server, people: &People, waiting: &Value) {
        let id = waiting["steps"][0]["result"]["approval"].as_str().expect("approval").to_owned();
        let Some(approval) = ask(server, &people.ben, &format!("/approvals/{id}")) else { return };
        let granted = try_grant(server, &people.ben, &approval);
        self.answers.push(granted.map_or(0, |answer| answer.status));
        if self.answers.last() != Some(&200) {
            return;
        }
        self.granted = Some(id);
        let path = format!("/runs/{}", waiting["run"].as_str().expect("run"));
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            let Some(reply) = ask(server, &people.viewer, &path) else { return };
            if reply["status"] == "done" {
                self.runs.insert(reply["run"].as_str().expect("run").to_owned(), "done".to_owned());
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn ended(&self) -> &'static str {
        match (self.code, self.answers.is_empty()) {
            (Some(0), _) => "went on",
            (_, true) => "did not start",
            (Some(137) | None, _) => "was killed",
            (Some(_), _) => "ended with an error",
        }
    }

    fn check(&self, home: &TestHome, fault: Option<Fault>, was_hit: bool, at: &str) {
        if !was_hit || fault == Some(Fault::Short) {
            assert_eq!(self.code, Some(0), "nothing failed: {at}");
            assert!(self.answers.iter().all(|status| matches!(status, 200 | 202)), "{at}");
        }
        match fault.filter(|_| was_hit) {
            Some(Fault::KillBefore | Fault::KillAfter) => assert_ne!(self.code, Some(0), "{at}"),
            Some(Fault::Full) if self.code == Some(0) => {
                assert_eq!(self.answers.last(), Some(&200), "it goes on with space: {at}");
            }
            // After an I/O error it does not work again without a new start.
            Some(Fault::Io) if self.answers.contains(&503) => {
                let first = self.answers.iter().position(|status| *status == 503).expect("one");
                assert!(self.answers[first..].iter().all(|status| matches!(status, 0 | 503)), "{at}");
                assert_ne!(self.code, Some(0), "{at}");
            }
            _ => {}
        }
        if self.code != Some(0) && !matches!(fault, Some(Fault::KillBefore | Fault::KillAfter)) {
            assert!(self.log.contains("par: "), "it says why: {at}");
        }
        verify(home, &format!("before a start: {at}"));
        let started = home.par(&["run", "health_check()"]);
        assert_eq!(started.status.code(), Some(0), "{at}\nthe next start: {}", text(&started.stderr));
        verify(home, &format!("after a start: {at}"));
        self.compare(&home.entries(&[]), at);
    }

    /// Everything that was reported is on the ledger, and every run has its reply.
    fn compare(&self, entries: &[Value], at: &str) {
        let count = |wanted: &[(&str, &str)]| {
            let is_wanted = |entry: &&Value| wanted.iter().all(|(name, value)| entry[*name] == json!(value));
            entries.iter().filter(is_wanted).count()
        };
        for (run, status) in &self.runs {
            let replies = count(&[("kind", "run.reply"), ("run", run), ("status", status)]);
            assert_eq!(replies, 1, "{run} {status}: {at}");
        }
        assert!(self.granted.is_none() || count(&[("kind", "approval.grant")]) == 1, "{at}");
        assert!(self.redacted.is_none() || count(&[("kind", "redaction")]) > 0, "{at}");
        let decided = count(&[("kind", "call.decision"), ("decision", "allow")]);
        assert_eq!(count(&[("kind", "call.result")]), decided, "every allowed call has one result: {at}");
        let (runs, replies) = (count(&[("kind", "run.request")]), count(&[("kind", "run.reply")]));
        let waiting = count(&[("kind", "run.reply"), ("status", "waiting")]);
        assert!(replies - waiting <= runs && runs <= replies, "every run has its reply: {at}");
    }
}

/// No false alarm.
fn verify(home: &TestHome, at: &str) {
    let verified = home.par(&["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}\n{at}", text(&verified.stdout));
}

fn ask(server: &Server, key: &str, path: &str) -> Option<Value> {
    let headers = format!("Authorization: Bearer {key}\r\n");
    let answer: Answer = server.try_send("GET", path, &headers, b"")?;
    (answer.status == 200).then(|| answer.json())
}
