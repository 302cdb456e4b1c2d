//! Calls that wait for a person, and what an approval allows.

use super::{Bench, EVERYTHING, ended, found};
use crate::auth::{self, Role};
use crate::gate::{Answer, AnswerError, Approval, Outcome, Recall};
use crate::ledger::AppendError;
use crate::policy::Door;
use serde_json::json;
use std::sync::atomic::Ordering;

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

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_spent_once_and_on_its_own_object_only() {
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
    let yes = Answer { grant: true, card: None, call_hash: Some(approval.call_hash.clone()), reason: None };
    let not_by = bench.gate.answer(&bench.principal, Door::LOCAL, &approval.id, yes.clone()).await;
    assert!(matches!(not_by, Err(AnswerError::MayNot(_))), "{not_by:?}");
    bench.gate.answer(&owner, Door::LOCAL, &approval.id, yes).await.expect("answered");

    // Recalled twice, by two callers that do not know of each other.
    let (first, second) = (bench.again(object()), bench.again(object()));
    let other = bench.again(found("/var/log/auth.log", &[]));
    assert_eq!(
        (first.word.as_str(), second.word.as_str(), other.word.as_str()),
        ("allow", "allow", "needs_approval")
    );
    let Outcome::Permit(permit) = bench.commit(first).await else { panic!("no permit") };
    for late in [second, other] {
        let refused = bench.gate.commit(Vec::new(), vec![late], None).await;
        assert!(
            matches!(&refused, Err(AppendError::Draft(what)) if what.0.contains("is spent")),
            "{refused:?}"
        );
    }
    let (_order, running) = permit.begin().expect("in time");
    let _results = bench.gate.settle(vec![(running, ended(0))], None).await.expect("settled").0;
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
    assert!(matches!(recalled.recall, Recall::Settled(result) if result.seq() == 5), "as its entry has it");
    tokio::task::block_in_place(|| bench.verified());
}
