//! The ledger on real files: what verification detects, what opening refuses, and the laws of chain
//! and tree.

mod bits;
mod counting;
mod epochs;
mod exporting;
mod flips;
mod full;
mod indexing;
mod kills;
mod laws;
mod logs;
mod opening;
mod proving;
mod query;
mod redacting;
mod segments;
mod since;
mod tampered;
mod threads;
mod watching;
mod writing;

use super::payload::GenesisPayload;
use super::verify::ChainWalk;
use super::verify::CheckedEntry;
use super::{
    Checkpoint, Draft, Files, Head, Header, Kind, Ledger, Lock, Note, Outside, Projection, Reader, Ref, Row,
    Verdict, Verification, VerifierKey, audit, audit_from, checkpoint, key, tree,
};
use crate::types::{CallId, Digest, RunId, SessionId};
use ed25519_dalek::SigningKey;
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Replacements for the projections of other rooms: keys from payloads, open calls from headers.
static PROJECTIONS: [Projection; 1] = [Projection {
    tables: &[("api_key", "id"), ("open_call", "decision_seq")],
    kinds: &[Kind::KeyCreate, Kind::CallDecision, Kind::CallResult],
    rows,
}];

fn rows(header: &Header, body: &[u8]) -> Vec<Row> {
    let text = |name: &str| Cell::Text(header.str(name).unwrap_or_default().to_owned());
    let seq = |seq: u64| Cell::Integer(i64::try_from(seq).unwrap_or(i64::MAX));
    let payload: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let member = |name: &str| Cell::Text(payload[name].as_str().unwrap_or_default().to_owned());
    match (header.kind.as_str(), header.u64("ref")) {
        ("key.create", _) => vec![Row {
            sql: "INSERT INTO api_key(id, name, role, created_seq) VALUES (?1, ?2, ?3, ?4)",
            values: vec![member("id"), member("name"), member("role"), seq(header.seq)],
        }],
        ("call.decision", _) => vec![Row {
            sql: "INSERT INTO open_call(decision_seq, call, run) VALUES (?1, ?2, ?3)",
            values: vec![seq(header.seq), text("call"), text("run")],
        }],
        ("call.result", Some(decision)) => {
            vec![Row { sql: "DELETE FROM open_call WHERE decision_seq = ?1", values: vec![seq(decision)] }]
        }
        _ => Vec::new(),
    }
}

/// A folder `data/` with a log key.
struct LedgerHome {
    folder: TempDir,
}

impl LedgerHome {
    fn empty() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let home = Self { folder };
        key::make(&home.files().log_key()).expect("log key");
        home
    }

    /// A closed ledger of at least `entries` entries, all of it in the databases' main files.
    fn filled(entries: usize) -> Self {
        let home = Self::empty();
        let ledger = home.open();
        let mut drafts = vec![key_draft("Ab3dEf9h", "ops", "operator")];
        while drafts.len() + 1 < entries {
            drafts.extend(call_drafts(drafts.len()));
        }
        let _receipts = ledger.append_blocking(drafts).expect("appended");
        drop(ledger);
        home.settle();
        home
    }

    fn files(&self) -> Files {
        Files { free_bytes_min: 0, ..Files::below(self.folder.path()) }
    }

    fn try_open(&self) -> Result<Ledger, super::OpenError> {
        let lock = Lock::take(&self.files(), Duration::from_secs(5)).expect("lock");
        Ledger::open(self.files(), lock, &PROJECTIONS)
    }

    fn open(&self) -> Ledger {
        self.try_open().expect("ledger")
    }

    fn audit(&self) -> Verification {
        audit(&self.files(), &PROJECTIONS, &[])
    }

    /// As [`LedgerHome::audit`], with a checkpoint that was kept elsewhere.
    fn audit_against(&self, note: &Note) -> Verification {
        let outside = Outside { from: "kept.note".to_owned(), note: note.clone(), key: None };
        audit(&self.files(), &PROJECTIONS, &[outside])
    }

    fn db(&self) -> Connection {
        connect(&self.files().ledger())
    }

    fn state(&self) -> Connection {
        connect(&self.files().state())
    }

    /// Waits for the writer to end, and copies the write-ahead logs into the databases.
    fn settle(&self) {
        drop(Lock::take(&self.files(), Duration::from_secs(5)).expect("the writer ends"));
        for db in [self.db(), self.state()] {
            let left: i64 =
                db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("checkpoint");
            assert_eq!(left, 0, "no reader is in the way");
        }
    }

    /// A copy of every file of a closed home.
    fn copy_all(&self) -> Self {
        let copy = Self { folder: tempfile::tempdir().expect("folder") };
        for entry in std::fs::read_dir(self.folder.path()).expect("folder") {
            let path = entry.expect("entry").path();
            std::fs::copy(&path, copy.folder.path().join(path.file_name().expect("name"))).expect("copy");
        }
        copy
    }

    /// A copy of a settled home.
    fn copy(&self) -> Self {
        let copy = Self { folder: tempfile::tempdir().expect("folder") };
        for name in ["ledger.db", "state.db", "high-water", "log.key", "epoch.key"] {
            std::fs::copy(self.folder.path().join(name), copy.folder.path().join(name)).expect("copy");
        }
        copy
    }
}

#[expect(clippy::disallowed_methods, reason = "tests edit the files directly")]
fn connect(path: &PathBuf) -> Connection {
    Connection::open(path).expect("database")
}

fn key_draft(id: &str, name: &str, role: &str) -> Draft {
    Draft::untyped(
        Kind::KeyCreate,
        json!({ "id": id, "name": name, "role": role, "hmac": "00", "argon2": "$" }),
    )
}

/// One entry.
fn one(words: &str) -> Vec<Draft> {
    vec![Draft::untyped(Kind::ModelReply, json!({ "text": words }))]
}

/// The entries of a run with one allowed call: request, reply, decision, result, reply.
fn call_drafts(at: usize) -> Vec<Draft> {
    let (run, session, call) = (RunId::generate(), SessionId::generate(), CallId::generate());
    let draft = |kind, payload| Draft {
        run: Some(run.clone()),
        session: Some(session.clone()),
        principal: Some("key:Ab3dEf9h".to_owned()),
        policy: Some(Digest::sha256(b"bundle")),
        ..Draft::untyped(kind, payload)
    };
    let of_call =
        |draft: Draft| Draft { call: Some(call.clone()), tool: Some("read_file".to_owned()), ..draft };
    vec![
        draft(Kind::RunRequest, json!({ "message": format!("what says line {at}?") })),
        draft(Kind::ModelReply, json!({ "raw": "\u{e9}\u{1f980}", "calls": [] })),
        Draft {
            decision: Some("allow"),
            policies: vec!["read-logs".to_owned()],
            ..of_call(draft(Kind::CallDecision, json!({ "arguments": { "path": "/var/log/syslog" } })))
        },
        Draft {
            status: Some("ok"),
            answers: Some(Ref::Seq(at as u64 + 3)),
            ..of_call(draft(Kind::CallResult, json!({ "result": { "text": "a line" } })))
        },
        Draft {
            status: Some("done"),
            ..draft(
                Kind::RunReply,
                json!({
                    "run": run, "session": session, "status": "done", "answer": "a line", "steps": [],
                    "usage": { "model_calls": 1, "input_tokens": 0, "output_tokens": 0 },
                }),
            )
        },
    ]
}

/// The signing keys of a log, as an intruder on the host has them.
struct HeldKeys {
    origin: String,
    log: SigningKey,
    epoch_name: String,
    epoch: SigningKey,
}

impl HeldKeys {
    /// Made-up keys, for entries that are never on a disk.
    fn made_up() -> Self {
        let (log, epoch) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let id = checkpoint::log_id(log.verifying_key().as_bytes(), epoch.verifying_key().as_bytes());
        let origin = checkpoint::origin(&id);
        Self { epoch_name: checkpoint::epoch_name(&origin, 1), origin, log, epoch }
    }

    /// The keys in the folder.
    fn new(home: &LedgerHome) -> Self {
        let seed = std::fs::read(home.files().log_key()).expect("log key");
        let line = std::fs::read_to_string(home.folder.path().join("epoch.key")).expect("epoch key");
        let words: Vec<&str> = line.split_whitespace().collect();
        let genesis = Reader::open(&home.files().ledger()).expect("ledger").entry(0).expect("read");
        let origin = checkpoint::origin(&genesis.expect("genesis").header.log);
        Self {
            epoch_name: checkpoint::epoch_name(&origin, words[0].parse().expect("number")),
            origin,
            log: SigningKey::from_bytes(&seed.try_into().expect("32 bytes")),
            epoch: SigningKey::from_bytes(&Digest::from_hex(words[3]).expect("seed").0),
        }
    }

    fn log_id(&self) -> &str {
        self.origin.strip_prefix("par/").expect("origin")
    }

    fn genesis(&self) -> GenesisPayload {
        GenesisPayload {
            origin: self.origin.clone(),
            log_key: VerifierKey::new(self.origin.clone(), &self.log).to_string(),
            epoch_key: VerifierKey::new(self.epoch_name.clone(), &self.epoch).to_string(),
            program: crate::types::VERSION.to_owned(),
            before: None,
        }
    }

    fn sign(&self, head: Head) -> Note {
        let text = Checkpoint { origin: self.origin.clone(), head, extensions: Vec::new() }.text();
        Note::sign(text, &[(&self.origin, &self.log), (&self.epoch_name, &self.epoch)])
    }
}

/// Makes a walk follow an entry in memory.
fn follow(walk: &mut ChainWalk, seq: u64, header: &[u8], salt: &[u8], body: &[u8]) {
    let checked = CheckedEntry::new(header, Some(salt), Some(body), &mut "".into());
    walk.entry(seq, &checked, Some(body));
}

/// Replaces the stored checkpoints by one over all entries, signed with the keys in the folder.
fn replace_checkpoints(home: &LedgerHome) {
    let held = HeldKeys::new(home);
    let db = home.db();
    let mut frontier = tree::Frontier::default();
    let mut statement = db.prepare("SELECT header FROM entry ORDER BY seq").expect("select");
    let headers = statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("rows");
    headers.for_each(|header| frontier.push(tree::leaf(&header.expect("header"))));
    let note = held.sign(Head { size: frontier.size(), root: frontier.root() }).to_string();
    let size = i64::try_from(frontier.size()).expect("size");
    db.execute("DELETE FROM checkpoint", []).expect("delete");
    db.execute(
        "INSERT INTO checkpoint VALUES (?1, ?2, ?3)",
        rusqlite::params![size / 1_024, size, note.as_bytes()],
    )
    .expect("insert");
}

/// The numbers that a report names, each once.
fn named(report: &Verification) -> Vec<u64> {
    let mut seqs: Vec<u64> = report.findings.iter().filter_map(|finding| finding.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    seqs
}

fn assert_verified(home: &LedgerHome) -> Verification {
    let report = home.audit();
    assert!(report.verdict.holds(), "{:?}", report.findings);
    report
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn touch(path: &Path) {
    std::fs::write(path, b"").expect("file");
}
