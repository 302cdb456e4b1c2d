//! The cost of a model's reply on each wire, compared with floors that are measured in the same
//! run.
//!
//! `cargo bench --bench wires` prints one table. The server is a thread of this process on the
//! loopback. A reply costs what a whole request takes less what the same exchange takes whose bytes
//! are thrown away, so that the network is in neither figure:
//!
//! * 10,000 deltas, with two secrets and a pattern to be looked for, compared with `serde_json`
//!   parsing each frame into a `Value`. The aim is at most 3 ×.
//! * A reply of 4 MiB that comes whole, compared with `serde_json` parsing it into a `Value`. The
//!   aim is at most 1.5 ×.
//! * The time from the server's write of a delta until the listener has it, one delta at a time,
//!   compared with a plain socket. The aim is at most 2 ms.
//!
//! Rounds of all figures are interleaved; the figures are medians.

#![expect(clippy::disallowed_methods, reason = "a bench has a server and a socket of its own")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

use par::auth::{self, Role};
use par::config::{Config, Home, ModelKeys};
use par::egress::{Client, Endpoint, HttpRequest};
use par::gate::{AskOutcome, CallContext, Gate, ModelAsk, ModelPermit, Rules};
use par::ledger::{Files, Ledger, Lock, Projection};
use par::llm::{Conversation, DeltaSink, ModelReply, ModelRequest, Provider, ProviderKind, Settings, build};
use par::policy::{Bundle, Session, SourceFile};
use par::secrets::{Clean, Finder, Named, Pattern, Secrets};
use par::tools::{Catalog, Places};
use par::types::{Channel, DataLabels, Labelled, ModelSink, RunId, Secret, SessionId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

static PROJECTIONS: [Projection; 3] = [auth::PROJECTION, par::gate::PROJECTION, par::agent::PROJECTION];

const DELTAS: usize = 10_000;
const ROUNDS: usize = 15;
const PINGS: usize = 500;
const WIRES: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

fn main() {
    let folder = tempfile::Builder::new().prefix("par-bench-").tempdir().expect("temporary folder");
    let made = Command::new(env!("CARGO_BIN_EXE_par"))
        .arg("--home")
        .arg(folder.path().join("home"))
        .arg("init")
        .output();
    assert!(made.expect("par starts").status.success());
    let gate = open(folder.path());
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    println!("{:<34} {:>12} {:>12} {:>7}  aim", "median of each", "PAR", "floor", "ratio");
    runtime.block_on(async {
        for kind in WIRES {
            deltas(&gate, kind).await;
        }
        for kind in WIRES {
            whole(&gate, kind).await;
        }
        latency(&gate).await;
    });
}

/// A gate with the shipped rule for models, and a ledger on disk.
fn open(below: &Path) -> (Gate, par::auth::Principal) {
    let config = Config::load(Home::locate(Some(&below.join("home")), None).expect("home")).expect("home");
    let places = Places { names: config.paths.clone(), private: Vec::new() };
    let catalog = Catalog::load(&config.home.etc.join("tools.d"), &places).expect("tools");
    let policy = config.home.etc.join("policies/05-models.cedar");
    let text = std::fs::read_to_string(policy).expect("policy");
    let source = SourceFile { name: "policies/05-models.cedar".to_owned(), text };
    let names: BTreeSet<String> = config.paths.keys().cloned().collect();
    let bundle = Bundle::load(&[source], &catalog, &names).expect("policies");
    let files = Files { free_bytes_min: 0, ..Files::below(&config.home.data) };
    let lock = Lock::take(&files, Duration::ZERO).expect("lock");
    let ledger = Ledger::open(files, lock, &PROJECTIONS).expect("ledger");
    let rules = Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) };
    let gate = Gate::new(ledger, rules, config.paths.clone(), Secrets::default()).expect("gate");
    (gate, auth::local(&config.home.data, Role::Operator).expect("the owner of data/"))
}

type Asker = (Gate, par::auth::Principal);

/// Permission for one request, as a run gets it.
async fn permit((gate, principal): &Asker, sink: &ModelSink) -> ModelPermit {
    let (run, session_id) = (RunId::generate(), SessionId::generate());
    let session = Session {
        id: session_id.as_str().to_owned(),
        ceiling: BTreeSet::new(),
        taint: BTreeSet::new(),
        seen: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: 0,
        budget: 32,
        risk: 0,
    };
    let context = CallContext {
        principal,
        run: &run,
        session_id: &session_id,
        session: &session,
        source_ip: None,
        channel: Channel::Cli,
        message: "",
        sources: None,
        ceiling: &par::types::Ceiling::OPEN,
        said: None,
    };
    let ask = ModelAsk {
        context,
        sink: sink.clone(),
        labels: DataLabels::default(),
        bytes: 0,
        results_bytes_max: 0,
        fallback_of: None,
    };
    match gate.ask_model(Vec::new(), Some(ask)).await.expect("recorded").1 {
        Some(AskOutcome::Permit(permit)) => permit,
        other => panic!("not permitted: {other:?}"),
    }
}

fn secrets() -> Secrets {
    let named = |name: &str, value: &str| Named::new(name, value.as_bytes().to_vec().into()).expect("long");
    let named = vec![named("one", "sk-bench-0123456789abcdef"), named("two", "correct horse battery staple")];
    let pattern = Pattern::new("token", "ghp_[A-Za-z0-9]{36}").expect("pattern");
    Secrets::new(Finder::new(vec![7; 32].into(), named, vec![pattern]).expect("finder"))
}

/// A server that answers each request with these bytes.
struct Fixed {
    base_url: String,
}

impl Fixed {
    fn start(kind: &'static str, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("address"));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                read_request(&stream);
                let head = format!(
                    "HTTP/1.1 200 x\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).expect("written");
            }
        });
        Self { base_url }
    }
}

fn read_request(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).expect("a line") == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("length");
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("a body");
}

fn provider(kind: ProviderKind, base_url: &str) -> Arc<dyn Provider> {
    build(Settings {
        provider: kind,
        base_url: base_url.to_owned(),
        model: "m".to_owned(),
        name: "default".to_owned(),
        keys: ModelKeys::of("default", Secret::new("sk-bench-0123456789abcdef".to_owned()).expect("a key")),
        secrets: secrets(),
        ..Settings::default()
    })
    .expect("settings")
}

/// One request as a run makes it, and the time it took.
async fn ask(
    asker: &Asker,
    provider: &Arc<dyn Provider>,
    listener: Option<DeltaSink<'_>>,
) -> (ModelReply, f64) {
    let mut conversation = Conversation::new(Labelled::trusted("be careful".to_owned()));
    conversation.push_user(Labelled::trusted(Secrets::default().clean("hello?".to_owned())));
    let permit = permit(asker, provider.sink().expect("a sink")).await;
    let request = ModelRequest {
        conversation: &conversation,
        tools: &[],
        deadline: Duration::from_secs(60),
        permit: Some(&permit),
        listener,
    };
    let start = Instant::now();
    let reply = provider.complete(&request).await.expect("a reply");
    (reply, start.elapsed().as_secs_f64() * 1e3)
}

/// The same exchange, whose bytes are thrown away.
async fn exchange(client: &Client, base_url: &str) -> f64 {
    let endpoint = Endpoint::parse(base_url, "/x").expect("a URL");
    let ask = HttpRequest {
        endpoint: &endpoint,
        credential: None,
        headers: &[],
        body: Some(b"{}"),
        deadline: Duration::from_secs(60),
    };
    let (start, mut bytes) = (Instant::now(), 0);
    let taken = client.exchange_in_pieces(ask, |piece| {
        bytes += black_box(piece).len();
        true
    });
    taken.await.expect("an answer");
    start.elapsed().as_secs_f64() * 1e3
}

/// What comes before the text, a piece of text, and what comes after it.
type FrameParts = (Vec<Value>, fn(String) -> Value, Vec<Value>);

/// The frames of a reply of this many pieces of text, without line ends.
fn frames(kind: ProviderKind, count: usize) -> Vec<String> {
    let text = |at: usize| format!("word {at} ");
    let all: String = (0..count).map(text).collect();
    let (head, delta, tail): FrameParts = match kind {
        ProviderKind::OpenAi => (
            vec![],
            |text| json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]}),
            vec![json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})],
        ),
        ProviderKind::OpenAiResponses => (
            vec![json!({"type": "response.created", "response": {}})],
            |text| json!({"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": text}),
            vec![json!({"type": "response.completed", "response": {"model": "m", "status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": all}]}]}})],
        ),
        ProviderKind::Anthropic => (
            vec![
                json!({"type": "message_start", "message": {"model": "m"}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ],
            |text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            vec![
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
                json!({"type": "message_stop"}),
            ],
        ),
        ProviderKind::Gemini => (
            vec![],
            |text| json!({"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}], "modelVersion": "m"}),
            vec![json!({"candidates": [{"finishReason": "STOP"}]})],
        ),
        _ => (
            vec![],
            |text| json!({"model": "m", "created_at": "2026-11-24T00:00:00Z", "message": {"role": "assistant", "content": text}, "done": false}),
            vec![json!({"model": "m", "message": {"content": ""}, "done": true, "done_reason": "stop"})],
        ),
    };
    let deltas = (0..count).map(|at| delta(text(at)));
    head.into_iter().chain(deltas).chain(tail).map(|frame| frame.to_string()).collect()
}

fn framed(kind: ProviderKind, frame: &str) -> String {
    if kind == ProviderKind::Ollama { format!("{frame}\n") } else { format!("data: {frame}\n\n") }
}

async fn deltas(asker: &Asker, kind: ProviderKind) {
    let frames = frames(kind, DELTAS);
    let body: String = frames.iter().map(|frame| framed(kind, frame)).collect();
    let server = Fixed::start("text/event-stream", body.into_bytes());
    let (provider, client) = (provider(kind, &server.base_url), Client::new(None));
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let heard = Mutex::new(0);
        let listener = |delta: Clean<String>| *heard.lock().expect("heard") += delta.len();
        let (reply, took) = ask(asker, &provider, Some(DeltaSink::new(&listener))).await;
        assert_eq!(Some(heard.into_inner().expect("heard")), reply.text.map(|text| text.len()));
        let carried = exchange(&client, &server.base_url).await;
        let start = Instant::now();
        for frame in &frames {
            black_box(serde_json::from_str::<Value>(black_box(frame)).expect("JSON"));
        }
        let floor = start.elapsed().as_secs_f64() * 1e3;
        // The first round warms both up.
        if round > 0 {
            ours.push(took - carried);
            floors.push(floor);
        }
    }
    row(&format!("{DELTAS} deltas, {}", kind.as_str()), median(ours), median(floors), 3.0);
}

async fn whole(asker: &Asker, kind: ProviderKind) {
    let line = "A line of a reply, as a model writes it: with \"quotes\", a tab\tand \u{e9}.\n";
    let text = line.repeat((4 << 20) / (line.len() + 6) - 20);
    let body = match kind {
        ProviderKind::OpenAi => {
            json!({"model": "m", "choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
        }
        ProviderKind::OpenAiResponses => json!({"model": "m", "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}),
        ProviderKind::Anthropic => {
            json!({"model": "m", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
        }
        ProviderKind::Gemini => {
            json!({"modelVersion": "m", "candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]})
        }
        _ => json!({"model": "m", "message": {"content": text}, "done": true, "done_reason": "stop"}),
    };
    let body = body.to_string().into_bytes();
    assert!((4 << 20) - (400 << 10) < body.len() && body.len() <= 4 << 20, "{} bytes", body.len());
    let server = Fixed::start("application/json", body.clone());
    let (provider, client) = (provider(kind, &server.base_url), Client::new(None));
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (reply, took) = ask(asker, &provider, None).await;
        assert_eq!(reply.text.map(|text| text.len()), Some(text.len()));
        let carried = exchange(&client, &server.base_url).await;
        let start = Instant::now();
        black_box(serde_json::from_slice::<Value>(black_box(&body)).expect("JSON"));
        let floor = start.elapsed().as_secs_f64() * 1e3;
        if round > 0 {
            ours.push(took - carried);
            floors.push(floor);
        }
    }
    row(&format!("4 MiB whole, {}", kind.as_str()), median(ours), median(floors), 1.5);
}

/// One delta at a time: the server writes the next one only after the listener has the last.
async fn latency(asker: &Asker) {
    let (next, go) = channel::<()>();
    let (wrote, written) = channel::<Instant>();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base_url = format!("http://{}/v1", listener.local_addr().expect("address"));
    std::thread::spawn(move || serve_pings(&listener, &go, &wrote));
    let provider = provider(ProviderKind::OpenAi, &base_url);
    let (times, seen) = (Mutex::new(Vec::new()), Mutex::new(written));
    next.send(()).expect("the server runs");
    let heard = |_: Clean<String>| {
        let now = Instant::now();
        let at = seen.lock().expect("times").recv().expect("written");
        times.lock().expect("times").push((now - at).as_secs_f64() * 1e3);
        next.send(()).expect("the server runs");
    };
    let (_reply, _) = ask(asker, &provider, Some(DeltaSink::new(&heard))).await;
    let mut ours = times.into_inner().expect("times");
    // The same through a plain socket.
    let written = seen.into_inner().expect("times");
    let address = base_url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let mut floors =
        tokio::task::spawn_blocking(move || plain_pings(&address, &next, &written)).await.expect("the floor");
    for percent in [50, 99] {
        let of = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[(times.len() - 1) * percent / 100]
        };
        let (ours, floor) = (of(&mut ours), of(&mut floors));
        let verdict = if ours <= 2.0 { "met" } else { "missed" };
        let what = format!("one delta to the listener, p{percent}");
        println!("{what:<34} {ours:>9.3} ms {floor:>9.3} ms {:>7.2}  <= 2 ms {verdict}", ours / floor);
    }
}

fn serve_pings(listener: &TcpListener, go: &Receiver<()>, wrote: &Sender<Instant>) {
    for mut stream in listener.incoming().map_while(Result::ok) {
        stream.set_nodelay(true).expect("an option");
        read_request(&stream);
        let head = "HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("written");
        for _ in 0..PINGS {
            go.recv().expect("a reader");
            let frame = framed(ProviderKind::OpenAi, r#"{"choices":[{"delta":{"content":"word "}}]}"#);
            wrote.send(Instant::now()).expect("a reader");
            stream.write_all(frame.as_bytes()).expect("written");
        }
        stream
            .write_all(b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
            .expect("written");
    }
}

fn plain_pings(address: &str, next: &Sender<()>, written: &Receiver<Instant>) -> Vec<f64> {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n").expect("sent");
    let mut lines = BufReader::new(stream).lines();
    let mut times = Vec::new();
    while let Some(Ok(line)) = lines.next() {
        if line.starts_with("data: ") && !line.contains("finish") {
            let now = Instant::now();
            times.push((now - written.recv().expect("written")).as_secs_f64() * 1e3);
            // The last one is not waited for.
            let _last = next.send(());
        }
    }
    times
}

fn row(what: &str, ours: f64, floor: f64, aim: f64) {
    let ratio = ours / floor;
    let verdict = if ratio <= aim { "met" } else { "missed" };
    println!("{what:<34} {ours:>9.2} ms {floor:>9.2} ms {ratio:>7.2}  <= {aim} {verdict}");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
