//! A ledger with any number of decisions, each made by the rules of a home, none of them executed.

use par::auth::{self, Role, Source, Subject};
use par::config::{Config, Home};
use par::ledger::payload::{CallDecisionPayload, PolicyLoadPayload};
use par::ledger::{Draft, Files, Ledger, Lock, Payload, Projection};
use par::policy::{Approved, Bundle, Counts, Question, Resource, Session};
use par::tools::{Catalog, Manifest};
use par::types::{CallId, KeyId, RunId, SessionId};
use par::{agent, gate, rules};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

static PROJECTIONS: [Projection; 3] = [auth::PROJECTION, gate::PROJECTION, agent::PROJECTION];

/// Decisions of one commit.
const BATCH: usize = 2_000;
/// Decisions of one session.
const SESSION: usize = 10;

const FILES: [&str; 8] = [
    "/var/log/syslog",
    "/var/log/auth.log",
    "/var/log/nginx/access.log",
    "/var/log/nginx/error.log",
    "/var/log/wtmp",
    "/srv/other/notes.txt",
    "/etc/shadow",
    "/var/log/journal/a/b/c.journal",
];

/// A recorded decision.
pub struct Made {
    pub seq: u64,
    pub word: &'static str,
    /// The path that it was about, if any.
    pub path: Option<&'static str>,
}

/// Appends `decisions` decisions to the ledger of `home`, under its rules, after a `policy.load`.
pub fn write(home: &Path, decisions: usize) -> Vec<Made> {
    let home = Home::locate(Some(home), None).expect("home");
    let config = Config::load(home).expect("configuration");
    let rules = rules::load_rules(&config).expect("rules");
    rules::keep_bundle(&config.home.data, &rules.bundle).expect("kept");
    let files = Files { free_bytes_min: 0, ..Files::below(&config.home.data) };
    let lock = Lock::take(&files, Duration::from_secs(5)).expect("lock");
    let ledger = Ledger::open(files, lock, &PROJECTIONS).expect("ledger");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    let digest = rules.bundle.digest();
    let load = Draft {
        policy: Some(digest),
        ..Draft::new(read::<PolicyLoadPayload>(json!({ "digest": digest.hex(), "policies": [] })))
    };
    let first = runtime.block_on(ledger.append_one(load)).expect("appended").seq() + 1;
    let mut made = Vec::with_capacity(decisions);
    let mut session = SessionId::generate();
    let mut run = RunId::generate();
    for start in (0..decisions).step_by(BATCH) {
        let mut drafts = Vec::new();
        for at in start..decisions.min(start + BATCH) {
            if at % SESSION == 0 {
                (session, run) = (SessionId::generate(), RunId::generate());
            }
            let (draft, path) = decision(at, &session, &rules.catalog, &rules.bundle);
            let word = draft.decision.expect("word");
            made.push(Made { seq: first + at as u64, word, path });
            drafts.push(Draft { run: Some(run.clone()), session: Some(session.clone()), ..draft });
        }
        let _receipts = runtime.block_on(ledger.append(drafts)).expect("appended");
    }
    made
}

/// The payload of these members.
fn read<P: Payload>(members: Value) -> P {
    serde_json::from_value(members).expect("a payload")
}

/// The decision `at`: subject, tool and object follow from the number alone.
fn decision(
    at: usize,
    session: &SessionId,
    catalog: &Catalog,
    bundle: &Bundle,
) -> (Draft, Option<&'static str>) {
    let subject = subject(at);
    let tool = ["read_file", "tail_file", "read_file", "health_check", "list_dir", "deploy"][at / 3 % 6];
    let manifest = catalog.find(tool).expect("tool");
    let path = (manifest.resource.kind() == "Path").then(|| FILES[at * 7 / 5 % FILES.len()]);
    let head = |word: &'static str, payload: Value| Draft {
        call: Some(CallId::generate()),
        principal: Some("key:Ab3dEf9h".to_owned()),
        policy: Some(bundle.digest()),
        manifest: Some(manifest.digest),
        decision: Some(word),
        tool: Some(tool.to_owned()),
        ..Draft::new(read::<CallDecisionPayload>(payload))
    };
    match at % 50 {
        7 => {
            let payload = json!({ "arguments_raw": "{", "proposed_id": "", "reason": "no JSON" });
            return (Draft { manifest: None, ..head("invalid", payload) }, None);
        }
        8 => {
            let payload = json!({ "arguments": {}, "proposed_id": "", "request": {}, "reason": "no", "errors": ["no"] });
            return (head("deny", payload), None);
        }
        _ => {}
    }
    let arguments = arguments(tool, path);
    let verdict = bundle.decide(&Question {
        subject: &subject,
        session: &self::session(session, catalog, at),
        manifest,
        arguments: &arguments,
        resource: &resource(manifest, path),
        approved: Approved::No,
        now_us: 1_790_000_000_000_000 + at as u64 * 1_000_000,
        source_ip: None,
        channel: par::types::Channel::Http,
        counts: Counts { calls_hour: at as i64 % 9, ..Counts::default() },
        origins: None,
        is_chosen: false,
        is_halted: false,
    });
    let mut payload = json!({ "arguments": arguments, "proposed_id": "", "request": verdict.request });
    if !verdict.answer.errors().is_empty() {
        payload["errors"] = json!(verdict.answer.errors());
    }
    if let Some(shadow) = &verdict.shadow {
        payload["shadow"] = json!(shadow.record());
    }
    let draft = head(verdict.answer.word(), payload);
    (Draft { policies: verdict.answer.policies().to_vec(), ..draft }, path)
}

fn subject(at: usize) -> Subject {
    let id = KeyId::parse("Ab3dEf9h").expect("id");
    let role = [Role::Operator, Role::Operator, Role::Admin, Role::Operator, Role::Viewer][at / 11 % 5];
    Subject { source: Source::Key { id, name: "ops".to_owned() }, role, user: Some("ann".to_owned()) }
}

fn session(id: &SessionId, catalog: &Catalog, at: usize) -> Session {
    Session {
        id: id.as_str().to_owned(),
        ceiling: catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
        taint: BTreeSet::new(),
        seen: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: (at % SESSION) as i64,
        budget: 32,
        risk: 0,
    }
}

fn resource(manifest: &Manifest, path: Option<&str>) -> Resource {
    match (&manifest.resource, path) {
        (par::tools::ResourceSpec::Fixed { kind, id }, _) => {
            Resource::Fixed { kind: kind.clone(), id: id.clone() }
        }
        (par::tools::ResourceSpec::Id { kind, .. }, _) => Resource::Id { kind: *kind, id: "demo".to_owned() },
        (par::tools::ResourceSpec::Host { .. }, _) => Resource::host("git.example.com:443"),
        (par::tools::ResourceSpec::Path { .. }, Some(path)) if path.starts_with("/var/log/") => {
            Resource::Path { canonical: path.to_owned(), within: vec!["@logs".to_owned()] }
        }
        (par::tools::ResourceSpec::Path { .. }, path) => {
            Resource::Outside { lexical: path.unwrap_or("/").to_owned() }
        }
    }
}

fn arguments(tool: &str, path: Option<&str>) -> Value {
    match tool {
        "health_check" => json!({}),
        "tail_file" => json!({ "path": path, "lines": 5 }),
        "deploy" => json!({ "project": "demo", "version": "1.0.1" }),
        _ => json!({ "path": path }),
    }
}
