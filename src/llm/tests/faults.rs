//! What a fault of a server leads to, on each wire: a row a fault, a column a wire, in a golden
//! file.

use super::frames::{STREAMED, framed, frames};
use super::scripted::{KEY, LONG, ScriptedServer, ServerStep, answer, ask_streamed, head};
use crate::llm::{ModelError, ModelErrorKind, ModelReply, ProviderKind, Stop};
use crate::types::Digest;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// The steps of a server, and the deadline of the request to it.
struct Fault {
    script: Vec<ServerStep>,
    deadline: Duration,
}

impl From<Vec<u8>> for Fault {
    fn from(said: Vec<u8>) -> Self {
        Self::from(vec![said])
    }
}

impl From<Vec<Vec<u8>>> for Fault {
    fn from(said: Vec<Vec<u8>>) -> Self {
        Self { script: said.into_iter().map(ServerStep::Say).collect(), deadline: LONG }
    }
}

const STREAM: &str = "content-type: text/event-stream\r\n";

fn good(kind: ProviderKind) -> Vec<u8> {
    framed(kind, &frames(kind, &[Some("c")]), "\n")
}

/// The stream up to a place `past` the first occurrence of `mark`.
fn cut(kind: ProviderKind, mark: &str, past: usize) -> Fault {
    let body = good(kind);
    let at = body.windows(mark.len()).position(|window| window == mark.as_bytes()).expect(mark);
    answer(200, STREAM, &body[..at + past]).into()
}

/// The stream without its last `count` frames.
fn short(kind: ProviderKind, count: usize) -> Vec<u8> {
    let frames = frames(kind, &[Some("c")]);
    framed(kind, &frames[..frames.len() - count], "\n")
}

fn with_ids(kind: ProviderKind, ids: &[Option<&str>]) -> Fault {
    answer(200, STREAM, &framed(kind, &frames(kind, ids), "\n")).into()
}

/// A megabyte of zeros in the gzip format, repeated as often as fits into a small answer.
fn bomb() -> Vec<u8> {
    use base64::Engine as _;
    let one = base64::engine::general_purpose::STANDARD.decode(include_str!("bomb.txt").trim());
    one.expect("base64").repeat(64)
}

fn faults(kind: ProviderKind) -> Vec<(&'static str, Fault)> {
    let stream = |body: &[u8]| Fault::from(answer(200, STREAM, body));
    let with_mark = [b"\xef\xbb\xbf".as_slice(), &good(kind)].concat();
    let html = answer(200, "content-type: text/html\r\n", b"<html>not found</html>");
    let gzip = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
    let failure = framed(
        kind,
        &[r#"{"type":"error","error":{"message":"overloaded"}}"#.into()],
        "
",
    );
    let reported = [short(kind, 3), failure.clone()];
    let malformed = [short(kind, 3), framed(kind, &["{\"a\":\"\u{1}\"}".into()], "\n")];
    let hang = ServerStep::SayAndHold([head(1 << 20, STREAM), short(kind, 3)].concat());
    let silent = ServerStep::SayAndHold(Vec::new());
    let soon = Duration::from_secs(5);
    let many = vec![Some("c"); 1_000];
    vec![
        ("none", stream(&good(kind))),
        ("line ends of CR LF", stream(&framed(kind, &frames(kind, &[Some("c")]), "\r\n"))),
        ("a byte order mark", stream(&with_mark)),
        ("content type of text", Fault::from(answer(200, "content-type: text/plain\r\n", &good(kind)))),
        ("a page of HTML", html.into()),
        ("an empty body", stream(b"")),
        ("cut inside a character", cut(kind, "h\u{e9}", 2)),
        ("cut inside a frame", cut(kind, "llo", 2)),
        ("cut inside an argument", cut(kind, "b\u{e9}", 1)),
        ("cut before the end", stream(&short(kind, if kind == ProviderKind::OpenAi { 3 } else { 1 }))),
        ("connection broken", Fault::from([head(1 << 20, STREAM), short(kind, 3)].concat())),
        ("hangs before the head", Fault { script: vec![silent], deadline: soon }),
        ("hangs in the middle", Fault { script: vec![hang], deadline: soon }),
        (
            "429, then good",
            Fault::from(vec![answer(429, "retry-after: 0\r\n", b"{}"), answer(200, STREAM, &good(kind))]),
        ),
        ("429 without a delay", Fault::from(vec![answer(429, "", b"{}"); 3])),
        ("429 for an hour", Fault::from(answer(429, "retry-after: 3600\r\n", b"{}"))),
        ("500", Fault::from(vec![answer(500, "", b"oops"); 3])),
        ("100 MB", Fault::from([head(100 << 20, STREAM), short(kind, 3)].concat())),
        (
            "5 MB without a length",
            Fault::from([b"HTTP/1.1 200 x\r\n\r\n".to_vec(), b": \n".repeat(2 << 20)].concat()),
        ),
        ("a gzip bomb", Fault::from(answer(200, gzip, &bomb()))),
        ("reports a failure", stream(&reported.concat())),
        ("reports a failure at once", Fault::from(vec![answer(200, STREAM, &failure); 3])),
        ("a malformed frame", stream(&malformed.concat())),
        ("calls with one id", with_ids(kind, &[Some("c"), Some("c")])),
        ("calls without an id", with_ids(kind, &[None, None])),
        ("a thousand calls", with_ids(kind, &many)),
        ("repeats the key", stream(&framed(kind, &frames(kind, &[Some(KEY)]), "\n"))),
    ]
}

/// What came of it, in a few words.
fn told(outcome: &Result<ModelReply, ModelError>, deltas: &str, tries: usize) -> String {
    let told = match outcome {
        Ok(reply) => {
            let stop = match &reply.stop {
                Stop::ToolCalls => "tool_calls",
                Stop::Cut(_) => "cut",
                other => &format!("{other:?}"),
            };
            let text = reply.text.as_deref().unwrap_or_default();
            assert!(text.starts_with(deltas), "{deltas} is not the beginning of {text}");
            format!("{stop} `{text}` {}", reply.calls.len())
        }
        Err(error) => match error.kind {
            ModelErrorKind::Status(status) => format!("status {status}"),
            other => format!("{other:?}").to_lowercase(),
        },
    };
    if tries == 1 { told } else { format!("{told}, {tries} tries") }
}

fn check(fault: &str, outcome: &Result<ModelReply, ModelError>) {
    let Ok(reply) = outcome else { return };
    let streamed = reply.streamed.as_ref().expect("a stream");
    assert!(streamed.bytes > 0, "{fault}");
    let mut ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), reply.calls.len(), "{fault}");
    assert!(reply.calls.iter().all(|call| call.arguments == "{\"a\":\"b\u{e9}\"}"), "{fault}");
    if fault == "repeats the key" {
        assert!(streamed.held_secret && reply.raw.is_empty(), "{fault}: {reply:?}");
        assert!(!format!("{reply:?}").contains(KEY) && !reply.found.is_none(), "{fault}");
    } else {
        assert_eq!(streamed.digest, Some(Digest::sha256(&reply.raw)), "{fault}");
        assert_eq!(streamed.bytes, reply.raw.len() as u64, "{fault}");
    }
}

async fn row(kind: ProviderKind, fault: &'static str, made: Fault) -> String {
    let server = ScriptedServer::start(made.script).await;
    let (outcome, deltas) = ask_streamed(kind, &server.base_url, made.deadline).await;
    check(fault, &outcome);
    told(&outcome, &deltas, server.tries())
}

#[tokio::test]
async fn each_fault_has_its_outcome_on_each_wire() {
    // First those that wait for no deadline, all at once; their work would use up the deadlines.
    let (mut cells, mut hanging) = (BTreeMap::new(), Vec::new());
    let mut tasks = Vec::new();
    for kind in STREAMED {
        for (at, (fault, made)) in faults(kind).into_iter().enumerate() {
            let column = kind.as_str();
            if made.deadline == LONG {
                tasks.push(((at, column), tokio::spawn(row(kind, fault, made))));
            } else {
                hanging.push(((at, column), kind, fault, made));
            }
        }
    }
    for (place, task) in tasks {
        cells.insert(place, task.await.unwrap_or_else(|e| panic!("{place:?}: {e}")));
    }
    let hanging =
        hanging.into_iter().map(|(place, kind, fault, made)| (place, tokio::spawn(row(kind, fault, made))));
    for (place, task) in hanging.collect::<Vec<_>>() {
        cells.insert(place, task.await.unwrap_or_else(|e| panic!("{place:?}: {e}")));
    }
    let mut table = String::new();
    let names = faults(ProviderKind::OpenAi).into_iter().map(|(fault, _)| fault);
    let heads = STREAMED.map(|kind| kind.as_str().to_owned());
    let rows = names
        .enumerate()
        .map(|(at, fault)| (fault, STREAMED.map(|kind| cells.remove(&(at, kind.as_str())).expect("a cell"))));
    for (fault, cells) in [("fault", heads)].into_iter().chain(rows.collect::<Vec<_>>()) {
        write!(table, "{fault:<26}").expect("written");
        cells.iter().for_each(|cell| write!(table, "| {cell:<32}").expect("written"));
        table = table.trim_end().to_owned() + "\n";
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/llm/tests/faults.txt");
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(table == golden, "{} should be\n{table}", path.display());
}

/// The end of a stream may divide a secret, and so may its framing: neither part is shown or kept.
#[tokio::test]
async fn a_secret_that_a_cut_divides_is_in_no_part_of_the_reply() {
    let (head, tail) = KEY.split_at(5);
    let (tail, _) = tail.split_at(6);
    for kind in STREAMED {
        let mut body = String::from_utf8(good(kind)).expect("UTF-8");
        body = body.replace("h\u{e9}", &format!("an {head}")).replace("llo", tail);
        let at = body.find(tail).expect("the second piece");
        let end = at + body.as_bytes()[at..].iter().position(|byte| *byte == b'\n').expect("its end") + 2;
        let said = answer(200, STREAM, &body.as_bytes()[..end.min(body.len())]);
        let server = ScriptedServer::start(vec![ServerStep::Say(said)]).await;
        let (outcome, deltas) = ask_streamed(kind, &server.base_url, LONG).await;
        let reply = outcome.expect("a reply that was cut");
        assert!(matches!(reply.stop, Stop::Cut(_)), "{reply:?}");
        assert_eq!(deltas, "an ", "{}", kind.as_str());
        assert_eq!(reply.text.as_deref(), Some("an [secret:llm.api_key:cut]"), "{}", kind.as_str());
        let streamed = reply.streamed.as_ref().expect("a stream");
        assert!(streamed.held_secret && reply.raw.is_empty(), "{reply:?}");
        assert_eq!(streamed.digest, None, "the framing still has both parts: {}", kind.as_str());
    }
}
