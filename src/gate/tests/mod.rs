//! The gate over a real ledger, with hand-made claims of the sandbox: which claims it accepts, and
//! what the ledger records for each way that a call can end.

use super::{CallContext, Decided, Gate, Outcome, Pending, Permit, Recall, Rules};
use crate::auth::{self, Principal, Role};
use crate::call::{End, Execution, FileId, FileKind, Held, Object, PathObject, Prepared};
use crate::ledger::{self, Draft, Files, Kind, Ledger, Lock, Projection, key};
use crate::policy::{Bundle, Session, SourceFile};
use crate::secrets::Secrets;
use crate::tools::{Catalog, Places, ProposedCall};
use crate::types::{RunId, SessionId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

mod cards;
mod repeated;
mod listed;
mod claims;
mod subtree;
mod units;
mod content;
mod ends;
mod recovery;
mod counted;
mod exchanged;
mod halted;
mod approvals;
mod refusals;
mod labels;
mod asks;
mod forecast;
mod reread;

static PROJECTIONS: [Projection; 1] = [super::PROJECTION];

const LOGS: &str =
    "@id(\"logs\") permit(principal, action in PAR::Action::\"read\", resource in PAR::Path::\"@logs\");
    @id(\"health\") permit(principal, action == PAR::Action::\"health_check\", resource);";
const EVERYTHING: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);";

/// A gate with the shipped tools over `policies`, and one session at it.
struct Bench {
    data: TempDir,
    gate: Gate,
    principal: Principal,
    run: RunId,
    session_id: SessionId,
    session: Session,
    /// Children that were released.
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
            seen: BTreeSet::new(),
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

    fn asking(&self) -> CallContext<'_> {
        CallContext {
            principal: &self.principal,
            run: &self.run,
            session_id: &self.session_id,
            session: &self.session,
            source_ip: None,
            channel: crate::types::Channel::Cli,
            message: "look at the log",
            sources: None,
            ceiling: &crate::types::Ceiling::OPEN,
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
        self.gate.commit(Vec::new(), vec![decided], None).await.expect("committed").0.pop().expect("one")
    }

    async fn permit(&self) -> Permit {
        match self.commit(self.read(found("/var/log/syslog", &[]))).await {
            Outcome::Permit(permit) => *permit,
            other => panic!("no permit: {other:?}"),
        }
    }

    /// The call that a person was asked about, read back and decided on `object`.
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

    /// Kind, decision, status and `ref` of each entry after genesis.
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

    /// Waits until the ledger has `size` entries: the entry that a drop records is asynchronous.
    fn wait_for(&self, size: u64) {
        let ledger = self.gate.ledger();
        // The queue is in order: once this entry is written, so is everything that was queued
        // before it.
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
