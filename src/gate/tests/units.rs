//! A rule about a unit binds the tools that read over all units too (L11).

use super::{Bench, EVERYTHING, ended};
use crate::call::{Exclusion, Object};
use crate::gate::Outcome;
use serde_json::json;
use std::path::Path;

const NO_PAYMENTS: &str = "@id(\"no-payments\") forbid(principal, action in PAR::Action::\"read\", resource)
    when { resource == PAR::Service::\"payments.service\" };";
/// The tools that list the units of this host.
const LISTS: [&str; 3] = ["service_list", "failed_units", "timer_list"];

fn bench(rules: &str) -> Bench {
    tokio::task::block_in_place(|| Bench::open(&format!("{EVERYTHING}{rules}")))
}

fn left_out(bench: &Bench, tool: &str) -> (String, Vec<String>) {
    let decided = bench.decide(tool, &json!({}), Object::Fixed);
    let names = decided.payload.exclusions.iter().flatten().map(|one| one.canonical.clone()).collect();
    (decided.word.as_str().to_owned(), names)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_unit_is_left_out_of_the_lists_and_on_record() {
    let bench = bench(NO_PAYMENTS);
    for tool in LISTS {
        let expect = ("allow".to_owned(), vec!["payments.service".to_owned()]);
        assert_eq!(left_out(&bench, tool), expect, "{tool}");
    }
    let decided = bench.decide("service_list", &json!({}), Object::Fixed);
    let Outcome::Permit(permit) = bench.commit(decided).await else { panic!("no permit") };
    let (order, running) = permit.begin().expect("in time");
    let expect = Exclusion { canonical: "payments.service".to_owned(), id: None };
    assert_eq!(order.exclusions(), [expect]);
    let _results = bench.gate.settle(vec![(running, ended(0))], None).await.expect("settled").0;
    let payload = bench.payload(1);
    let told: Vec<_> = payload["beneath"].as_array().expect("a list").iter().collect();
    let told: Vec<_> =
        told.iter().map(|one| json!([one["name"], one["decision"], one["policies"]])).collect();
    let expect = [json!(["\0", "allow", ["all"]]), json!(["payments.service", "deny", ["no-payments"]])];
    assert_eq!(told, expect);
    tokio::task::block_in_place(|| bench.verified());
    let other = bench.decide("service_status", &json!({ "service": "payments.service" }), Object::Fixed);
    assert_eq!((other.word.as_str(), other.payload.beneath.is_none()), ("deny", true));
}

/// The permit for the host covers its units: only a rule that forbids one takes it out.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_for_the_host_covers_its_units() {
    let host = "@id(\"host\") permit(principal, action in PAR::Action::\"read\", resource == PAR::Host::\"localhost\");
        @id(\"one\") permit(principal, action == PAR::Action::\"service_status\", resource == PAR::Service::\"nginx.service\");";
    let bench = tokio::task::block_in_place(|| Bench::open(&format!("{host}{NO_PAYMENTS}")));
    for tool in LISTS {
        assert_eq!(left_out(&bench, tool), ("allow".to_owned(), vec!["payments.service".to_owned()]));
    }
}

/// A rule that no name limits forbids every unit, and nothing is left to list.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_about_all_units_denies_the_lists() {
    let bench = bench(
        "@id(\"none\") forbid(principal, action in PAR::Action::\"read\", resource is PAR::Service)
            unless { resource == PAR::Service::\"nginx.service\" };",
    );
    for tool in LISTS {
        let decided = bench.decide(tool, &json!({}), Object::Fixed);
        let reason = decided.payload.reason.as_deref().unwrap_or_default();
        assert!(decided.word.as_str() == "deny" && reason.contains("units"), "{tool}: {reason}");
    }
}

/// A program prints what it finds. It is denied, and reads no unit under another name.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_reads_all_units_is_denied() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "name = \"log_of_all\"\nsummary = \"Show the log.\"\nclass = \"read\"\nrisk = \"low\"\n\
        command = [\"/bin/true\"]\nruntime = \"dynamic\"\nuntrusted_output = true\n\
        [resource]\ntype = \"Host\"\nis = \"localhost\"\nmembers = \"Service\"\n[sandbox]\n\
        [limits]\nwall_ms_max = 1000\noutput_bytes_max = 1000\nmemory_bytes_max = 100000000\nprocesses_max = 1\n\
        [input]\ntype = \"object\"\nadditionalProperties = false\n";
    std::fs::write(folder.path().join("log_of_all.toml"), text).expect("written");
    let status = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools.d/service_status.toml");
    std::fs::copy(status, folder.path().join("service_status.toml")).expect("copied");
    let open = |rules: &str| {
        let data = tempfile::tempdir().expect("folder");
        crate::ledger::key::make(&crate::ledger::Files::below(data.path()).log_key()).expect("log key");
        Bench::with_tools(data, &format!("{EVERYTHING}{rules}"), folder.path())
    };
    let bench = tokio::task::block_in_place(|| open(NO_PAYMENTS));
    let decided = bench.decide("log_of_all", &json!({}), Object::Fixed);
    let reason = decided.payload.reason.as_deref().unwrap_or_default();
    assert!(decided.word.as_str() == "deny" && reason.contains("exclude some units"), "{reason}");
    let bench = tokio::task::block_in_place(|| open(""));
    assert_eq!(bench.decide("log_of_all", &json!({}), Object::Fixed).word.as_str(), "allow");
}
