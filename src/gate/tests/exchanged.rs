//! Rules that are exchanged while calls are under way.

use super::{Bench, EVERYTHING, LOGS, found};
use crate::call::{End, Execution, Held, Prepared};
use crate::gate::{Lapse, Outcome, rules};
use crate::ledger::{Draft, Kind};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A decision made before the rules were exchanged allows nothing afterwards, and its child ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_under_replaced_rules_is_a_deny() {
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
            assert_eq!(payload["reason"], rules::STALE);
            let header =
                bench.gate.ledger().reader().entry(result.seq()).expect("read").expect("there").header;
            assert_eq!(header.str("policy"), Some(digest.hex().as_str()));
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(bench.released.load(Ordering::SeqCst), 1, "its child is let go of");
    // Opened before the exchange, prepared and decided after it: also under the old rules, so a
    // deny.
    let held = Held::new(7, Arc::new(|_| {}));
    let late = bench.gate.decide(&bench.asking(), again, Prepared { object: found("/var/log/x", &[]), held });
    assert!(matches!(bench.commit(late).await, Outcome::Refused(_)));
    // The same call, asked again, is decided under the new rules.
    assert!(matches!(bench.commit(bench.read(found("/var/log/syslog", &[]))).await, Outcome::Permit(_)));
    bench.verified();
}

/// A call that was permitted and has not begun when the rules are exchanged does not begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_under_replaced_rules_does_not_begin() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let other = tokio::task::block_in_place(|| Bench::open(LOGS)).gate.rules();
    let (permit, failing) = (bench.permit().await, bench.permit().await);
    let broken = Draft::untyped(Kind::PolicyLoad, json!({ "no number of the ledger": 0.00001 }));
    assert!(bench.gate.exchange(other.clone(), vec![broken], || ()).await.is_err());
    let (_order, running) = failing.begin().expect("an exchange that failed stops nothing");
    drop(running);
    let digest = other.bundle.digest();
    let load = Draft { policy: Some(digest), ..Draft::untyped(Kind::PolicyLoad, json!({})) };
    let _receipts = bench.gate.exchange(other, vec![load], || ()).await.expect("exchanged");
    let Err((running, lapse)) = permit.begin() else { panic!("it began under replaced rules") };
    assert_eq!(lapse, Lapse::Overtaken);
    let refused = Execution::without_output(End::Refused { reason: lapse.to_string() });
    let results = bench.gate.settle(vec![(running, refused)], None).await.expect("settled").0;
    assert_eq!(results[0].record().status.as_str(), "refused");
    assert!(bench.permit().await.begin().is_ok(), "a permit under the new rules begins");
}

/// If an exchange cannot be recorded, nothing is exchanged.
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
