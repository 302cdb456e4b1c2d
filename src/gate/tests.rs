//! The gate over a real ledger, with claims of the sandbox made up by hand: what is believed of them,
//! and what the ledger says of each way that a call can end.

use super::{Answer, AnswerError, Approval, Asking, Decided, Gate, Outcome, Pending, Permit, Recall, Rules};
use crate::auth::{self, Principal, Role};
use crate::call::{
    Connection, Connections, End, Execution, FileId, FileKind, Given, Held, Object, PathObject, Prepared,
};
use crate::ledger::{self, AppendError, Draft, Files, Kind, Ledger, Lock, Projection, key};
use crate::policy::{Bundle, Door, Session, SourceFile};
use crate::secrets::{Finder, Named, Secrets};
use crate::tools::{Catalog, Places, ProposedCall};
use crate::types::{RunId, SessionId};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

mod subtree;
mod content;

static PROJECTIONS: [Projection; 1] = [super::PROJECTION];

/// A gate with the shipped tools over `policies`, and one session at it.
struct Bench {
    data: TempDir,
    gate: Gate,
    principal: Principal,
    run: RunId,
    session_id: SessionId,
    session: Session,
    /// Children that were let go of.
    released: Arc<AtomicU64>,
}

impl Bench {
    fn open(policies: &str) -> Self {
        let data = tempfile::tempdir().expect("folder");
        key::make(&Files::below(data.path()).log_key()).expect("log key");
        Self::over(data, policies)
    }

    fn over(data: TempDir, policies: &str) -> Self {
        Self::with_tools(data, policies, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d"))
    }

    fn with_tools(data: TempDir, policies: &str, folder: &Path) -> Self {
        let files = Files { free_bytes_min: 0, ..Files::below(data.path()) };
        let lock = Lock::take(&files, Duration::from_secs(5)).expect("lock");
        let ledger = Ledger::open(files, lock, &PROJECTIONS).expect("ledger");
        let places = [("logs", "/var/log"), ("workspace", "/nonexistent/workspace")];
        let names = BTreeMap::from(places.map(|(name, path)| (name.to_owned(), path.into())));
        let catalog =
            Catalog::load(folder, &Places { names: names.clone(), private: Vec::new() }).expect("tools");
        let source = SourceFile { name: "p.cedar".to_owned(), text: policies.to_owned() };
        let bundle = Bundle::load(&[source], &catalog, &names.keys().cloned().collect()).expect("bundle");
        let session_id = SessionId::generate();
        let session = Session {
            id: session_id.as_str().to_owned(),
            ceiling: catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
            taint: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: 32,
            risk: 0,
        };
        let principal = auth::local(data.path(), Role::Operator).expect("principal");
        let rules = Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) };
        let gate = Gate::new(ledger, rules, names, Secrets::default()).expect("gate");
        Self { data, gate, principal, run: RunId::generate(), session_id, session, released: Arc::default() }
    }

    fn asking(&self) -> Asking<'_> {
        Asking {
            principal: &self.principal,
            run: &self.run,
            session_id: &self.session_id,
            session: &self.session,
            source_ip: None,
            said: None,
        }
    }

    fn pending(&self, tool: &str, arguments: &Value) -> Pending {
        let proposed = ProposedCall {
            id: "call-of-the-model".to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
        };
        self.gate.open(self.gate.validate(&self.asking(), proposed).expect("valid"))
    }

    fn decide(&self, tool: &str, arguments: &Value, object: Object) -> Decided {
        let released = self.released.clone();
        let release = move |id: u64| {
            released.fetch_add(id, Ordering::SeqCst);
        };
        let held = Held::new(1, Arc::new(release));
        self.gate.decide(&self.asking(), self.pending(tool, arguments), Prepared { object, held })
    }

    fn read(&self, object: Object) -> Decided {
        self.decide("read_file", &json!({ "path": "/var/log/as/the/model/wrote/it" }), object)
    }

    async fn commit(&self, decided: Decided) -> Outcome {
        self.gate.commit(Vec::new(), vec![decided]).await.expect("committed").pop().expect("one")
    }

    async fn permit(&self) -> Permit {
        match self.commit(self.read(found("/var/log/syslog", &[]))).await {
            Outcome::Permit(permit) => *permit,
            other => panic!("no permit: {other:?}"),
        }
    }

    /// Kind, decision, status and `ref` of each entry behind genesis.
    fn told(&self) -> Vec<String> {
        let ledger = self.gate.ledger();
        let entry = |seq| ledger.reader().entry(seq).expect("read").expect("there").header;
        (1..ledger.head().size)
            .map(|seq| {
                let header = entry(seq);
                let word = |name: &str| header.str(name).map(|word| format!(" {word}")).unwrap_or_default();
                let answers = header.u64("ref").map(|seq| format!(" of {seq}")).unwrap_or_default();
                format!("{}{}{}{answers}", header.kind, word("decision"), word("status"))
            })
            .collect()
    }

    fn payload(&self, seq: u64) -> Value {
        let stored = self.gate.ledger().reader().entry(seq).expect("read").expect("there");
        serde_json::from_slice(&stored.body.expect("body")).expect("JSON")
    }

    fn open_calls(&self) -> i64 {
        let count = |state: &rusqlite::Connection| {
            state.query_row("SELECT count(*) FROM open_call", [], |row| row.get(0))
        };
        self.gate.ledger().state(count).expect("state")
    }

    /// Waits until the ledger has `size` entries: what a drop records is not waited for.
    fn wait_for(&self, size: u64) {
        let ledger = self.gate.ledger();
        // The queue is in order: once this one is written, what was queued before it is too.
        let _receipts =
            ledger.append_blocking(vec![Draft::untyped(Kind::Stop, json!({}))]).expect("appended");
        assert_eq!(ledger.head().size, size + 1);
    }

    fn verified(&self) {
        let files = self.gate.ledger().files();
        let report = ledger::audit(files, &PROJECTIONS, &[]);
        assert!(report.verdict.holds(), "{:?}", report.findings);
    }
}

/// A decision made before the rules were exchanged allows nothing after it, and its child ends.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_under_rules_that_are_gone_is_a_deny() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let other = tokio::task::block_in_place(|| Bench::open(LOGS)).gate.rules();
    let digest = other.bundle.digest();
    let (early, again) = (
        bench.read(found("/var/log/syslog", &[])),
        bench.pending("read_file", &json!({ "path": "/var/log/x" })),
    );
    let load = Draft { policy: Some(digest), ..Draft::untyped(Kind::PolicyLoad, json!({})) };
    let mut prepared = false;
    let receipts = bench.gate.exchange(other, vec![load], || prepared = true).await.expect("exchanged");
    assert!(prepared && receipts.len() == 1);
    match bench.commit(early).await {
        Outcome::Refused(result) => {
            assert_eq!(result.record().decision.as_str(), "deny");
            let payload = bench.payload(result.seq());
            assert_eq!(payload["reason"], super::rules::STALE);
            let header =
                bench.gate.ledger().reader().entry(result.seq()).expect("read").expect("there").header;
            assert_eq!(header.str("policy"), Some(digest.hex().as_str()));
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(bench.released.load(Ordering::SeqCst), 1, "its child is let go of");
    // Opened before, prepared and decided after: under the old rules too, so a deny.
    let held = Held::new(7, Arc::new(|_| {}));
    let late = bench.gate.decide(&bench.asking(), again, Prepared { object: found("/var/log/x", &[]), held });
    assert!(matches!(bench.commit(late).await, Outcome::Refused(_)));
    // And the same call, asked again, is decided under the new ones.
    assert!(matches!(bench.commit(bench.read(found("/var/log/syslog", &[]))).await, Outcome::Permit(_)));
    bench.verified();
}

/// Where an exchange cannot be recorded, nothing is exchanged.
#[tokio::test(flavor = "multi_thread")]
async fn rules_that_cannot_be_recorded_do_not_count() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let other = tokio::task::block_in_place(|| Bench::open(LOGS)).gate.rules();
    let before = bench.gate.rules().bundle.digest();
    let broken = Draft::untyped(Kind::PolicyLoad, json!({ "no number of the ledger": 0.00001 }));
    let mut prepared = false;
    assert!(bench.gate.exchange(other, vec![broken], || prepared = true).await.is_err());
    assert!(!prepared && bench.gate.rules().bundle.digest() == before);
}

const THRICE: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);
    @id(\"thrice\") forbid(principal, action == PAR::Action::\"health_check\", resource)
        when { context.call.calls_hour >= 3 };
    @id(\"rest\") forbid(principal, action == PAR::Action::\"read_file\", resource)
        when { context.call.failed_ago_s < 600 };";

fn health(bench: &Bench) -> Decided {
    bench.decide("health_check", &json!({}), Object::Fixed)
}

/// Of many calls at once no more are allowed than a policy counts, also after a start.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_than_a_policy_counts() {
    let bench = tokio::task::block_in_place(|| Bench::open(THRICE));
    // What is allowed and never committed is given back.
    let dropped: Vec<Decided> = (0..64).map(|_| health(&bench)).collect();
    assert_eq!(dropped.iter().filter(|one| one.word.as_str() == "allow").count(), 3);
    drop(dropped);
    let allowed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let decided: Vec<Decided> = (0..8).map(|_| health(&bench)).collect();
                allowed
                    .lock()
                    .expect("lock")
                    .extend(decided.into_iter().filter(|one| one.word.as_str() == "allow"));
            });
        }
    });
    let allowed = allowed.into_inner().expect("lock");
    assert_eq!(allowed.len(), 3);
    let numbers: BTreeSet<i64> = allowed
        .iter()
        .map(|one| json!(one.payload)["request"]["context"]["call"]["calls_hour"].as_i64().expect("a number"))
        .collect();
    assert_eq!(numbers, BTreeSet::from([0, 1, 2]), "the numbers used stand in the decisions");
    for one in allowed {
        assert!(matches!(bench.commit(one).await, Outcome::Permit(_)));
    }
    assert_eq!(health(&bench).word.as_str(), "deny");
    let Bench { data, gate, .. } = bench;
    drop(gate);
    let again = tokio::task::block_in_place(|| Bench::over(data, THRICE));
    assert_eq!(health(&again).word.as_str(), "deny", "the ledger has them");
}

/// A call that did not end well counts, also after a start.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_remembered() {
    let bench = tokio::task::block_in_place(|| Bench::open(THRICE));
    let (_, slip) = bench.permit().await.begin().expect("in time");
    assert_eq!(bench.read(found("/var/log/syslog", &[])).word.as_str(), "allow");
    let ran = vec![(slip, Execution { end: End::Exit { code: 1 }, ..ended(0) })];
    let _results = bench.gate.settle(ran).await.expect("settled");
    assert_eq!(bench.read(found("/var/log/syslog", &[])).word.as_str(), "deny");
    let Bench { data, gate, .. } = bench;
    drop(gate);
    let again = tokio::task::block_in_place(|| Bench::over(data, THRICE));
    assert_eq!(again.read(found("/var/log/syslog", &[])).word.as_str(), "deny");
}

const LOGS: &str =
    "@id(\"logs\") permit(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"@logs\");
    @id(\"health\") permit(principal, action == PAR::Action::\"health_check\", resource);";
const EVERYTHING: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);";

fn found(canonical: &str, within: &[&str]) -> Object {
    Object::Path(PathObject {
        canonical: canonical.to_owned(),
        id: FileId { dev: u64::MAX, ino: u64::MAX },
        kind: FileKind::File,
        within: within.iter().map(|name| (*name).to_owned()).collect(),
        beneath: Vec::new(),
        unseen: Vec::new(),
    })
}

fn absent(folder: &str, rest: &str) -> Object {
    Object::Absent { folder: folder.to_owned(), rest: rest.to_owned() }
}

fn ended(code: i32) -> Execution {
    Execution { stdout: b"{\"text\":\"a line\"}".to_vec(), ..Execution::without_output(End::Exit { code }) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_believed_only_inside_the_roots() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let mut allowed = 0;
    for (object, expect) in [
        (found("/var/log/syslog", &[]), "allow"),
        (found("/var/log", &[]), "allow"),
        (absent("/var/log", "new/file"), "allow"),
        (absent("/var/log/", "new"), "allow"),
        (found("/etc/shadow", &[]), "deny"),
        (found("/var/logs/x", &[]), "deny"),
        (found("/var/lo", &[]), "deny"),
        (found("/", &[]), "deny"),
        (found("", &[]), "deny"),
        (found("var/log/x", &[]), "deny"),
        (found("/var/log/../../etc/shadow", &[]), "deny"),
        (found("/var/log/./syslog", &[]), "deny"),
        (found("/var/log//syslog", &[]), "deny"),
        (found("/var/log/syslog/", &[]), "deny"),
        (absent("/var/log", "../../etc/shadow"), "deny"),
        (absent("/var/log", "a/../b"), "deny"),
        (absent("/var/log", "a//b"), "deny"),
        (absent("/var/log", "/etc/shadow"), "deny"),
        (absent("/var/log", ""), "deny"),
        (absent("/var/log/..", "log/x"), "deny"),
        (absent("/etc", "shadow"), "deny"),
        (Object::Outside, "deny"),
        (Object::Fixed, "deny"),
    ] {
        let words = format!("{object:?}");
        match bench.commit(bench.read(object)).await {
            Outcome::Permit(permit) => {
                assert_eq!(expect, "allow", "{words}");
                allowed += 1;
                let (order, running) = (*permit).begin().expect("in time");
                drop(order);
                let settled = bench.gate.settle(vec![(running, ended(0))]).await.expect("settled");
                assert_eq!(settled[0].record().status.as_str(), "ok");
            }
            Outcome::Refused(result) => {
                assert_eq!(expect, "deny", "{words}");
                assert_eq!(
                    (result.record().decision.as_str(), result.record().status.as_str()),
                    ("deny", "refused")
                );
                let told = &result.record().result["error"];
                if !words.starts_with("Fixed") {
                    assert_eq!(told, "not permitted or not found", "{words}");
                }
            }
            Outcome::Wait(_) => panic!("{words}"),
        }
    }
    assert_eq!(allowed, 4);
    assert_eq!(bench.released.load(Ordering::SeqCst), 23, "every child was let go of, once");
    // And the reverse: a tool that has no path is given one.
    for object in [found("/var/log/syslog", &[]), absent("/var/log", "x"), Object::Outside] {
        let outcome = bench.commit(bench.decide("health_check", &json!({}), object)).await;
        assert!(matches!(outcome, Outcome::Refused(_)));
    }
    let outcome = bench.commit(bench.decide("health_check", &json!({}), Object::Fixed)).await;
    assert!(matches!(outcome, Outcome::Permit(_)));
    drop(outcome);
    bench.verified();
}

/// Names that hold the object count only where prepare was asked about them.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_asked_about_permits_nothing() {
    let policies = "@id(\"srv\") permit(principal, action, resource in PAR::Path::\"/srv\");
        @id(\"space\") permit(principal, action, resource in PAR::Path::\"@workspace\");";
    let bench = tokio::task::block_in_place(|| Bench::open(policies));
    let allows = async |within: &[&str]| {
        let outcome = bench.commit(bench.read(found("/var/log/syslog", within))).await;
        matches!(outcome, Outcome::Permit(_))
    };
    assert!(allows(&["/srv"]).await, "a name that was asked about, such as a bind mount");
    assert!(allows(&["/srv", "/srv", "/srv"]).await, "told more than once");
    assert!(allows(&["/nonexistent/workspace"]).await, "the folder behind a name of [paths]");
    for claim in [&["@workspace"][..], &["/srv/"], &["/"], &["@srv"], &["/nonexistent"], &[]] {
        assert!(!allows(claim).await, "{claim:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_is_on_the_ledger_in_its_order() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let calls = ["/var/log/a", "/etc/shadow", "/var/log/b", "/var/log/c"];
    let decided = calls.iter().map(|path| bench.read(found(path, &[]))).collect();
    let before = vec![Draft::untyped(Kind::ModelReply, json!({}))];
    let outcomes = bench.gate.commit(before, decided).await.expect("committed");
    let mut running = Vec::new();
    for (at, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Outcome::Permit(permit) => {
                let (order, slip) = permit.begin().expect("in time");
                assert_eq!(order.decision(), at as u64 + 2);
                running.push(slip);
            }
            Outcome::Refused(result) => assert_eq!((at, result.seq()), (1, 3)),
            Outcome::Wait(_) => panic!("nobody is asked"),
        }
    }
    assert_eq!(bench.open_calls(), 3);
    // Settled in another order than decided: each result answers its own decision.
    running.reverse();
    let ends = [End::Timeout, End::Exit { code: 3 }, End::Signal { signal: 9 }];
    let ran =
        running.into_iter().zip(ends).map(|(slip, end)| (slip, Execution { end, ..ended(0) })).collect();
    let results = bench.gate.settle(ran).await.expect("settled");
    let told: Vec<_> =
        results.iter().map(|r| (r.seq(), r.record().decision_seq, r.record().status.as_str())).collect();
    assert_eq!(told, [(6, 5, "timeout"), (7, 4, "error"), (8, 2, "signal")]);
    assert_eq!(
        bench.told(),
        [
            "model.reply",
            "call.decision allow",
            "call.decision deny",
            "call.decision allow",
            "call.decision allow",
            "call.result timeout of 5",
            "call.result error of 4",
            "call.result signal of 2"
        ]
    );
    assert_eq!(bench.open_calls(), 0);
    let object = &bench.payload(2)["object"];
    assert_eq!(object["ino"], u64::MAX.to_string(), "device and inode are kept as text");
    bench.verified();
}

/// What a launcher could make up of times and bytes does not keep the result from the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_made_up_execution_is_recorded_all_the_same() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    for (stdout, code) in [
        (b"{\"n\":0.5}".to_vec(), 0),
        (b"{\"n\":9007199254740993}".to_vec(), i32::MAX),
        (b"{\"a\":1,\"a\":2}".to_vec(), i32::MIN),
        (vec![0xff, 0xfe, 0], 0),
        ("[".repeat(5_000).into_bytes(), 0),
        (vec![b'x'; 5 << 20], 1),
    ] {
        let (order, running) = bench.permit().await.begin().expect("in time");
        drop(order);
        let execution = Execution {
            end: End::Exit { code },
            stdout,
            stderr: vec![0x1b; 100],
            layers: vec!["\u{202e}".to_owned(); 10],
            level: Some(crate::types::Level::Strict),
            protections: [("files".to_owned(), vec!["\u{202e}".to_owned()])].into(),
            connections: Connections {
                told: vec![Connection { to: "\u{1b}[2J".to_owned(), ..Connection::default() }; 64],
                more: 7,
                bytes: 7,
            },
            given: Given { secrets: vec!["\u{202e}".to_owned()], connect: Vec::new() },
            wall_us: u64::MAX,
        };
        let settled = bench.gate.settle(vec![(running, execution)]).await.expect("settled");
        assert_eq!(settled.len(), 1);
    }
    assert_eq!(bench.open_calls(), 0);
    bench.verified();
}

/// A reload while a call runs exchanges what is looked for: the call may print what it was given before.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_a_secret_when_a_call_began_is_replaced_too() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let knows = |value: &str| {
        let named = Named::new("word", value.as_bytes().to_vec().into()).expect("a secret");
        bench
            .gate
            .secrets()
            .exchange(Finder::new(vec![7; 32].into(), vec![named], Vec::new()).expect("a finder"));
    };
    knows("old-password");
    let (order, running) = bench.permit().await.begin().expect("in time");
    knows("new-password");
    drop(order);
    let stdout = b"old-password, new-password".to_vec();
    let execution = Execution { stdout, ..Execution::without_output(End::Exit { code: 0 }) };
    let settled = bench.gate.settle(vec![(running, execution)]).await.expect("settled");
    let told = settled[0].record().result.to_string();
    assert!(!told.contains("password") && told.matches("[secret:word:").count() == 2, "{told}");
    bench.verified();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_is_recorded_as_interrupted() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    drop(bench.permit().await);
    tokio::task::block_in_place(|| bench.wait_for(3));
    let (order, running) = bench.permit().await.begin().expect("in time");
    drop(order);
    drop(running);
    tokio::task::block_in_place(|| bench.wait_for(6));
    let told = ["call.decision allow", "call.result interrupted of 1", "stop", "call.decision allow"];
    assert_eq!(bench.told()[..4], told);
    assert_eq!(bench.told()[4], "call.result interrupted of 4");
    assert_eq!(bench.payload(2)["result"]["error"], "interrupted, outcome unknown");
    assert_eq!((bench.open_calls(), bench.released.load(Ordering::SeqCst)), (0, 2));
    bench.verified();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_does_not_outlive_its_time() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let permit = bench.permit().await;
    let permit = permit.expired();
    let Err(running) = permit.begin() else { panic!("an order came out") };
    assert_eq!(bench.released.load(Ordering::SeqCst), 1, "the waiting child is let go of");
    let late = Execution::without_output(End::Refused { reason: "the permit had expired".to_owned() });
    let results = bench.gate.settle(vec![(running, late)]).await.expect("settled");
    assert_eq!(
        (results[0].record().status.as_str(), results[0].record().decision.as_str()),
        ("refused", "allow")
    );
    assert_eq!(bench.told(), ["call.decision allow", "call.result refused of 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_person_has_no_permit() {
    let policies = format!(
        "{EVERYTHING}@id(\"ask\") @require_approval(\"admins\") forbid(principal, action, resource)
         unless {{ context has call && context.call.approved == \"approved\" }};"
    );
    let bench = tokio::task::block_in_place(|| Bench::open(&policies));
    let Outcome::Wait(waiting) = bench.commit(bench.read(found("/var/log/a", &[]))).await else {
        panic!("it does not wait")
    };
    assert_eq!(
        (waiting.seq(), waiting.record().status.as_str(), waiting.record().decision.as_str()),
        (2, "waiting", "needs_approval")
    );
    assert_eq!(bench.told(), ["call.decision needs_approval", "approval.request of 1"]);
    assert_eq!(bench.released.load(Ordering::SeqCst), 1, "a call that waits holds nothing");
    assert_eq!(bench.payload(2)["groups"], json!(["admins"]));
}

/// A crash between decision and result: the next start settles each open call, once.
impl Bench {
    /// The call that a person was asked about, found again and decided on `object`.
    fn again(&self, object: Object) -> Decided {
        let seqs: Vec<u64> = (1..self.gate.ledger().head().size).collect();
        let recalled = self.gate.recall(&self.run, &seqs).expect("recalled").pop().expect("one");
        let Recall::Again(asked) = recalled.recall else { panic!("nothing to decide: {recalled:?}") };
        let proposed = ProposedCall {
            id: "call-of-the-model".to_owned(),
            tool: recalled.record.tool,
            arguments: recalled.record.arguments.to_string(),
        };
        let valid = self.gate.validate(&self.asking(), proposed).expect("valid");
        let held = Held::new(1, Arc::new(|_| {}));
        self.gate.decide(&self.asking(), self.gate.reopen(valid, asked), Prepared { object, held })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_is_spent_once_and_on_its_own_object_only() {
    let policies = format!(
        "{EVERYTHING}@id(\"ask\") @require_confirm(\"\") \
         forbid(principal, action in PAR::Action::\"call_tool\", resource) \
         unless {{ context.call.approved == \"confirmed\" }}; \
         @id(\"api\") permit(principal in PAR::Role::\"admin\", action in PAR::Action::\"api\", resource); \
         @id(\"run\") permit(principal in PAR::Role::\"operator\", action == PAR::Action::\"run\", resource);"
    );
    let bench = tokio::task::block_in_place(|| Bench::open(&policies));
    let object = || found("/var/log/syslog", &[]);
    assert!(matches!(bench.commit(bench.read(object())).await, Outcome::Wait(_)));
    let (approvals, _) = Approval::list(bench.gate.ledger(), None, 0, 10, |_| true).expect("list");
    let owner = auth::local(bench.data.path(), Role::Admin).expect("owner");
    let [approval] = approvals.as_slice() else { panic!("{approvals:?}") };
    let yes = Answer { grant: true, call_hash: approval.call_hash.clone(), reason: None };
    let not_by = bench.gate.answer(&bench.principal, Door::LOCAL, &approval.id, yes.clone()).await;
    assert!(matches!(not_by, Err(AnswerError::MayNot(_))), "{not_by:?}");
    bench.gate.answer(&owner, Door::LOCAL, &approval.id, yes).await.expect("answered");

    // Recalled twice, by two that do not know of each other.
    let (first, second) = (bench.again(object()), bench.again(object()));
    let other = bench.again(found("/var/log/auth.log", &[]));
    assert_eq!(
        (first.word.as_str(), second.word.as_str(), other.word.as_str()),
        ("allow", "allow", "needs_approval")
    );
    let Outcome::Permit(permit) = bench.commit(first).await else { panic!("no permit") };
    for late in [second, other] {
        let refused = bench.gate.commit(Vec::new(), vec![late]).await;
        assert!(
            matches!(&refused, Err(AppendError::Draft(what)) if what.0.contains("is spent")),
            "{refused:?}"
        );
    }
    let (_order, running) = permit.begin().expect("in time");
    let _results = bench.gate.settle(vec![(running, ended(0))]).await.expect("settled");
    assert_eq!(
        bench.told(),
        [
            "call.decision needs_approval",
            "approval.request of 1",
            "approval.grant of 2",
            "call.decision allow of 3",
            "call.result ok of 4",
        ]
    );
    let seqs: Vec<u64> = (1..bench.gate.ledger().head().size).collect();
    let recalled = bench.gate.recall(&bench.run, &seqs).expect("recalled").pop().expect("one");
    assert!(
        matches!(recalled.recall, Recall::Told(result) if result.seq() == 5),
        "told as its entry holds it"
    );
    tokio::task::block_in_place(|| bench.verified());
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_settles_open_calls_once() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let permits = [bench.permit().await, bench.permit().await];
    // As a crash leaves it: what would be recorded by the drop never is.
    let Bench { data, gate, released, .. } = bench;
    for permit in permits {
        std::mem::forget(permit);
    }
    drop((gate, released));
    // Their slips hold the ledger open in this process: what comes next works on a copy of its files.
    let copy = tempfile::tempdir().expect("folder");
    for name in
        ["ledger.db", "ledger.db-wal", "state.db", "state.db-wal", "high-water", "log.key", "epoch.key"]
    {
        let from = data.path().join(name);
        if from.exists() {
            std::fs::copy(from, copy.path().join(name)).expect("copy");
        }
    }
    let bench = tokio::task::block_in_place(|| Bench::over(copy, LOGS));
    assert_eq!(bench.open_calls(), 2);
    let results = bench.gate.recover().await.expect("recovered");
    let told: Vec<_> =
        results.iter().map(|r| (r.record().decision_seq, r.record().status.as_str())).collect();
    assert_eq!(told, [(1, "interrupted"), (2, "interrupted")]);
    assert_eq!(results[0].record().proposed_id, "call-of-the-model");
    assert_eq!(results[0].record().tool, "read_file");
    assert!(results.iter().all(|one| one.record().taints), "nobody knows what they printed");
    assert_eq!(bench.gate.recover().await.expect("again").len(), 0, "a second time there is nothing to do");
    let told = [
        "call.decision allow",
        "call.decision allow",
        "call.result interrupted of 1",
        "call.result interrupted of 2",
    ];
    assert_eq!(bench.told(), told);
    bench.verified();
    drop(bench.data);
}

proptest! {
    #![proptest_config(crate::types::laws::cases(200))]

    /// Whatever the sandbox claims, nothing outside the permitted folder is allowed.
    #[test]
    fn no_claim_leads_outside(names in prop::collection::vec(prop::sample::select(vec![
        "var", "log", "logs", "lo", "..", ".", "", "etc", "shadow", "\u{e1}", "a\u{301}", "l\u{43e}g", "@logs", "log ", "nonexistent", "workspace",
    ]), 0..6), split in 0_usize..6, is_absolute in prop::bool::weighted(0.9)) {
        thread_local!(static BENCH: Bench = Bench::open(LOGS));
        let path = format!("{}{}", if is_absolute { "/" } else { "" }, names.join("/"));
        let (folder, rest) = names.split_at(split.min(names.len()));
        let is_plain = is_absolute && names.iter().all(|name| !matches!(*name, "" | "." | ".."));
        let expect = is_plain && Path::new(&path).starts_with("/var/log");
        BENCH.with(|bench| {
            let word = |object: Object| {
                let decided = bench.read(object);
                decided.word.as_str()
            };
            prop_assert_eq!(word(found(&path, &[])) == "allow", expect, "{}", &path);
            // Absent below a folder: the same words, as far as the folder itself is inside.
            let folder = format!("/{}", folder.join("/"));
            if word(absent(&folder, &rest.join("/"))) == "allow" {
                prop_assert!(names.iter().all(|name| !matches!(*name, "." | "..")), "{} {:?}", &folder, rest);
                prop_assert!(Path::new(&folder).starts_with("/var/log"), "{}", &folder);
            }
            Ok(())
        })?;
    }
}
