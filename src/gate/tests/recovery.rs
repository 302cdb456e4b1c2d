//! A crash between decision and result.

use super::{Bench, LOGS};

/// The next start settles each open call, once.
#[tokio::test(flavor = "multi_thread")]
async fn recovery_settles_open_calls_once() {
    let bench = tokio::task::block_in_place(|| Bench::open(LOGS));
    let permits = [bench.permit().await, bench.permit().await];
    // As after a crash: what the drop would record is never recorded.
    let Bench { data, gate, released, .. } = bench;
    for permit in permits {
        std::mem::forget(permit);
    }
    drop((gate, released));
    // Their slips keep the ledger open in this process, so the rest works on a copy of its files.
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
    assert!(results.iter().all(|one| one.record().labels.is_tainted()), "their output is unknown");
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
