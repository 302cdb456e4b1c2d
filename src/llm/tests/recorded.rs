//! Parses recorded exchanges with real servers, if they are present next to the project.

use super::scripted::origin;
use crate::egress::Response;
use crate::llm::remote::answer;
use crate::llm::remote::partial::StreamReader;
use crate::llm::remote::wire::{Wire, read as read_reply};
use crate::llm::{ModelErrorKind, ModelReply, ProviderKind, Stop};
use crate::types::Digest;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const WIRE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/wire");

/// The parts of a recorded exchange that the tests need.
struct Exchange {
    file: PathBuf,
    path: String,
    asked: String,
    status: u16,
    body: String,
}

/// Every exchange of `W`, streamed or not, below `folder`; `None` with a message if the folder is
/// missing.
fn exchanges<W: Wire>(folder: &str, is_streamed: bool) -> Option<Vec<Exchange>> {
    let folder = Path::new(WIRE).join(folder);
    if !folder.is_dir() {
        #[expect(clippy::disallowed_methods, reason = "a test asks whether the data may be missing")]
        let required = std::env::var_os("PAR_REQUIRE_SHARED").is_some_and(|flag| flag == "1");
        assert!(!required, "{} is missing", folder.display());
        // Not `eprintln!`, whose output the test harness hides if a test passes.
        writeln!(std::io::stderr(), "SKIPPED: {} is missing", folder.display()).expect("written");
        return None;
    }
    let mut found: Vec<Exchange> = files(&folder).iter().flat_map(|file| read(file)).collect();
    found.retain(|exchange| is_of::<W>(exchange, is_streamed));
    Some(found)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let below = |entry: std::fs::DirEntry| {
        let path = entry.path();
        if path.is_dir() { files(&path) } else { vec![path] }
    };
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.flat_map(|entry| below(entry.expect("an entry"))).collect()
}

/// Whether the exchange is of `W`, and streamed or not.
fn is_of<W: Wire>(exchange: &Exchange, is_streamed: bool) -> bool {
    let path = W::path("", is_streamed);
    let path = path.split(['?', ':']).next_back().filter(|_| path.contains("models/")).unwrap_or(&path);
    let path = if path == "alt=sse" { "streamGenerateContent" } else { path };
    let says_stream = exchange.asked.contains("\"stream\":true") || path.starts_with("stream");
    exchange.path.ends_with(path) && says_stream == is_streamed
}

/// Parses the part of YAML that the recordings use. A body is quoted on one line, or a block; or it
/// is absent, and is left empty.
fn read(file: &Path) -> Vec<Exchange> {
    let text = std::fs::read_to_string(file).expect("a recording");
    let exchange = |part: &str| {
        let (when, then) = part.split_once("\nthen:\n")?;
        let field = |of: &str, name: &str| {
            let line =
                of.lines().find_map(|line| line.strip_prefix(&format!("  {name}: ")).map(str::to_owned));
            line.unwrap_or_default()
        };
        let body = |of: &str| match field(of, "body") {
            block if block.starts_with('|') => indented(of),
            quoted if quoted.starts_with('"') => serde_json::from_str(&quoted).expect("a text"),
            quoted => {
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                inner.map(|inner| inner.replace("''", "'")).unwrap_or_default()
            }
        };
        Some(Exchange {
            file: file.to_owned(),
            path: field(when, "path"),
            asked: body(when),
            status: field(then, "status").parse().expect("a status"),
            body: body(then),
        })
    };
    text.split("when:\n").filter_map(exchange).collect()
}

/// The block that is the body.
fn indented(of: &str) -> String {
    let (_, block) = of.split_once("\n  body: |").expect("a block");
    let (_, block) = block.split_once('\n').expect("its lines");
    let lines = block.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.get(4..).unwrap_or_default())).collect()
}

/// The streamed replies of `W` in `folder`, each with its deltas joined; `None` if it is missing.
/// Each is read whole, in pieces cut at many places, and cut short.
pub(in crate::llm) fn replay_streams<W: Wire>(folder: &str) -> Option<Vec<(String, ModelReply)>> {
    let exchanges = exchanges::<W>(folder, true)?;
    let good = exchanges.iter().filter(|exchange| exchange.status == 200);
    Some(good.map(|exchange| stream::<W>(exchange)).collect())
}

fn stream<W: Wire>(exchange: &Exchange) -> (String, ModelReply) {
    let (at, bytes) = (exchange.file.display(), exchange.body.as_bytes());
    let whole = read_pieces::<W>(bytes, bytes.len().max(1), bytes.len());
    for size in [1, 2, 3, 7, 64, 1000] {
        assert_eq!(read_pieces::<W>(bytes, size, bytes.len()), whole, "{at} in pieces of {size}");
    }
    for to in (1..bytes.len()).step_by(bytes.len() / 40 + 1) {
        let (deltas, short) = read_pieces::<W>(bytes, 64, to);
        let is_cut = matches!(short.stop, Stop::Cut(_));
        // One server says twice that it is done, and goes on after the first time.
        let goes_on = W::KIND == ProviderKind::Gemini;
        assert!(is_cut || goes_on || short.stop == whole.1.stop, "{at}, cut at {to}: {:?}", short.stop);
        assert!(!is_cut || short.calls.is_empty(), "{at}, cut at {to}");
        assert!(whole.0.starts_with(&deltas), "{at}, cut at {to}");
    }
    whole
}

fn read_pieces<W: Wire>(bytes: &[u8], size: usize, to: usize) -> (String, ModelReply) {
    let mut reader = StreamReader::<W>::new();
    let mut deltas = String::new();
    for piece in bytes[..to].chunks(size) {
        reader.push(piece, &mut deltas).expect("a frame");
    }
    let answer = reader.finish(&bytes[..to], None).expect("an answer");
    (deltas, answer.into_reply(Vec::new(), Digest::sha256(b""), &origin::<W>("asked")))
}

/// The expected content of a reply, read from its body without the protocol's structs.
#[derive(Debug, PartialEq)]
pub(in crate::llm) struct Expected {
    pub(in crate::llm) text: String,
    /// Identifier, name and arguments, as the bytes that came.
    pub(in crate::llm) calls: Vec<(String, String, String)>,
    pub(in crate::llm) input_tokens: u64,
    pub(in crate::llm) output_tokens: u64,
}

pub(in crate::llm) fn word(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn check_reply<W: Wire>(exchange: &Exchange, expected: fn(&Value) -> Expected) -> ModelReply {
    let at = exchange.file.display();
    let reply =
        read_reply::<W>(exchange.body.clone().into_bytes(), Digest::sha256(b""), &origin::<W>("asked"));
    let reply = reply.unwrap_or_else(|e| panic!("{at}: {e}"));
    let body: Value = serde_json::from_str(&exchange.body).expect("JSON");
    let calls = reply.calls.iter();
    let calls = calls.map(|call| (call.id.clone(), call.tool.clone(), call.arguments.clone()));
    let found = Expected {
        text: reply.text.clone().unwrap_or_default(),
        calls: calls.collect(),
        input_tokens: reply.usage.input_tokens,
        output_tokens: reply.usage.output_tokens,
    };
    assert_eq!(found, expected(&body), "{at}");
    let model = body.get("model").or(body.get("modelVersion")).expect("a model");
    assert_eq!(*model, reply.model, "{at}");
    reply
}

fn check_refusal(exchange: &Exchange) {
    let at = exchange.file.display();
    let body = exchange.body.clone().into_bytes();
    let error = answer::refusal(Response {
        status: exchange.status,
        retry_after: None,
        request_id: None,
        content_type: None,
        body,
    });
    assert_eq!(error.kind, ModelErrorKind::Status(exchange.status), "{at}");
    let body: Value = serde_json::from_str(&exchange.body).expect("JSON");
    let told = body["error"]["message"].as_str().or(body["message"].as_str()).expect("a message");
    let head = told.get(..20).unwrap_or(told);
    assert!(error.message.contains(head), "{at}: {error}");
}

/// The result of replaying a folder.
pub(in crate::llm) struct ReplayedFolder {
    pub(in crate::llm) replies: Vec<ModelReply>,
    /// How many exchanges were refusals.
    pub(in crate::llm) refusals: usize,
}

/// Replays `folder`; `None` if it is missing.
pub(in crate::llm) fn replay<W: Wire>(
    folder: &str,
    expected: fn(&Value) -> Expected,
) -> Option<ReplayedFolder> {
    let exchanges = exchanges::<W>(folder, false)?;
    let (good, bad): (Vec<_>, Vec<_>) = exchanges.iter().partition(|exchange| exchange.status == 200);
    bad.iter().for_each(|exchange| check_refusal(exchange));
    let replies = good.into_iter().map(|exchange| check_reply::<W>(exchange, expected)).collect();
    Some(ReplayedFolder { replies, refusals: bad.len() })
}
