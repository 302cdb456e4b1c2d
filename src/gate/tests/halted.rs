//! Stops that come between the steps of a call.

use super::{Bench, EVERYTHING, found};
use crate::call::{End, Execution};
use crate::gate::{HaltOrder, Lapse, Outcome};
use crate::types::{RefusalClass, StopScope};
use std::sync::atomic::Ordering;

impl Bench {
    async fn halt(&self, scope: &str) -> u64 {
        let scope = StopScope::parse(scope).expect("scope");
        let order = HaltOrder { scope, reason: "a test asks for it".to_owned(), is_now: false };
        self.gate.halt(&self.principal, None, order).await.expect("halted").seq
    }
}

/// L7: whatever is decided, permitted or asked before a halt, nothing of it begins after it; what
/// is not covered goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_halt_wins_against_every_step_before_begin() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let read = || bench.read(found("/var/log/syslog", &[]));
    let caller = bench.principal.id();
    for scope in ["all", caller.as_str(), "tool:read_file", &format!("session:{}", bench.session_id)] {
        let (decided, permit, kept) = (read(), bench.permit().await, bench.released.load(Ordering::SeqCst));
        let other = bench.halt("tool:list_dir").await;
        let halt = bench.halt(scope).await;
        let Outcome::Refused(early) = bench.commit(decided).await else { panic!("{scope}: not refused") };
        assert_eq!(early.record().class, Some(RefusalClass::Halt), "{scope}");
        assert_eq!(bench.released.load(Ordering::SeqCst), kept + 1, "{scope}: its child is let go of");
        let Err((running, lapse)) = permit.begin() else { panic!("{scope}: it began") };
        assert!(matches!(lapse, Lapse::Stopped(_)), "{lapse}");
        let refused = Execution::without_output(End::Refused { reason: lapse.to_string() });
        let _settled = bench.gate.settle(vec![(running, refused)], None).await.expect("settled");
        let Outcome::Refused(late) = bench.commit(read()).await else { panic!("{scope}: not refused") };
        assert_eq!(late.record().policies, ["par.halted"], "{scope}: on record, so that it replays");
        let lifted = bench.gate.lift(&bench.principal, None, halt, None).await.expect("lifted");
        assert_eq!(lifted.scope.to_string(), scope);
        bench.gate.lift(&bench.principal, None, halt, None).await.expect_err("it is lifted once");
        assert!(bench.permit().await.begin().is_ok(), "{scope}: what no halt covers begins");
        bench.gate.lift(&bench.principal, None, other, None).await.expect("lifted");
    }
    bench.verified();
}

/// A halt that cannot be recorded is not in force, and one that is recorded is in force after a
/// restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_halt_is_what_the_ledger_says() {
    let bench = tokio::task::block_in_place(|| Bench::open(EVERYTHING));
    let kept = bench.halt("tool:list_dir").await;
    let lifted = bench.halt("all").await;
    bench.gate.lift(&bench.principal, None, lifted, Some("enough".to_owned())).await.expect("lifted");
    for (scope, reason) in [("all", ""), ("all", " "), ("all", &"x".repeat(10_000))] {
        let scope = StopScope::parse(scope).expect("scope");
        let order = HaltOrder { scope, reason: reason.to_owned(), is_now: true };
        bench.gate.halt(&bench.principal, None, order).await.expect_err("no reason, or too long");
    }
    let Bench { data, gate, .. } = bench;
    drop(gate);
    let bench = tokio::task::block_in_place(|| Bench::over(data, EVERYTHING));
    let seqs: Vec<u64> = bench.gate.stops().iter().map(|stop| stop.seq).collect();
    assert_eq!(seqs, [kept]);
    assert_eq!(bench.gate.stops()[0].reason, "a test asks for it");
    bench.verified();
}
