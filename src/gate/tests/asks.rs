//! Requests to a model: decided with what the run has read, in the commits that are made anyway.

use super::{Bench, ended, found};
use crate::gate::{AskOutcome, ModelAsk};
use crate::ledger::Draft;
use crate::types::{DataLabels, ModelSink};

const MODELS: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);
    @id(\"models\") permit(principal, action == PAR::Action::\"model.ask\", resource);
    @id(\"clean\") forbid(principal, action == PAR::Action::\"model.ask\", resource == PAR::Sink::\"model:cloud\")
        when { principal.taint.contains(\"untrusted\") || principal.seen.contains(\"payroll\") };";

fn sink(name: &str) -> ModelSink {
    ModelSink {
        name: name.to_owned(),
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        host: "127.0.0.1:8080".to_owned(),
        reply_tokens_max: 100,
    }
}

fn ask<'a>(bench: &'a Bench, name: &str, labels: DataLabels) -> ModelAsk<'a> {
    ModelAsk {
        context: bench.asking(),
        sink: sink(name),
        labels,
        bytes: 300,
        results_bytes_max: 10_000,
        fallback_of: None,
    }
}

fn is_permit(outcome: Option<AskOutcome>) -> bool {
    matches!(outcome.expect("decided"), AskOutcome::Permit(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_decided_with_every_label_of_what_is_sent() {
    let bench = tokio::task::block_in_place(|| Bench::open(MODELS));
    let seen = DataLabels { seen: ["payroll".to_owned()].into(), ..DataLabels::default() };
    for (name, labels, allowed) in [
        ("cloud", DataLabels::default(), true),
        ("cloud", DataLabels::untrusted(), false),
        ("cloud", seen.clone(), false),
        ("local", seen, true),
    ] {
        let (_, outcome) =
            bench.gate.ask_model(Vec::new(), Some(ask(&bench, name, labels.clone()))).await.expect("asked");
        assert_eq!(is_permit(outcome), allowed, "{name} {labels:?}");
    }
    let words = ["allow", "deny policy", "deny policy", "allow"].map(|word| format!("model.ask {word}"));
    assert_eq!(bench.told(), words);
    tokio::task::block_in_place(|| bench.verified());
}

/// What the calls of the last group return counts for the request that is recorded with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_rides_with_the_results_that_it_sends() {
    let bench = tokio::task::block_in_place(|| Bench::open(MODELS));
    let settled = async |name: &str, results_bytes_max: usize| {
        let (_order, running) = bench.permit().await.begin().expect("in time");
        let next = ModelAsk { results_bytes_max, ..ask(&bench, name, DataLabels::default()) };
        bench.gate.settle(vec![(running, ended(0))], Some(next)).await.expect("settled")
    };
    let (results, next) = settled("cloud", 10_000).await;
    assert_eq!(results.len(), 1);
    assert!(!is_permit(next), "the result is untrusted");
    let (results, next) = settled("local", 10_000).await;
    let Some(AskOutcome::Permit(permit)) = next else { panic!("{next:?}") };
    assert!(permit.allows(&sink("local"), &results[0].record().labels), "its labels are covered");
    assert!(!permit.allows(&sink("cloud"), &DataLabels::default()), "another model");
    let more = DataLabels { seen: ["payroll".to_owned()].into(), ..DataLabels::untrusted() };
    assert!(!permit.allows(&sink("local"), &more), "more labels than it was decided with");
    // What would be too long is not asked for.
    let (_, next) = settled("local", 3).await;
    assert!(next.is_none(), "{next:?}");
    let told = bench.told();
    assert_eq!(
        told,
        [
            "call.decision allow",
            "call.result ok of 1",
            "model.ask deny policy",
            "call.decision allow",
            "call.result ok of 4",
            "model.ask allow",
            "call.decision allow",
            "call.result ok of 7"
        ]
    );
    assert_eq!(bench.labels(6), Some(DataLabels::untrusted()));
}

/// A request that only refused calls precede rides with their decisions.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_rides_with_refusals() {
    let bench = tokio::task::block_in_place(|| Bench::open(MODELS));
    let denied =
        || bench.decide("read_file", &serde_json::json!({ "path": "/x" }), crate::call::Object::Outside);
    let next = ask(&bench, "local", DataLabels::default());
    let (outcomes, next, _) =
        bench.gate.commit(Vec::new(), vec![denied()], Some(next)).await.expect("committed");
    assert!(outcomes.len() == 1 && is_permit(next));
    let next = ask(&bench, "local", DataLabels::default());
    let both = vec![denied(), bench.read(found("/var/log/syslog", &[]))];
    let (outcomes, next, _) = bench.gate.commit(Vec::new(), both, Some(next)).await.expect("committed");
    assert!(outcomes.len() == 2 && next.is_none(), "one of them runs first");
}

/// Rules that come into force stop a request that was allowed before and not sent yet (L7).
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_the_rules_ends_a_permission() {
    let bench = tokio::task::block_in_place(|| Bench::open(MODELS));
    let next = ask(&bench, "local", DataLabels::default());
    let (_, outcome) = bench.gate.ask_model(Vec::new(), Some(next)).await.expect("asked");
    let Some(AskOutcome::Permit(permit)) = outcome else { panic!("{outcome:?}") };
    assert!(permit.allows(&sink("local"), &DataLabels::default()));
    let drafts = vec![Draft::untyped(crate::ledger::Kind::PolicyLoad, serde_json::json!({}))];
    bench.gate.exchange(bench.gate.rules(), drafts, || ()).await.expect("exchanged");
    assert!(!permit.allows(&sink("local"), &DataLabels::default()));
}
