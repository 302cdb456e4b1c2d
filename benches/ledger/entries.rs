//! Homes, and realistic entries of runs.

use par::ledger::payload::{
    CallDecisionPayload, CallResultPayload, ModelReplyPayload, RunReplyPayload, RunRequestPayload,
    StopPayload,
};
use par::ledger::{Body, Draft, Files, Ledger, Lock, Payload, Projection};
use par::types::{CallId, Digest, RunId, SessionId};
use par::{agent, auth, gate};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub static PROJECTIONS: [Projection; 3] = [auth::PROJECTION, gate::PROJECTION, agent::PROJECTION];

/// Entries in one commit while a ledger is filled.
const BATCH: usize = 2_046;

/// An empty folder `data/` with a log key.
pub fn home(below: &Path) -> TempDir {
    let folder = tempfile::Builder::new().prefix("par-bench-").tempdir_in(below).expect("temporary folder");
    par::ledger::key::make(&files(folder.path()).log_key()).expect("log key");
    folder
}

pub fn files(data: &Path) -> Files {
    Files { free_bytes_min: 0, ..Files::below(data) }
}

pub fn open(data: &Path) -> Ledger {
    let lock = Lock::take(&files(data), Duration::from_secs(60)).expect("lock");
    Ledger::open(files(data), lock, &PROJECTIONS).expect("ledger")
}

/// The entries of a run with one call: headers and payloads as long as a home's, 0.6 and 1.1 KB on
/// average. `result` is the entry that answers the decision.
pub fn run(decision: u64) -> Vec<Draft> {
    let (run, session, call) = (RunId::generate(), SessionId::generate(), CallId::generate());
    let draft = |body: Body| Draft {
        body,
        run: Some(run.clone()),
        session: Some(session.clone()),
        principal: Some("key:Ab3dEf9h".to_owned()),
        policy: Some(Digest::sha256(b"bundle")),
        ..Draft::new(StopPayload { command: String::new() })
    };
    let of_call = |draft: Draft| Draft {
        call: Some(call.clone()),
        tool: Some("read_file".to_owned()),
        manifest: Some(Digest::sha256(b"manifest")),
        ..draft
    };
    vec![
        draft(body::<RunRequestPayload>(190, "message")),
        draft(body::<ModelReplyPayload>(575, "raw")),
        Draft {
            decision: Some("allow"),
            policies: vec!["read-logs".to_owned()],
            ..of_call(draft(body::<CallDecisionPayload>(1_410, "arguments")))
        },
        Draft {
            status: Some("ok"),
            answers: Some(par::ledger::Ref::Seq(decision)),
            ..of_call(draft(body::<CallResultPayload>(1_780, "result")))
        },
        draft(body::<ModelReplyPayload>(575, "raw")),
        Draft { status: Some("done"), ..draft(body::<RunReplyPayload>(2_260, "answer")) },
    ]
}

/// A payload of about this many bytes, most of them in `member`.
fn body<P: Payload>(bytes: usize, member: &str) -> Body {
    let line = "Nov 22 11:35:49 host sshd[812]: Accepted publickey for ann from 192.0.2.7 port 51234\n";
    // Members of all kinds; each struct takes those it has.
    let mut members = json!({
        "message": "", "calls_max": 10, "tools": [], "provider": "openai", "model": "m", "request_sha256": Digest::sha256(b""),
        "request_messages": 2, "calls": [], "stop": "end_turn", "input_tokens": 10, "output_tokens": 10, "proposed_id": "",
        "end": { "end": "exit", "code": 0 }, "result": "", "truncated": false, "layers": [], "wall_us": 1,
        "run": RunId::generate(), "session": SessionId::generate(), "status": "done", "answer": "", "steps": [],
        "usage": { "model_calls": 1, "input_tokens": 10, "output_tokens": 10 },
    });
    let empty: P = serde_json::from_value(members.clone()).expect("a payload");
    let left = bytes.saturating_sub(serde_json::to_vec(&empty).expect("JSON").len());
    members[member] = json!(line.chars().cycle().take(left * 9 / 10).collect::<String>());
    serde_json::from_value::<P>(members).expect("a payload").into()
}

/// A closed ledger of about `entries` entries, made by the ledger's own appends in big commits.
pub fn filled(below: &Path, entries: u64) -> TempDir {
    let folder = home(below);
    let began = Instant::now();
    let ledger = open(folder.path());
    let mut size = ledger.head().size;
    while size < entries {
        let mut drafts = Vec::with_capacity(BATCH);
        while drafts.len() < BATCH {
            drafts.extend(run(size + drafts.len() as u64 + 2));
        }
        drafts.truncate(usize::try_from(entries - size).expect("size"));
        let receipts = ledger.append_blocking(drafts).expect("appended");
        size = receipts.last().expect("receipt").head().size;
    }
    drop(ledger);
    settle(folder.path());
    eprintln!("{size} entries written in {:.1} s", began.elapsed().as_secs_f64());
    folder
}

/// Waits for the writer to end, and checkpoints the write-ahead logs into the databases.
fn settle(data: &Path) {
    drop(Lock::take(&files(data), Duration::from_secs(60)).expect("the writer ends"));
    for path in crate::floors::segments(data).into_iter().chain([files(data).state()]) {
        let db = rusqlite::Connection::open(path).expect("database");
        // A checkpoint that was in progress when the writer ended runs to its end.
        db.busy_timeout(Duration::from_secs(60)).expect("timeout");
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moved");
    }
}
