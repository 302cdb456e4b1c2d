//! Labels: what a result adds is on record with it, and comes from there when the run is recalled.

use super::{Bench, LOGS, found};
use crate::call::{End, Execution, Object};
use crate::gate::{Outcome, ToolResult};
use crate::ledger::{Draft, Kind, Ref};
use crate::types::{CallId, DataLabels};
use serde_json::{Value, json};

const HEALTH: &[u8] = br#"{"verdict":"ok","checks":[],"kernel":"6.1.0-13-amd64"}"#;

impl Bench {
    async fn settled(&self, tool: &str, arguments: &Value, object: Object, stdout: &[u8]) -> ToolResult {
        let Outcome::Permit(permit) = self.commit(self.decide(tool, arguments, object)).await else {
            panic!("no permit")
        };
        let (order, running) = permit.begin().expect("in time");
        drop(order);
        let end = End::Exit { code: 0 };
        let execution = Execution { stdout: stdout.to_vec(), ..Execution::without_output(end) };
        self.gate.settle(vec![(running, execution)], None).await.expect("settled").0.pop().expect("one")
    }

    /// The labels of the calls of the run, read back.
    fn recalled(&self) -> Vec<DataLabels> {
        let reader = self.gate.ledger().reader();
        let is_of_it = |seq: &u64| {
            let stored = reader.entry(*seq).expect("read").expect("there");
            stored.header.str("run") == Some(self.run.as_str())
        };
        let seqs: Vec<u64> = (1..self.gate.ledger().head().size).filter(is_of_it).collect();
        let calls = self.gate.recall(&self.run, &seqs).expect("recalled");
        calls.into_iter().map(|call| call.record.labels).collect()
    }

    pub(super) fn labels(&self, seq: u64) -> Option<DataLabels> {
        self.gate.ledger().reader().entry(seq).expect("read").expect("there").header.labels()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_result_matches_its_schema() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let none = json!({});
    for (stdout, mismatch) in [
        (HEALTH, Value::Null),
        (
            br#"{"verdict":"ok","checks":[],"kernel":"do as I say"}"#,
            json!("`/kernel` is not as the output schema says"),
        ),
        (br#"{"verdict":"ok"}"#, json!("`/checks` is missing")),
        (
            br#"{"verdict":"ok","checks":[],"do this":1}"#,
            json!("`/` has a member that the output schema does not name"),
        ),
    ] {
        let result = bench.settled("health_check", &none, Object::Fixed, stdout).await;
        assert_eq!(bench.payload(result.seq())["mismatch"], mismatch);
        let expect = if mismatch.is_null() { DataLabels::default() } else { DataLabels::untrusted() };
        assert_eq!(bench.labels(result.seq()), Some(expect.clone()), "{mismatch}");
        assert_eq!(result.record().labels, expect);
        assert_eq!(result.text().contains("untrusted data"), !mismatch.is_null(), "the model is warned");
    }
    bench.verified();
}

/// NEXT 7: the record decides, so that no later manifest launders what a run has read.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_manifest_changes_no_label() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let read = bench
        .settled("read_file", &json!({ "path": "/var/log/x" }), found("/var/log/x", &[]), b"{\"a\":1}")
        .await;
    let health = bench.settled("health_check", &json!({}), Object::Fixed, HEALTH).await;
    assert_eq!(bench.recalled(), [DataLabels::untrusted(), DataLabels::default()]);

    // The same tools, with every promise turned around.
    let folder = tempfile::tempdir().expect("folder");
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d");
    for name in ["read_file", "health_check"] {
        let file = format!("{name}.toml");
        let text = std::fs::read_to_string(shipped.join(&file)).expect("manifest");
        let (without, had) = match text.split_once("[output_schema]") {
            Some((head, _)) => (head.replace("untrusted_output = false", "untrusted_output = true"), true),
            None => (text.replace("untrusted_output = true", "untrusted_output = false"), false),
        };
        let open = "\n[output_schema]\ntype = \"object\"\nadditionalProperties = false\n\
                    properties.a = { type = \"integer\" }\n";
        let turned = if had { without } else { without + open };
        std::fs::write(folder.path().join(file), turned).expect("written");
    }
    let other = tokio::task::block_in_place(|| {
        let data = tempfile::tempdir().expect("folder");
        crate::ledger::key::make(&crate::ledger::Files::below(data.path()).log_key()).expect("log key");
        Bench::with_tools(data, LOGS, folder.path())
    });
    let rules = other.gate.rules();
    let load = Draft { policy: Some(rules.bundle.digest()), ..Draft::untyped(Kind::PolicyLoad, json!({})) };
    bench.gate.exchange(rules, vec![load], || {}).await.expect("exchanged");
    assert_eq!(bench.recalled(), [DataLabels::untrusted(), DataLabels::default()]);
    assert!(read.record().labels.is_tainted() && !health.record().labels.is_tainted());
}

/// L1: an entry of an earlier version has no labels, and counts as untrusted.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_without_labels_counts_as_untrusted() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let rules = bench.gate.rules();
    let manifest = rules.catalog.find("health_check").expect("shipped").digest;
    let common = || Draft {
        run: Some(bench.run.clone()),
        session: Some(bench.session_id.clone()),
        policy: Some(rules.bundle.digest()),
        manifest: Some(manifest),
        tool: Some("health_check".to_owned()),
        ..Draft::untyped(Kind::CallDecision, json!({ "proposed_id": "1", "arguments": {} }))
    };
    let call = Some(CallId::generate());
    let decision = Draft { call: call.clone(), decision: Some("allow"), ..common() };
    let payload = json!({
        "end": { "end": "exit", "code": 0 }, "result": { "verdict": "ok" }, "truncated": false, "layers": [],
        "wall_us": 1,
    });
    let result = Draft {
        body: Draft::untyped(Kind::CallResult, payload).body,
        call,
        answers: Some(Ref::Sibling(0)),
        status: Some("ok"),
        ..common()
    };
    let _receipts = bench.gate.ledger().append(vec![decision, result]).await.expect("appended");
    assert_eq!(bench.labels(2), None);
    assert_eq!(bench.recalled(), [DataLabels::untrusted()]);
}

/// L1: a decision has the labels of all that the session had read.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_carries_the_labels_of_its_session() {
    let mut bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let first = bench.settled("health_check", &json!({}), Object::Fixed, HEALTH).await;
    bench.session.taint = DataLabels::untrusted().taint;
    let second = bench.settled("health_check", &json!({}), Object::Fixed, HEALTH).await;
    let of = |result: &ToolResult| bench.labels(result.record().decision_seq);
    assert_eq!((of(&first), of(&second)), (Some(DataLabels::default()), Some(DataLabels::untrusted())));
    assert_eq!(bench.labels(second.seq()), Some(DataLabels::default()), "what this result adds");
}
