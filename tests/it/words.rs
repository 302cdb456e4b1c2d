//! The words of a model while they come: on a terminal and as events of the API. They are
//! provisional until the reply is recorded, they hold no secret and move no cursor, and whoever
//! does not read them holds nothing up.

#![expect(clippy::disallowed_methods, reason = "tests listen as any client does")]

use crate::support::{Server, TestHome, text, until};
use crate::terminal::next_chunk;
use nix::pty::openpty;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the model does next in its answer.
enum Act {
    Write(String),
    /// The answer is complete.
    End,
    /// The connection breaks.
    Break,
    /// The server reports that it failed.
    Fail,
}

/// A server of chat completions that streams what the test says, when the test says it.
struct StreamModel {
    address: String,
    acts: Sender<Act>,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl StreamModel {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("address").to_string();
        let ((acts, script), bodies) = (channel(), Arc::<Mutex<Vec<Value>>>::default());
        let seen = bodies.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _gone = serve_one(stream, &script, &seen);
            }
        });
        Self { address, acts, bodies }
    }

    fn table(&self, name: &str, more: &str) -> String {
        let address = &self.address;
        format!(
            "[models.{name}]\nwire = \"openai\"\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"\n{more}"
        )
    }

    fn act(&self, act: Act) {
        self.acts.send(act).expect("the model runs");
    }

    fn write(&self, words: &str) {
        self.act(Act::Write(words.to_owned()));
    }

    /// Whether each request asked for a stream.
    fn streamed(&self) -> Vec<bool> {
        let is = |body: &Value| body["stream"] == true;
        self.bodies.lock().expect("bodies").iter().map(is).collect()
    }
}

fn serve_one(stream: TcpStream, script: &Receiver<Act>, seen: &Mutex<Vec<Value>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_streamed = asked["stream"] == true;
    seen.lock().expect("bodies").push(asked);
    let out = reader.get_mut();
    let kind = if is_streamed { "text/event-stream" } else { "application/json" };
    out.write_all(format!("HTTP/1.1 200 x\r\ncontent-type: {kind}\r\nconnection: close\r\n").as_bytes())?;
    let mut whole = String::new();
    if is_streamed {
        out.write_all(b"transfer-encoding: chunked\r\n\r\n")?;
    }
    let chunk = |out: &mut TcpStream, data: &str| {
        let event = format!("data: {data}\n\n");
        out.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
    };
    while let Ok(act) = script.recv() {
        match act {
            Act::Write(words) if is_streamed => {
                let delta = json!({ "model": "m", "choices": [{ "delta": { "content": words } }] });
                chunk(out, &delta.to_string())?;
            }
            Act::Write(words) => whole.push_str(&words),
            Act::Break => return Ok(()),
            Act::Fail => {
                chunk(out, &json!({ "error": { "message": "overloaded" } }).to_string())?;
                return out.write_all(b"0\r\n\r\n");
            }
            Act::End if is_streamed => {
                chunk(out, &json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }).to_string())?;
                chunk(out, "[DONE]")?;
                return out.write_all(b"0\r\n\r\n");
            }
            Act::End => {
                let choices = json!([{ "message": { "content": whole }, "finish_reason": "stop" }]);
                let body = json!({ "model": "m", "choices": choices }).to_string();
                return out.write_all(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
            }
        }
    }
    Ok(())
}

const KEY: &str = "sk-test-0123456789abcdef";
const LOGS: &str = "[paths]\nlogs = \"/var/log\"\n";

/// A home whose model's key is a known secret.
fn home(model: &StreamModel) -> TestHome {
    let home = TestHome::init();
    crate::secrets::private(&home.beside("own"), KEY);
    let key = format!("key = \"file:{}\"\n", home.beside("own").display());
    home.configure(&format!("[llm]\nuse = [\"fast\"]\n{}{LOGS}", model.table("fast", &key)));
    home
}

/// An event: its id, its name, its data.
type Told = (Option<u64>, String, Value);

/// A run that is followed over HTTP.
struct Following(BufReader<TcpStream>);

impl Following {
    fn start(server: &Server, key: &str, message: &str) -> Self {
        let mut stream = TcpStream::connect(&server.address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        let body = json!({ "message": message }).to_string();
        let head = format!(
            "POST /agent/run HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).expect("a status");
        assert!(first.starts_with("HTTP/1.1 200"), "{first}");
        Self(lines)
    }

    /// The next event, or `None` after the last one.
    fn next(&mut self) -> Option<Told> {
        let (mut id, mut name) = (None, String::new());
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("an event in time") == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(seq) = line.strip_prefix("id: ") {
                id = Some(seq.parse().expect("a number"));
            } else if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((id, name, serde_json::from_str(data).expect("JSON")));
            }
        }
    }

    /// The deltas up to the next other event, joined, and that event.
    fn words(&mut self) -> (String, Told) {
        let mut words = String::new();
        loop {
            let event = self.next().expect("an event");
            if event.1 != "text.delta" {
                return (words, event);
            }
            assert_eq!(event.0, None, "words are on no ledger");
            words.push_str(event.2["text"].as_str().expect("text"));
        }
    }
}

/// Words come while the model writes, without the key that it repeats; what is recorded has the
/// number of its entry, and the last event is the reply that is not streamed.
#[test]
fn a_run_is_followed_as_events() {
    let model = StreamModel::start();
    let home = home(&model);
    let key = home.key("ops", "operator");
    let server = home.serve();
    let mut run = Following::start(&server, &key, "hello");
    let (begun, name, told) = run.next().expect("an event");
    assert_eq!((name.as_str(), begun), ("run.started", told["seq"].as_u64()));
    model.write("the key is ");
    let (id, name, told) = run.next().expect("the words come before the reply ends");
    assert_eq!((id, name.as_str(), &told["text"]), (None, "text.delta", &json!("the key is ")));
    let (left, right) = KEY.split_at(9);
    for words in [left, right, " \u{1b}[2J."] {
        model.write(words);
    }
    model.act(Act::End);
    let (words, (said, name, told)) = run.words();
    assert!(words.starts_with("[secret:models.fast.key:") && words.ends_with(" \u{1b}[2J."), "{words}");
    assert_eq!(name, "message");
    assert_eq!(told["text"], format!("the key is {words}"), "the deltas are the recorded text");
    let (ended, name, reply) = run.next().expect("the end");
    assert_eq!((name.as_str(), &reply["status"]), ("run.finished", &json!("done")));
    assert!(run.next().is_none());
    let kind = |seq: Option<u64>| home.entry(seq.expect("a number"))["header"]["kind"].clone();
    assert_eq!([kind(begun), kind(said), kind(ended)], ["run.request", "model.reply", "run.reply"]);
    let id = reply["run"].as_str().expect("a run");
    let mut whole = server.get(&key, &format!("/runs/{id}")).json();
    whole["ledger"] = reply["ledger"].clone();
    assert_eq!(reply, whole);
    // Without a listener no stream is asked for.
    model.write("whole");
    model.act(Act::End);
    assert_eq!(server.run(&key, "hello").json()["answer"], "whole");
    assert_eq!(model.streamed(), [true, false]);
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}

/// Calls are events too, in the order of their entries; a refused one says why.
#[test]
fn decisions_and_results_are_events_in_the_order_of_their_entries() {
    let home = TestHome::init();
    let key = home.key("ops", "operator");
    let server = home.serve();
    let mut run =
        Following::start(&server, &key, r#"read_file(path="/etc/shadow") health_check() health_check()"#);
    let (mut names, mut ids, mut last) = (Vec::new(), Vec::new(), Value::Null);
    while let Some((id, name, data)) = run.next() {
        if name == "call.decision" {
            let status = data.get("status").and_then(Value::as_str).unwrap_or("runs");
            names.push(format!("{name} {status}"));
        } else {
            names.push(name);
        }
        ids.extend(id);
        last = data;
    }
    let runs = "call.decision runs";
    let expect =
        ["run.started", "message", "call.decision refused", runs, runs, "call.result", "call.result"];
    assert_eq!(names, [&expect[..], &["message", "run.finished"]].concat());
    assert!(ids.is_sorted() && ids.len() == names.len(), "{ids:?}");
    assert_eq!(last["steps"].as_array().map(Vec::len), Some(3));
    // What does not begin is a problem with its status, as without a stream.
    let headers = format!(
        "Authorization: Bearer {key}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
    );
    let refused = server.send("POST", "/agent/run", &headers, br#"{"message":"a","session":"ses_1"}"#);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (404, Some("not_found")));
}

/// A reader that goes away does not stop the run, and a stopping server waits for it.
#[test]
fn a_reader_that_goes_away_does_not_stop_the_run() {
    let model = StreamModel::start();
    let home = home(&model);
    let key = home.key("ops", "operator");
    let server = home.serve();
    let mut run = Following::start(&server, &key, "hello");
    let told = run.next().expect("an event").2;
    model.write("one ");
    assert_eq!(run.next().expect("words").1, "text.delta");
    drop(run);
    let stopping = std::thread::spawn(move || server.stop());
    model.write("two");
    model.act(Act::End);
    assert_eq!(stopping.join().expect("joined"), Some(0));
    let shown = home.expect(0, &["runs", "show", told["run"].as_str().expect("a run")]);
    assert!(shown.contains("one two"), "{shown}");
}

/// L7: whoever loses the power loses the stream, and reads neither the reply nor the end.
#[test]
fn a_revoked_key_ends_the_stream_and_not_the_run() {
    let model = StreamModel::start();
    let home = home(&model);
    let key = home.key("ops", "operator");
    let server = home.serve();
    let mut run = Following::start(&server, &key, "hello");
    model.write("one ");
    assert_eq!(run.words_until("one "), "one ");
    home.expect(0, &["key", "revoke", "ops"]);
    model.write("two");
    model.act(Act::End);
    let mut rest = Vec::new();
    while let Some((_, name, _)) = run.next() {
        rest.push(name);
    }
    assert!(rest.iter().all(|name| name == "text.delta"), "{rest:?}");
    until("the run is recorded", || home.entries(&["kind:run.reply"]).len() == 1);
    assert_eq!(server.stop(), Some(0));
}

impl Following {
    /// Reads until the words are these.
    fn words_until(&mut self, expect: &str) -> String {
        let mut words = String::new();
        while words.len() < expect.len() {
            let (_, name, data) = self.next().expect("words");
            words.push_str(data["text"].as_str().filter(|_| name == "text.delta").unwrap_or_default());
        }
        words
    }
}

/// A command on a terminal, which is read as it writes. What is waited for is followed by a space:
/// a last letter is held back if a secret of this home begins with it.
struct Watched {
    child: Child,
    master: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Watched {
    fn start(home: &TestHome, args: &[&str]) -> Self {
        let pty = openpty(None, None).expect("a pseudo-terminal");
        let end = || Stdio::from(pty.slave.try_clone().expect("descriptor"));
        let mut command = home.command(args);
        let child = command.stdin(Stdio::null()).stdout(end()).stderr(end()).spawn().expect("par starts");
        Self { child, master: File::from(pty.master), seen: Arc::default() }
    }

    /// Begins to read, as a terminal does.
    fn read(&self) {
        let (mut master, seen) = (self.master.try_clone().expect("descriptor"), self.seen.clone());
        std::thread::spawn(move || {
            while let Some(chunk) = next_chunk(&mut master) {
                seen.lock().expect("screen").extend(chunk);
            }
        });
    }

    fn shows(&self, words: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.screen().contains(words) {
            assert!(Instant::now() < end, "{words:?} never came: {:?}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn screen(&self) -> String {
        text(&self.seen.lock().expect("screen"))
    }

    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().expect("ends").code();
        // The last bytes may still be on their way through the terminal.
        std::thread::sleep(Duration::from_millis(100));
        (code, self.screen())
    }
}

/// On a terminal the words come as the model writes them, marked as provisional, without a secret
/// and without an escape; the answer is not printed twice. Piped, only the answer is printed.
fn words_come_on_a_terminal(home: &TestHome, model: &StreamModel) {
    let run = Watched::start(home, &["run", "hello"]);
    run.read();
    model.write("good \u{1b}[2J ");
    run.shows("good \\u{1b}[2J");
    assert!(run.screen().contains("provisional"), "{}", run.screen());
    assert!(!run.screen().contains("recorded as"), "{}", run.screen());
    let (left, right) = KEY.split_at(9);
    for words in [left, right, " morning "] {
        model.write(words);
    }
    run.shows(" morning");
    model.act(Act::End);
    let (code, screen) = run.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains(left) && screen.contains("[secret:models.fast.key:"), "{screen}");
    assert!(screen.contains("recorded as entry ") && screen.matches("morning").count() == 1, "{screen}");
    assert!(!screen.contains("the model says:") && !screen.contains("\u{1b}[2J"), "{screen}");
}

#[test]
fn words_come_on_a_terminal_in_this_process_and_beside_a_server() {
    let model = StreamModel::start();
    let home = home(&model);
    words_come_on_a_terminal(&home, &model);
    let server = home.serve();
    words_come_on_a_terminal(&home, &model);
    assert_eq!(server.stop(), Some(0));
    model.write("piped");
    model.act(Act::End);
    assert_eq!(home.expect(0, &["run", "hello"]), "piped\n");
    assert_eq!(model.streamed(), [true, true, false]);
    home.expect(0, &["audit", "verify"]);
}

/// Words of a reply that was cut, and of a model in whose place another one answers, are void, and
/// the screen says so.
#[test]
fn void_words_are_said_to_be_void() {
    let model = StreamModel::start();
    let home = home(&model);
    let run = Watched::start(&home, &["run", "hello"]);
    run.read();
    model.write("half of ");
    run.shows("half of");
    model.act(Act::Break);
    let (code, screen) = run.end();
    assert_eq!(code, Some(1), "{screen}");
    let void = "the text above is void: the reply may not be used";
    assert!(screen.contains(void) && screen.contains("par: the model's reply was cut"), "{screen}");
}

/// The first model fails in the middle of its words: they are void, and the next model's follow.
#[test]
fn words_of_a_model_that_fails_are_void_and_the_next_one_writes() {
    let (first, second) = (StreamModel::start(), StreamModel::start());
    let home = TestHome::init();
    let tables = first.table("first", "key = \"none\"\n") + &second.table("second", "key = \"none\"\n");
    home.configure(&format!("[llm]\nuse = [\"first\", \"second\"]\n{tables}{LOGS}"));
    let key = home.key("ops", "operator");
    let server = home.serve();
    // The server says that it failed, or its connection breaks: either way no reply is whole.
    let faults =
        [(Act::Fail, "the server failed while it answered"), (Act::Break, "the model's reply was cut")];
    for (at, (fault, why)) in faults.into_iter().enumerate() {
        let mut run = Following::start(&server, &key, "hello");
        assert_eq!(run.next().expect("an event").1, "run.started");
        first.write("by the first ");
        assert_eq!(run.words_until("by the first "), "by the first ");
        first.act(fault);
        second.write("by the second");
        second.act(Act::End);
        let (words, (_, name, told)) = run.words();
        assert_eq!((&*words, &*name, &told["reason"]), ("", "text.void", &json!("failed")));
        let (_, name, told) = run.next().expect("an event");
        let models = (&told["failed"], &told["next"]);
        assert_eq!((&*name, models), ("model.changed", (&json!("first"), &json!("second"))));
        let (words, (_, name, told)) = run.words();
        assert_eq!((&*words, &*name, &told["model"]), ("by the second", "message", &json!("second")));
        let (_, name, reply) = run.next().expect("the end");
        assert_eq!((&*name, &reply["answer"]), ("run.finished", &json!("by the second")));
        let (asks, errors) = (home.entries(&["kind:model.ask"]), home.entries(&["kind:model.error"]));
        assert_eq!((asks.len(), errors.len()), (2 * (at + 1), at + 1), "each request is decided");
        let payload = |header: &Value| home.entry(header["seq"].as_u64().expect("seq"))["payload"].clone();
        let (error, ask) = (payload(&errors[at]), payload(&asks[2 * at + 1]));
        assert!(error["error"].as_str().expect("words").starts_with(why), "{error}");
        assert_eq!((&error["named"], &ask["fallback_of"]), (&json!("first"), &json!("first")));
    }
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}

/// A terminal that takes nothing does not hold up the run: its reply is recorded meanwhile. Then
/// the screen gets all of it.
#[test]
fn a_terminal_that_takes_nothing_does_not_hold_up_the_run() {
    let model = StreamModel::start();
    let home = home(&model);
    // The ledger is there before it is read.
    home.key("ops", "operator");
    let run = Watched::start(&home, &["run", "hello"]);
    let line = format!("{}\n", "word ".repeat(200));
    for at in 0..600 {
        model.write(&format!("{at} {line}"));
    }
    model.act(Act::End);
    until("the reply is recorded", || home.entries(&["kind:run.reply"]).len() == 1);
    run.read();
    let (code, screen) = run.end();
    assert_eq!(code, Some(0));
    let lines: Vec<String> = (0..600).map(|at| format!("{at} word")).collect();
    let missing: Vec<&String> = lines.iter().filter(|line| !screen.contains(line.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(screen.matches("599 word").count(), 1, "nothing is printed twice");
    assert!(!screen.contains("is void"));
}
