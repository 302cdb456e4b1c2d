//! Refusals: their class on the ledger, what people read, and what the model reads.

use super::{Bench, LOGS, found};
use crate::call::{Object, UnreadableObject};
use crate::gate::{CallRecord, Outcome, ToolResult};
use crate::tools::ProposedCall;
use crate::types::RefusalClass;
use serde_json::{Value, json};

fn unreadable(canonical: &str, rest: &str) -> Object {
    let Object::Path(at) = found(canonical, &[]) else { panic!("a path") };
    Object::Unreadable(Box::new(UnreadableObject { at, rest: rest.to_owned(), uid: 65_534 }))
}

impl Bench {
    async fn refused(&self, object: Object) -> ToolResult {
        match self.commit(self.read(object)).await {
            Outcome::Refused(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn status(&self, record: &CallRecord) -> Option<String> {
        let stored = self.gate.ledger().reader().entry(record.decision_seq).expect("read").expect("there");
        stored.header.str("status").map(str::to_owned)
    }
}

fn error(result: &ToolResult) -> String {
    let told: Value = serde_json::from_str(&result.text()).expect("JSON");
    assert_eq!(told["error"], told["result"]["error"], "{told}");
    told["error"].as_str().expect("an error").to_owned()
}

/// A1: a file in a permitted folder that the tools' user may not read is not a denial by the rules.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_object_is_reported_if_the_rules_would_allow_it() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    for (rest, act) in [("", "read"), ("access.log", "searched")] {
        let result = bench.refused(unreadable("/var/log/nginx", rest)).await;
        let why = format!("`/var/log/nginx` may not be {act} by the tools' user, uid 65534");
        let record = result.record();
        assert_eq!((record.class, bench.status(record)), (Some(RefusalClass::Host), Some("host".to_owned())));
        assert_eq!((record.result["error"].as_str(), error(&result)), (Some(why.as_str()), why.clone()));
        let payload = bench.payload(record.decision_seq);
        assert_eq!((&payload["object"]["is"], &payload["reason"]), (&json!("unreadable"), &json!(why)));
        assert_eq!(payload["request"], json!({}), "the rules allow it, so this is no decision of theirs");
    }
    bench.verified();
}

/// A1: what the rules do not allow is not there, whatever the rights on it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_object_that_the_rules_deny_is_not_there() {
    let policies = format!(
        "{LOGS} @id(\"no-auth\") forbid(principal, action, resource in PAR::Path::\"/var/log/private\");"
    );
    let bench = tokio::task::block_in_place(|| Bench::open(&policies));
    let denied = [
        unreadable("/etc/shadow", ""),
        unreadable("/root", "x"),
        unreadable("/var/log", "../lib"),
        unreadable("/var/log", "private/keys"),
        Object::Outside,
    ];
    let mut told = Vec::new();
    for object in denied {
        let result = bench.refused(object).await;
        assert_eq!(result.record().class, Some(RefusalClass::Policy));
        assert_eq!(bench.payload(result.record().decision_seq)["object"], json!({ "is": "outside" }));
        told.push(result.text());
    }
    assert_eq!(error(&bench.refused(Object::Outside).await), "not permitted or not found");
    told.dedup();
    assert_eq!(told.len(), 1, "one answer: {told:?}");
    bench.verified();
}

/// A5: the class of a refusal is on the ledger, and a query finds it.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_class() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let path = json!({ "path": "/var/log/x" });
    let context = bench.asking();
    let policy = bench.read(found("/home/x", &[]));
    let busy = bench.pending("read_file", &path);
    let busy = bench.gate.deny_unprepared(&context, busy, RefusalClass::Capacity, "64 calls are running");
    let call = ProposedCall { id: "1".into(), tool: "read_file".into(), arguments: "{}".into() };
    let schema = bench.gate.refuse(&context, bench.gate.validate(&context, call).expect_err("invalid"));
    for decided in [policy, busy, schema] {
        assert!(matches!(bench.commit(decided).await, Outcome::Refused(_)));
    }
    let is = ["call.decision deny policy", "call.decision deny capacity", "call.decision invalid schema"];
    assert_eq!(bench.told(), is);
    let found = |query: &str| {
        let filter = crate::ledger::Filter::parse(query).expect("a query");
        let order = crate::ledger::Order::Ascending;
        let page = bench.gate.ledger().reader().headers(&filter, 0, order, 9, 9).expect("read");
        page.0.iter().map(|header| header.seq).collect::<Vec<_>>()
    };
    assert_eq!(found("decision:deny status:capacity"), [2]);
    assert_eq!(found("status:policy"), [1]);
    bench.verified();
}

/// A5: the model reads that no policy permits the call; people read which rule decided. The same
/// after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn the_model_does_not_learn_which_rule_denied() {
    let policies = format!(
        "{LOGS} @id(\"no-notes\") @advice(\"ask for the summary\") \
         forbid(principal, action, resource in PAR::Path::\"/var/log/notes\");"
    );
    let bench = tokio::task::block_in_place(|| Bench::open(&policies));
    let result = bench.refused(found("/var/log/notes", &["/var/log/notes"])).await;
    assert_eq!(result.record().policies, ["no-notes"]);
    assert!(result.record().result["error"].as_str().expect("an error").contains("no-notes"));
    assert_eq!(error(&result), "no policy permits this call");
    assert!(!result.text().contains("no-notes") && result.text().contains("ask for the summary"));
    let recalled = bench.gate.recall(&bench.run, &[1]).expect("recalled").pop().expect("one");
    assert_eq!(&recalled.record, result.record());
    let crate::gate::Recall::Settled(again) = recalled.recall else { panic!("not settled") };
    assert_eq!(again.text(), result.text());
}
