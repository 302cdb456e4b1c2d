//! The exclusions of a recursive call: decided with it, and part of its permit and its record.

use super::{Bench, EVERYTHING, ended};
use crate::auth::{self, Role};
use crate::call::{Beneath, Exclusion, FileId, FileKind, Object, PathObject};
use crate::gate::{Answer, Approval, Decided, Outcome};
use crate::policy::Door;
use serde_json::{Value, json};
use std::path::Path;

const NO_VIEW: &str = "the tool reads all below the folder, and policies exclude some of it: in this version only \
                       builtins can leave something out";

const RULES: &str = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);
    @id(\"no-a\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { resource in PAR::Path::\"/var/log/a\" };
    @id(\"no-b\") forbid(principal, action in PAR::Action::\"call_tool\", resource) when { resource in PAR::Path::\"/var/log/b/c\" };
    @id(\"b\") permit(principal, action in PAR::Action::\"call_tool\", resource in PAR::Path::\"/var/log/b\");
    @id(\"far\") permit(principal, action in PAR::Action::\"call_tool\", resource in PAR::Path::\"/etc/far\");";

fn beneath(name: &str, canonical: &str, ino: Option<u64>) -> Beneath {
    let id = ino.map(|ino| FileId { dev: u64::MAX, ino });
    Beneath { name: name.to_owned(), canonical: canonical.to_owned(), id, within: vec![name.to_owned()] }
}

fn folder(beneath: Vec<Beneath>) -> PathObject {
    PathObject {
        canonical: "/var/log".to_owned(),
        id: FileId { dev: 1, ino: 1 },
        kind: FileKind::Folder,
        within: vec!["/var/log".to_owned()],
        beneath,
        unseen: Vec::new(),
    }
}

fn whole() -> PathObject {
    folder(vec![
        beneath("/var/log/a", "/var/log/a", Some(7)),
        beneath("/var/log/b", "/var/log/b", Some(8)),
        beneath("/var/log/b/c", "/var/log/b/c", None),
        beneath("/etc/far", "/etc/far", Some(9)),
    ])
}

fn search(bench: &Bench, object: PathObject) -> Decided {
    bench.decide("search_files", &json!({ "path": "/var/log", "pattern": "x" }), Object::Path(object))
}

fn left_out(payload: &Value) -> Vec<&str> {
    let listed = payload["exclusions"].as_array().map(Vec::as_slice).unwrap_or_default();
    listed.iter().map(|one| one["canonical"].as_str().expect("a path")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_denied_below_is_in_the_permit_and_in_the_record() {
    let bench = tokio::task::block_in_place(|| Bench::open(RULES));
    let Outcome::Permit(permit) = bench.commit(search(&bench, whole())).await else { panic!("no permit") };
    let (order, running) = (*permit).begin().expect("in time");
    let expect = [
        Exclusion { canonical: "/var/log/a".to_owned(), id: Some(FileId { dev: u64::MAX, ino: 7 }) },
        Exclusion { canonical: "/var/log/b/c".to_owned(), id: None },
        // A path that the tool may not read under its own name stays closed under a second name.
        Exclusion { canonical: "/etc/far".to_owned(), id: Some(FileId { dev: u64::MAX, ino: 9 }) },
    ];
    assert_eq!(order.exclusions(), expect);
    let _results = bench.gate.settle(vec![(running, ended(0))], None).await.expect("settled").0;
    let payload = bench.payload(1);
    assert_eq!(left_out(&payload), ["/var/log/a", "/var/log/b/c", "/etc/far"]);
    assert_eq!(payload["exclusions"][0]["ino"], "7");
    let told: Vec<Value> = payload["beneath"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| json!([one["resource"]["id"], one["decision"], one["policies"]]))
        .collect();
    let expect = [
        json!(["/var/log/\0", "allow", ["all"]]),
        json!(["/var/log/a", "deny", ["no-a"]]),
        json!(["/var/log/b", "allow", ["all", "b"]]),
        json!(["/var/log/b/\0", "allow", ["all", "b"]]),
        json!(["/var/log/b/c", "deny", ["no-b"]]),
        json!(["/etc/far", "deny", ["par.outside"]]),
    ];
    assert_eq!(told, expect);
    // A tool that does not read below its object has no exclusions, nor does a call that is denied
    // anyway.
    let file = PathObject { kind: FileKind::File, ..folder(vec![]) };
    assert!(search(&bench, file).payload.beneath.is_none());
    tokio::task::block_in_place(|| bench.verified());
}

/// Impossible claims of the sandbox are refused.
#[tokio::test(flavor = "multi_thread")]
async fn impossible_claims_below_are_a_deny() {
    let bench = tokio::task::block_in_place(|| Bench::open(RULES));
    let check = |what: &str, expect: &str, object: PathObject| {
        let decided = search(&bench, object);
        let reason = decided.payload.reason.as_deref().unwrap_or("allowed");
        assert!(reason.contains(expect), "{what}: {reason}");
    };
    check("all of them", "allowed", whole());
    let without = |name: &str| folder(whole().beneath.into_iter().filter(|one| one.name != name).collect());
    check("one outside is not reported", "allowed", without("/etc/far"));
    check("one inside is not reported", "did not report", without("/var/log/b/c"));
    check("nothing is reported", "did not report", folder(vec![]));
    let mut object = without("/var/log/a");
    object.within.push("/var/log/a".to_owned());
    check("one is the folder itself under another name", "no-a", object);
    let unseen = PathObject { unseen: vec!["/var/log/a".to_owned()], ..without("/var/log/a") };
    check("one may not be looked at", "cannot be looked at", unseen);
    let with = |one: Beneath| folder(whole().beneath.into_iter().chain([one]).collect());
    check(
        "a name that prepare was not asked about",
        "not asked",
        with(beneath("/var/log/z", "/var/log/z", None)),
    );
    check("no canonical path", "not asked", with(beneath("/var/log/a", "/var/log/../a", None)));
    check("too many", "not asked", folder(vec![beneath("/var/log/a", "/var/log/a", Some(7)); 257]));
    check("a file", "unasked", PathObject { kind: FileKind::File, ..whole() });
    let listed = bench.decide("list_dir", &json!({ "path": "/var/log" }), Object::Path(whole()));
    assert!(listed.payload.reason.as_ref().is_some_and(|reason| reason.contains("unasked")));
}

/// The approver sees what the approved call leaves out, and the approval is bound to exactly that.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_bound_to_its_exclusions() {
    let rules = format!(
        "{EVERYTHING}@id(\"api\") permit(principal, action in PAR::Action::\"api\", resource);
         @id(\"ask\") @require_confirm(\"\") forbid(principal, action in PAR::Action::\"call_tool\", resource)
         unless {{ context.call.approved == \"confirmed\" }};
         @id(\"no-a\") forbid(principal, action in PAR::Action::\"call_tool\", resource in PAR::Path::\"/var/log/a\");
         @id(\"b\") permit(principal, action in PAR::Action::\"call_tool\", resource in PAR::Path::\"/var/log/b\");"
    );
    let bench = tokio::task::block_in_place(|| Bench::open(&rules));
    let object = |ino: u64| {
        let b = beneath("/var/log/b", "/var/log/b", Some(8));
        Object::Path(folder(vec![beneath("/var/log/a", "/var/log/a", Some(ino)), b]))
    };
    let arguments = json!({ "path": "/var/log", "pattern": "x" });
    let asked = bench.commit(bench.decide("search_files", &arguments, object(7))).await;
    assert!(matches!(asked, Outcome::Wait(_)), "{asked:?}");
    let (approvals, _) = Approval::list(bench.gate.ledger(), None, 0, 10, |_| true).expect("list");
    assert_eq!(left_out(&approvals[0].resource), ["/var/log/a"], "once approved, b is read");
    assert_eq!(
        left_out(&bench.payload(1)),
        ["/var/log", "/var/log/a", "/var/log/b"],
        "without it, nothing is"
    );
    let owner = auth::local(bench.data.path(), Role::Admin).expect("owner");
    let yes =
        Answer { grant: true, card: None, call_hash: Some(approvals[0].call_hash.clone()), reason: None };
    bench.gate.answer(&owner, Door::LOCAL, &approvals[0].id, yes).await.expect("answered");

    let other = bench.again(object(6));
    assert_eq!(other.word.as_str(), "needs_approval", "another file is left out");
    let same = bench.again(object(7));
    assert_eq!((same.word.as_str(), left_out(&json!(same.payload))), ("allow", vec!["/var/log/a"]));
    let Outcome::Permit(permit) = bench.commit(same).await else { panic!("no permit") };
    let (order, running) = permit.begin().expect("in time");
    assert_eq!(order.exclusions().len(), 1);
    let _results = bench.gate.settle(vec![(running, ended(0))], None).await.expect("settled").0;
}

/// A program gets whole folders: if something must be left out it is denied, and no person is
/// asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_leave_something_out_is_denied() {
    let folder_of_tools = tempfile::tempdir().expect("a folder");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tools/tail.toml");
    let tail = std::fs::read_to_string(shipped).expect("manifest").replace("\"tail\"", "\"reads_all\"");
    let tail = tail.replace("[resource]", "recursive = true\n[resource]");
    std::fs::write(folder_of_tools.path().join("reads_all.toml"), tail).expect("written");
    let open = |rules: &str| {
        let data = tempfile::tempdir().expect("folder");
        crate::ledger::key::make(&crate::ledger::Files::below(data.path()).log_key()).expect("log key");
        Bench::with_tools(data, rules, folder_of_tools.path())
    };
    let arguments = json!({ "path": "/var/log", "lines": 1 });
    let bench = tokio::task::block_in_place(|| open(RULES));
    let decided = bench.decide("reads_all", &arguments, Object::Path(whole()));
    assert_eq!((decided.word.as_str(), decided.payload.reason.as_deref()), ("deny", Some(NO_VIEW)));
    assert_eq!(left_out(&json!(decided.payload)).len(), 3, "the record has the reason");
    let rest = ["/var/log/a", "/var/log/b", "/var/log/b/c"].map(|name| beneath(name, name, None));
    let decided = bench.decide("reads_all", &arguments, Object::Path(folder(rest.into())));
    assert_eq!(decided.word.as_str(), "allow", "what is not there cannot be read");
    let asks = "@id(\"ask\") @require_confirm(\"\") forbid(principal, action in PAR::Action::\"call_tool\", resource)
                unless { context.call.approved == \"confirmed\" };";
    let bench = tokio::task::block_in_place(|| open(&format!("{RULES}{asks}")));
    let decided = bench.decide("reads_all", &arguments, Object::Path(whole()));
    assert_eq!((decided.word.as_str(), decided.payload.reason.as_deref()), ("deny", Some(NO_VIEW)));
}

/// A rule with `==` covers the folder alone: it does not let a tool read what lies in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_for_a_folder_alone_permits_nothing_in_it() {
    let bench = |rules: &str| tokio::task::block_in_place(|| Bench::open(rules));
    let alone = bench(
        "@id(\"alone\") permit(principal, action in PAR::Action::\"call_tool\", resource == PAR::Path::\"/var/log\");",
    );
    let decided = search(&alone, folder(vec![]));
    let reason = decided.payload.reason.as_deref().expect("a reason");
    assert!(decided.word.as_str() == "deny" && reason.contains("the folder alone"), "{reason}");
    let listed = alone.decide("list_dir", &json!({ "path": "/var/log" }), Object::Path(folder(vec![])));
    assert_eq!(listed.word.as_str(), "allow", "a tool that does not read below may");

    let some = bench(
        "@id(\"logs\") permit(principal, action in PAR::Action::\"call_tool\", resource in PAR::Path::\"/var/log\");
         @id(\"a-alone\") forbid(principal, action in PAR::Action::\"call_tool\", resource in PAR::Path::\"/var/log/a\")
             unless { resource == PAR::Path::\"/var/log/a\" };",
    );
    let decided = search(&some, folder(vec![beneath("/var/log/a", "/var/log/a", Some(7))]));
    assert_eq!((decided.word.as_str(), left_out(&json!(decided.payload))), ("allow", vec!["/var/log/a"]));
    let asks = "@id(\"ask\") @require_confirm(\"\") forbid(principal, action in PAR::Action::\"call_tool\", resource)
                unless { context.call.approved == \"confirmed\" };
                @id(\"alone\") permit(principal, action in PAR::Action::\"call_tool\", resource == PAR::Path::\"/var/log\");";
    assert_eq!(
        search(&bench(asks), folder(vec![])).word.as_str(),
        "deny",
        "no person is asked for an approval that would not help"
    );
}
