//! A forecast decides nothing: whatever decides, counts or spends does not know its kind.

use super::{Bench, ended, found};
use crate::auth::{self, Role};
use crate::gate::{Answer, Approval, Outcome};
use crate::ledger::payload::CallForecastPayload;
use crate::ledger::{Draft, Ref};
use crate::policy::Door;
use crate::types::clock::Wall;
use crate::types::{CallId, DataLabels};
use serde_json::json;

const ASKED_ONCE: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);
    @id(\"once\") forbid(principal, action == PAR::Action::\"read_file\", resource)
        when { context.call.calls_hour >= 1 || context.call.failures_hour >= 1 };
    @id(\"ask\") @require_confirm(\"\") forbid(principal, action in PAR::Action::\"call_tool\", resource)
        unless { context.call.approved == \"confirmed\" };
    @id(\"api\") permit(principal in PAR::Role::\"admin\", action in PAR::Action::\"api\", resource);
    @id(\"run\") permit(principal in PAR::Role::\"operator\", action == PAR::Action::\"run\", resource);";

/// A forecast that looks as much like the allowed call as an entry can: its call, its tool, and the
/// grant that the call would spend.
fn forecast(bench: &Bench, call: &CallId, grant: u64) -> Draft {
    let payload = CallForecastPayload {
        arguments: json!({ "path": "/var/log/syslog" }),
        request: json!({}),
        object: None,
        script: None,
        reason: None,
        errors: None,
        advice: None,
    };
    Draft {
        run: Some(bench.run.clone()),
        session: Some(bench.session_id.clone()),
        call: Some(call.clone()),
        answers: Some(Ref::Seq(grant)),
        principal: Some(bench.principal.id()),
        policy: Some(bench.gate.rules().bundle.digest()),
        decision: Some("allow"),
        status: Some("error"),
        tool: Some("read_file".to_owned()),
        labels: Some(DataLabels::default()),
        ..Draft::new(payload)
    }
}

/// Recovery, counters, quotas and approvals after a forecast are those before it (L6).
#[tokio::test(flavor = "multi_thread")]
async fn a_forecast_opens_counts_and_spends_nothing() {
    let bench = tokio::task::block_in_place(|| Bench::open(ASKED_ONCE));
    let object = || found("/var/log/syslog", &[]);
    let Outcome::Wait(waiting) = bench.commit(bench.read(object())).await else { panic!("no question") };
    let call = waiting.record().call.clone();
    let (approvals, _) = Approval::list(bench.gate.ledger(), None, 0, 10, |_| true).expect("list");
    let owner = auth::local(bench.data.path(), Role::Admin).expect("owner");
    let [approval] = approvals.as_slice() else { panic!("{approvals:?}") };
    let yes = Answer { grant: true, card: None, call_hash: Some(approval.call_hash.clone()), reason: None };
    bench.gate.answer(&owner, Door::LOCAL, &approval.id, yes).await.expect("answered");

    let hour = |bench: &Bench| bench.gate.ledger().hour(&bench.principal.id(), Wall::now().0);
    let before = hour(&bench);
    let drafts = (0..9).map(|_| forecast(&bench, &call, 3)).collect();
    let receipts = bench.gate.ledger().append(drafts).await.expect("appended");
    assert_eq!((receipts.len(), hour(&bench)), (9, before), "quotas");
    assert_eq!(bench.open_calls(), 0, "open calls");
    assert!(bench.gate.recover().await.expect("recovered").is_empty(), "recovery");

    // Also after a restart, when everything is read from the ledger.
    let Bench { data, gate, released, run, session_id, session, principal } = bench;
    drop(gate);
    let new = tokio::task::block_in_place(|| Bench::over(data, ASKED_ONCE));
    let bench = Bench { released, run, session_id, session, principal, ..new };
    assert_eq!(hour(&bench), before, "quotas, read from the ledger");
    let seqs: Vec<u64> = (1..bench.gate.ledger().head().size).collect();
    assert_eq!(bench.gate.recall(&bench.run, &seqs).expect("recalled").len(), 1, "the calls of the run");
    let again = bench.again(object());
    assert_eq!(again.word.as_str(), "allow", "the grant is unspent and no call was counted");
    let Outcome::Permit(permit) = bench.commit(again).await else { panic!("no permit") };
    let (_order, running) = permit.begin().expect("in time");
    let results = bench.gate.settle(vec![(running, ended(0))], None).await.expect("settled").0;
    assert_eq!(results.len(), 1);
    tokio::task::block_in_place(|| bench.verified());
}
