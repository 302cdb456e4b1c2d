//! Questions that were asked before, and denials of calls that no policy permits.

use super::{Bench, EVERYTHING, found};
use crate::auth::{self, Role};
use crate::gate::{Answer, Approval, Outcome, State};
use crate::policy::Door;
use crate::types::RefusalClass;
use serde_json::{Value, json};

pub(super) fn asking() -> String {
    format!(
        "{EVERYTHING}@id(\"ask\") @require_confirm(\"\") @expires(\"2h\") \
         forbid(principal, action in PAR::Action::\"call_tool\", resource) \
         unless {{ context.call.approved == \"confirmed\" }}; \
         @id(\"api\") permit(principal in PAR::Role::\"admin\", action in PAR::Action::\"api\", resource);"
    )
}

pub(super) fn refused(outcome: Outcome) -> String {
    let Outcome::Refused(result) = outcome else { panic!("{outcome:?}") };
    result.record().result["error"].as_str().expect("a reason").to_owned()
}

fn approvals(bench: &Bench) -> Vec<Approval> {
    Approval::list(bench.gate.ledger(), None, 0, 10, |_| true).expect("list").0
}

pub(super) async fn refuse(bench: &Bench, approval: &Approval) {
    let owner = auth::local(bench.data.path(), Role::Admin).expect("owner");
    let no = Answer { grant: false, card: approval.card.clone(), call_hash: None, reason: None };
    bench.gate.answer(&owner, Door::LOCAL, &approval.id, no).await.expect("answered");
}

/// While a person has one question about an object, no second one is asked: not by a later call,
/// and not by another call of the same commit.
#[tokio::test(flavor = "multi_thread")]
async fn one_question_is_open_for_an_object() {
    let bench = tokio::task::block_in_place(|| Bench::open(&asking()));
    let read = |path: &str| bench.read(found(path, &[]));
    let both = bench.gate.commit(Vec::new(), vec![read("/var/log/a"), read("/var/log/a")], None).await;
    let mut both = both.expect("committed");
    let second = both.0.pop().expect("two");
    assert!(matches!(both.0.pop(), Some(Outcome::Wait(_))));
    let first = approvals(&bench)[0].clone();
    let expect = format!("already asked: {} is open for the same call of read_file on /var/log/a;", first.id);
    assert!(refused(second).starts_with(&expect));
    let Outcome::Refused(again) = bench.commit(read("/var/log/a")).await else { panic!("not refused") };
    assert_eq!(again.record().class, Some(RefusalClass::Asked), "no person has refused it");
    assert!(refused(Outcome::Refused(again)).starts_with(&expect));
    let other = bench.decide("read_file", &json!({ "path": "/x", "limit": 5 }), found("/var/log/a", &[]));
    let other = refused(bench.commit(other).await);
    assert!(other.contains("is open for a call with other arguments of read_file on /var/log/a;"), "{other}");
    assert!(matches!(bench.commit(read("/var/log/b")).await, Outcome::Wait(_)), "another object");
    let list = json!({ "path": "/var/log/a" });
    let other = bench.decide("list_dir", &list, found("/var/log/a", &[]));
    assert!(matches!(bench.commit(other).await, Outcome::Wait(_)), "another tool");
    assert_eq!(approvals(&bench).len(), 3);
    // A denied call has no policies, and a replay does not repeat it.
    let header = |seq| bench.gate.ledger().reader().entry(seq).expect("read").expect("there").header;
    assert_eq!((header(4).str("decision"), header(4).fields.contains_key("policies")), (Some("deny"), false));
    tokio::task::block_in_place(|| bench.verified());
}

/// A refusal holds for an hour against the same call, after a restart too.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_holds_against_the_same_call() {
    let bench = tokio::task::block_in_place(|| Bench::open(&asking()));
    let read = |bench: &Bench, path: &str| bench.read(found(path, &[]));
    assert!(matches!(bench.commit(read(&bench, "/var/log/a")).await, Outcome::Wait(_)));
    let first = approvals(&bench)[0].clone();
    refuse(&bench, &first).await;
    let told = refused(bench.commit(read(&bench, "/var/log/a")).await);
    assert!(told.starts_with(&format!("refused by os:{} at 20", whoami(&first))), "{told}");
    assert!(
        told.contains(" UTC; this holds until 20")
            && told.ends_with(
                "another user can ask for the same call now; without one, it can be asked again after that"
            ),
        "to the minute: {told}"
    );
    assert!(matches!(bench.commit(read(&bench, "/var/log/b")).await, Outcome::Wait(_)), "another object");
    let other = bench.decide("read_file", &json!({ "path": "/x", "limit": 5 }), found("/var/log/a", &[]));
    assert!(matches!(bench.commit(other).await, Outcome::Wait(_)), "other arguments");

    let Bench { data, gate, .. } = bench;
    drop(gate);
    let bench = tokio::task::block_in_place(|| Bench::over(data, &asking()));
    let again = approvals(&bench).into_iter().find(|one| one.id == first.id).expect("kept");
    assert_eq!(again.state, State::Refused);
    // The other question about the object is still open, and is named first.
    let open = refused(bench.commit(read(&bench, "/var/log/a")).await);
    assert!(open.starts_with("already asked: "), "{open}");
    let other = approvals(&bench).into_iter().find(|one| one.arguments["limit"] == json!(5)).expect("open");
    refuse(&bench, &other).await;
    assert!(refused(bench.commit(read(&bench, "/var/log/a")).await).starts_with("refused by os:"));
}

fn whoami(approval: &Approval) -> String {
    approval.requester.principal.trim_start_matches("os:").to_owned()
}

/// A rule sets how long its approval can be given; without one it is the time of the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn the_shortest_time_of_the_rules_counts() {
    const US: u64 = 1_000_000;
    for (more, expect_s) in [
        ("", 7_200),
        ("@require_confirm(\"\") @expires(\"5m\")", 300),
        ("@require_confirm(\"\") @expires(\"7d\")", 7_200),
        ("@require_confirm(\"\")", 900),
    ] {
        let second = match more {
            "" => String::new(),
            some => format!(
                "@id(\"second\") {some} forbid(principal, action in PAR::Action::\"call_tool\", resource) \
                 unless {{ context.call.approved == \"confirmed\" }};"
            ),
        };
        let bench = tokio::task::block_in_place(|| Bench::open(&(asking() + &second)));
        let _waiting = bench.commit(bench.read(found("/var/log/a", &[]))).await;
        let request = approvals(&bench)[0].ledger;
        let made = bench.gate.ledger().reader().entry(request).expect("read").expect("there").header;
        let open_us =
            bench.payload(request)["expires_us"].as_u64().expect("time") - made.u64("wall_us").expect("time");
        // Made just before it was written.
        assert!((expect_s - 60) * US < open_us && open_us <= expect_s * US, "{more}: {open_us}");
    }
}

/// A6: a person reads which permit was nearest; the model does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_permit_is_on_record_and_not_in_the_result() {
    let rules = "@id(\"nginx\") permit(principal, action == PAR::Action::\"read_file\", resource in PAR::Path::\"/var/log/nginx\"); \
                 @id(\"ask\") @require_approval(\"admins\") forbid(principal, action in PAR::Action::\"read\", resource) \
                 unless { context.call.approved == \"approved\" };";
    let bench = tokio::task::block_in_place(|| Bench::open(rules));
    let Outcome::Refused(result) = bench.commit(bench.read(found("/var/log/syslog", &[]))).await else {
        panic!("not refused")
    };
    let payload = bench.payload(1);
    assert_eq!(payload["reason"], json!("no policy permits it"));
    assert_eq!(
        payload["nearest"],
        json!({ "policy": "nginx", "origin": "p.cedar:1", "why": "is for `/var/log/nginx`" })
    );
    let told: Value = serde_json::from_str(&result.text()).expect("JSON");
    assert_eq!(told["error"], json!("no policy permits this call"));
    assert!(!result.text().contains("nginx") && result.record().policies.is_empty(), "{}", result.text());
}
