//! What policies can limit: calls of the last hour, and failures.

use super::{Bench, ended, found};
use crate::call::{End, Execution, Object};
use crate::gate::{Decided, Outcome};
use serde_json::json;
use std::collections::BTreeSet;

const THRICE: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);
    @id(\"thrice\") forbid(principal, action == PAR::Action::\"health_check\", resource)
        when { context.call.calls_hour >= 3 };
    @id(\"rest\") forbid(principal, action == PAR::Action::\"read_file\", resource)
        when { context.call.failed_ago_s < 600 };";

fn health(bench: &Bench) -> Decided {
    bench.decide("health_check", &json!({}), Object::Fixed)
}

/// No more of many concurrent calls are allowed than a policy permits, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_than_a_policy_counts() {
    let bench = tokio::task::block_in_place(|| Bench::open(THRICE));
    // What is allowed and never committed is uncounted again.
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

/// A failed call counts, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_remembered() {
    let bench = tokio::task::block_in_place(|| Bench::open(THRICE));
    let (_, slip) = bench.permit().await.begin().expect("in time");
    assert_eq!(bench.read(found("/var/log/syslog", &[])).word.as_str(), "allow");
    let ran = vec![(slip, Execution { end: End::Exit { code: 1 }, ..ended(0) })];
    let _results = bench.gate.settle(ran, None).await.expect("settled").0;
    assert_eq!(bench.read(found("/var/log/syslog", &[])).word.as_str(), "deny");
    let Bench { data, gate, .. } = bench;
    drop(gate);
    let again = tokio::task::block_in_place(|| Bench::over(data, THRICE));
    assert_eq!(again.read(found("/var/log/syslog", &[])).word.as_str(), "deny");
}
