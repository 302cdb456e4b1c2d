//! What a run comes to on every wire, whole and streamed, with and without faults of the model's
//! server. `tests/model_server.py` is that server; `golden/outcomes.txt` has what people see: a row
//! for each fault, a column for each wire.
//!
//! Without Python this is skipped with a message, unless `PAR_REQUIRE_PYTHON` is set.

mod stops;

use crate::support::{Server, TestHome, start, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const WIRES: [&str; 5] = ["openai", "openai_responses", "anthropic", "gemini", "ollama"];
const KEY: &str = "sk-test/0123456789\"abcdef";

/// The scripted model.
struct Scripted {
    child: Child,
    url: String,
}

impl Scripted {
    fn script() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model_server.py")
    }

    /// `None` with a message if there is no Python, unless it is required.
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says what must be there")]
    fn start() -> Option<Self> {
        let mut command = start(Path::new("python3"));
        let child = command.arg(Self::script()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            assert!(std::env::var_os("PAR_REQUIRE_PYTHON").is_none(), "python3 is missing");
            eprintln!("\nSKIPPED: there is NO python3: no run was made on every wire\n");
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        Some(Self { child, url })
    }

    fn faults() -> Vec<String> {
        let listed = start(Path::new("python3")).arg(Self::script()).arg("--faults").output();
        text(&listed.expect("python3").stdout).lines().map(str::to_owned).collect()
    }

    /// A home whose only model is this one, on `wire`.
    fn home(&self, wire: &str) -> TestHome {
        let home = TestHome::init();
        crate::secrets::private(&home.beside("own"), KEY);
        home.configure(&format!(
            "[llm]\nuse = [\"m\"]\n[models.m]\nwire = \"{wire}\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
             key = \"file:{}\"\nfirst_byte_ms = 6000\nidle_ms = 6000\n[paths]\nlogs = \"/var/log\"\n",
            self.url,
            home.beside("own").display()
        ));
        home
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A run as people see it: its reply and the words that came before.
struct RunSeen {
    reply: Value,
    words: String,
    is_void: bool,
}

fn run(server: &Server, key: &str, message: &str, is_streamed: bool) -> RunSeen {
    if !is_streamed {
        let answer = server.run(key, message);
        assert_eq!(answer.status, 200, "{message}: {}", text(&answer.body));
        return RunSeen { reply: answer.json(), words: String::new(), is_void: false };
    }
    let headers = format!(
        "Authorization: Bearer {key}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
    );
    let body = json!({ "message": message }).to_string();
    let answer = server.send("POST", "/agent/run", &headers, body.as_bytes());
    assert_eq!(answer.status, 200, "{message}: {}", text(&answer.body));
    let (mut seen, mut name) =
        (RunSeen { reply: Value::Null, words: String::new(), is_void: false }, String::new());
    for line in text(&answer.body).lines() {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let data: Value = serde_json::from_str(data).expect("JSON");
        match name.as_str() {
            "text.delta" => seen.words.push_str(data["text"].as_str().expect("text")),
            "text.void" => seen.is_void = true,
            "run.finished" => seen.reply = data,
            _ => {}
        }
    }
    seen
}

/// What of a run's entries is the same on each wire.
fn record(home: &TestHome, run: &Value) -> Vec<Value> {
    let query = format!("run:{}", run["run"].as_str().expect("a run"));
    let entry = |header: &Value| {
        let kind = header["kind"].as_str().expect("kind");
        let payload = home.entry(header["seq"].as_u64().expect("number"))["payload"].clone();
        let calls = |calls: &Value| -> Vec<Value> {
            let arguments =
                |text: &Value| -> Value { serde_json::from_str(text.as_str().expect("text")).expect("JSON") };
            let call = |call: &Value| json!([call["tool"], arguments(&call["arguments"])]);
            calls.as_array().into_iter().flatten().map(call).collect()
        };
        let told = match kind {
            "run.request" => json!([payload["message"], payload["tools"]]),
            "model.ask" => json!([payload["name"], payload["model"]]),
            "model.reply" => json!([
                payload["text"],
                calls(&payload["calls"]),
                payload["stop"],
                [&payload["input_tokens"], &payload["output_tokens"]],
                payload["request_messages"]
            ]),
            "run.reply" => json!([payload["status"], payload["answer"], payload["usage"]]),
            _ => payload["arguments"].clone(),
        };
        let of = |name: &str| header[name].clone();
        json!([kind, of("decision"), of("status"), of("tool"), of("policies"), of("taint"), told])
    };
    home.entries(&[&query]).iter().map(entry).collect()
}

/// One question with two parallel calls: the same steps and the same record on each wire, whole and
/// streamed.
#[test]
fn one_question_has_the_same_record_on_every_wire_whole_and_streamed() {
    let Some(model) = Scripted::start() else { return };
    let mut records = Vec::new();
    for wire in WIRES {
        let home = model.home(wire);
        let key = home.key("ops", "operator");
        let server = home.serve();
        for is_streamed in [false, true] {
            let seen = run(&server, &key, "how is this server doing?", is_streamed);
            assert_eq!(seen.reply["answer"], "All is well.", "{wire}: {}", seen.reply);
            assert_eq!(seen.words, if is_streamed { "I lo\u{f6}k at it.All is well." } else { "" }, "{wire}");
            records.push((format!("{wire}, streamed: {is_streamed}"), record(&home, &seen.reply)));
        }
        assert_eq!(server.stop(), Some(0));
        home.expect(0, &["audit", "verify"]);
    }
    let (first, expect) = &records[0];
    assert_eq!(expect.len(), 10, "{expect:#?}");
    for (which, record) in &records {
        assert_eq!(record, expect, "{which} is not as {first}");
    }
}

/// What a run came to, in a few words: status and exit code, the classes of its refused calls, the
/// limit or the reason, and whether words that had been shown were void.
fn told(seen: &RunSeen, exits: &BTreeMap<String, i32>) -> String {
    let reply = &seen.reply;
    let status = reply["status"].as_str().expect("a status");
    let mut told = format!("{status} {}", exits[status]);
    let steps = reply["steps"].as_array().expect("steps");
    let classes: BTreeSet<&str> = steps.iter().filter_map(|step| step["class"].as_str()).collect();
    for word in classes.into_iter().chain(reply["limit"].as_str()) {
        write!(told, " {word}").expect("written");
    }
    if status == "done" && !steps.is_empty() {
        write!(told, " {} calls", steps.len()).expect("written");
    }
    let answer = reply["answer"].as_str().unwrap_or_default();
    let why = ["the model did not answer: ", "the model's reply was cut: "];
    let reason = why.iter().find_map(|head| answer.strip_prefix(head));
    if let Some(reason) = reason {
        let cut = if answer.starts_with("the model's") { "cut: " } else { "" };
        write!(told, ": {cut}{}", reason.chars().take(38).collect::<String>().trim_end()).expect("written");
    }
    if answer.contains("[secret:models.m.key:") {
        told.push_str(" [secret]");
    }
    if seen.is_void {
        told.push_str(", void");
    }
    told
}

/// The exit code of `par run` for each status. With `--json` the model is asked to answer whole.
fn exits(home: &TestHome, by_status: &BTreeMap<String, String>) -> BTreeMap<String, i32> {
    let exit = |(status, message): (&String, &String)| {
        (status.clone(), home.par(&["--json", "run", message]).status.code().expect("ends"))
    };
    by_status.iter().map(exit).collect()
}

/// Faults before a connection is there, each with the variables of a server that meets it.
const BEFORE: [&str; 2] = ["hang-at-connect", "another-address-the-second-time"];

/// A port on which connections are neither taken nor refused: its queue is full.
struct FullPort {
    _listener: OwnedFd,
    _queued: Vec<std::net::TcpStream>,
    address: String,
}

impl FullPort {
    #[expect(clippy::disallowed_methods, reason = "a test fills the queue of its own port")]
    fn open() -> Self {
        use nix::sys::socket::{
            AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
        };
        let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        let listener = made.expect("a socket");
        bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("a port");
        listen(&listener, Backlog::new(0).expect("a length")).expect("listens");
        let address = getsockname::<SockaddrIn>(listener.as_raw_fd()).expect("an address").to_string();
        let to = address.parse().expect("an address");
        let more = || std::net::TcpStream::connect_timeout(&to, Duration::from_millis(300));
        let queued = std::iter::from_fn(|| more().ok()).take(16).collect();
        Self { _listener: listener, _queued: queued, address }
    }
}

/// The library that makes `model.test` lead elsewhere the second time; `None` with a message
/// without a C compiler, unless it is required.
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says what must be there")]
fn rebinding(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("rebind.c"), folder.join("rebind.so"));
    std::fs::write(&source, include_str!("outcomes/rebind.c")).expect("source");
    let mut command = start(Path::new("cc"));
    let built = command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).output();
    if built.is_ok_and(|output| output.status.success()) {
        return Some(library);
    }
    assert!(std::env::var_os("PAR_REQUIRE_CC").is_none(), "there is no C compiler");
    eprintln!("\nSKIPPED: NO C compiler: no outcomes of models on every wire\n");
    None
}

/// What [`BEFORE`] comes to on one wire.
fn before(model: &Scripted, wire: &str, library: &Path, full: &FullPort) -> Vec<[RunSeen; 2]> {
    let base_url = "PAR_MODELS__m__BASE_URL";
    let hangs = format!("http://{}/v1", full.address);
    let named = model.url.replace("127.0.0.1", "model.test");
    let library = library.to_str().expect("UTF-8");
    let environments: [&[(&str, &str)]; 2] = [
        &[(base_url, &hangs), ("PAR_MODELS__m__CONNECT_MS", "300")],
        &[(base_url, &named), ("PAR_MODELS__m__ADDRESSES", "[\"127.0.0.0/8\"]"), ("LD_PRELOAD", library)],
    ];
    let home = model.home(wire);
    let key = home.key("ops", "operator");
    let mut seen = Vec::new();
    for environment in environments {
        let server = home.serve_with(environment);
        seen.push([false, true].map(|is_streamed| run(&server, &key, "hello", is_streamed)));
        assert_eq!(server.stop(), Some(0));
    }
    seen
}

/// Every run of one wire: the outcomes by fault, and those streamed.
fn column(
    model: &Scripted,
    wire: &str,
    faults: &[String],
    places: (&Path, &FullPort),
) -> BTreeMap<(usize, bool), String> {
    let early = before(model, wire, places.0, places.1);
    let home = model.home(wire);
    let keys = ["one", "two"].map(|name| home.key(name, "operator"));
    let server = home.serve();
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let (server, key, next, seen) = (&server, &keys[worker % 2], &next, &seen);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(fault) = faults.get(at / 2) else { return };
                    let message = format!("fault: {fault} ({at})");
                    let one = run(server, key, &message, at % 2 == 1);
                    seen.lock().expect("seen").insert((at / 2, at % 2 == 1), (message, one));
                }
            });
        }
    });
    let mut seen = seen.into_inner().expect("seen");
    for (at, pair) in early.into_iter().enumerate() {
        for (is_streamed, one) in [false, true].into_iter().zip(pair) {
            seen.insert((faults.len() + at, is_streamed), ("hello".to_owned(), one));
        }
    }
    let mut by_status = BTreeMap::new();
    for (message, one) in seen.values() {
        let status = one.reply["status"].as_str().expect("a status").to_owned();
        by_status.entry(status).or_insert_with(|| message.clone());
        let shown = format!("{}{}", one.reply, one.words);
        for form in ["sk-test", "/0123456", "c2stdGVzd", "736b2d7465", "%73%6B"] {
            assert!(!shown.contains(form), "{wire}, {message}: {shown}");
        }
    }
    let exits = exits(&home, &by_status);
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
    seen.into_iter().map(|(place, (_, one))| (place, told(&one, &exits))).collect()
}

#[test]
fn each_fault_has_its_outcome_on_each_wire() {
    let Some(model) = Scripted::start() else { return };
    let faults = Scripted::faults();
    assert!(faults.len() > 30, "{faults:?}");
    let (folder, full) = (tempfile::tempdir().expect("folder"), FullPort::open());
    let Some(library) = rebinding(folder.path()) else { return };
    let columns: Vec<_> = std::thread::scope(|scope| {
        let (model, faults, places) = (&model, &faults, (library.as_path(), &full));
        let threads = WIRES.map(|wire| scope.spawn(move || column(model, wire, faults, places)));
        threads.into_iter().map(|thread| thread.join().expect("a column")).collect()
    });
    let mut table = String::new();
    for is_streamed in [false, true] {
        table.push_str(if is_streamed { "\n" } else { "" });
        let head = if is_streamed { "streamed" } else { "whole" };
        let mut row = |first: &str, cells: Vec<&str>| {
            let line: String = cells.iter().map(|cell| format!("| {cell:<58}")).collect();
            writeln!(table, "{}", format!("{first:<32}{line}").trim_end()).expect("written");
        };
        row(head, WIRES.to_vec());
        let names = faults.iter().map(String::as_str).chain(BEFORE);
        for (at, fault) in names.enumerate() {
            row(fault, columns.iter().map(|column| column[&(at, is_streamed)].as_str()).collect());
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/outcomes.txt");
    if table != std::fs::read_to_string(golden).expect("the golden file") {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outcomes.txt");
        std::fs::write(&place, &table).expect("written");
        panic!("tests/it/golden/outcomes.txt is not {}\n{table}", place.display());
    }
}
