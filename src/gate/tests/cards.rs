//! The card that a person is shown, and the answer to it.

use super::{Bench, EVERYTHING, found};
use crate::auth::{self, Role};
use crate::gate::{Answer, AnswerError, Approval, Outcome, card};
use crate::ledger::payload::ApprovalRequestPayload;
use crate::policy::{Door, TaintSource};
use serde_json::{Value, json};

const ASKS: &str = "@id(\"ask\") @require_confirm(\"\") \
     forbid(principal, action in PAR::Action::\"call_tool\", resource) \
     unless { context.call.approved == \"confirmed\" }; \
     @id(\"api\") permit(principal in PAR::Role::\"admin\", action in PAR::Action::\"api\", resource); \
     @id(\"run\") permit(principal in PAR::Role::\"operator\", action == PAR::Action::\"run\", resource);";

/// Results of `count` files, the first of them read twice.
fn sources(count: u64) -> Vec<TaintSource> {
    let source = |file: u64, result: u64| TaintSource {
        tool: "read_file".to_owned(),
        resource: format!("/var/log/{file}"),
        result,
    };
    (0..count).map(|at| source(at, 10 + at)).chain([source(0, 90)]).collect()
}

async fn asked(bench: &Bench) -> Approval {
    assert!(matches!(bench.commit(bench.read(found("/var/log/syslog", &[]))).await, Outcome::Wait(_)));
    let (mut approvals, _) = Approval::list(bench.gate.ledger(), None, 0, 10, |_| true).expect("list");
    approvals.pop().expect("one")
}

/// Every scalar and every empty list below `value`, by its pointer.
fn places(value: &Value, at: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), into));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(place, item)| places(item, &format!("{at}/{place}"), into));
        }
        _ => into.push(at.to_owned()),
    }
}

/// L5: the card covers every member that is shown, so an answer to a card with another one does not
/// count. All sources of taint are on it.
#[tokio::test(flavor = "multi_thread")]
async fn each_field_of_the_card_changes_its_digest() {
    let mut bench = tokio::task::block_in_place(|| Bench::open(&format!("{EVERYTHING}{ASKS}")));
    bench.session.tainted_by = sources(17);
    let approval = asked(&bench).await;
    let shown = &approval.shown;
    assert_eq!((&shown["question"], &shown["channel"]), (&json!("look at the log"), &json!("cli")));
    assert_eq!((shown["taint"].as_array().map(Vec::len), approval.tainted_by.len()), (Some(17), 16));
    assert_eq!(
        shown["taint"][0],
        json!({ "tool": "read_file", "resource": "/var/log/0", "first": 10, "newest": 90, "count": 2 })
    );

    let stored = bench.payload(approval.ledger);
    let read = |value: &Value| serde_json::from_value::<ApprovalRequestPayload>(value.clone());
    let digest = |value: &Value| card::digest(&read(value).ok()?).map(|card| card.hex());
    assert_eq!((digest(&stored), stored["card"].as_str()), (approval.card.clone(), approval.card.as_deref()));
    let mut all = Vec::new();
    places(&stored, "", &mut all);
    all.retain(|place| !["/v", "/card"].contains(&place.as_str()));
    assert!(all.len() > 60, "{all:?}");
    for place in all {
        let mut changed = stored.clone();
        let value = changed.pointer_mut(&place).expect("there");
        *value = match &*value {
            Value::String(text) if text.len() == 64 => json!("0".repeat(64)),
            Value::String(text) if text.starts_with("apr_") => json!("apr_01JD0000000000000000000000"),
            Value::String(text) if text == "cli" => json!("http"),
            Value::String(text) => json!(format!("{text}x")),
            Value::Number(number) => json!(number.as_u64().unwrap_or_default() + 1),
            Value::Bool(flag) => json!(!flag),
            Value::Array(_) => json!(["more"]),
            _ => json!("a value"),
        };
        // What no card can have is refused as soon as it is read.
        if read(&changed).is_ok() {
            assert_ne!(digest(&changed), approval.card, "{place}");
        } else {
            assert!(place.starts_with("/resource/object/"), "{place}");
        }
    }
}

/// An answer names the card or the hash of the call, and each that it names must be right.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_another_card_does_not_count() {
    let mut bench = tokio::task::block_in_place(|| Bench::open(&format!("{EVERYTHING}{ASKS}")));
    let approval = asked(&bench).await;
    let owner = auth::local(bench.data.path(), Role::Admin).expect("owner");
    let answer = |card: Option<&str>, call_hash: Option<&str>| Answer {
        grant: true,
        card: card.map(str::to_owned),
        call_hash: call_hash.map(str::to_owned),
        reason: None,
    };
    let (right, hash, other) = (approval.card.as_deref(), Some(approval.call_hash.as_str()), "0".repeat(64));
    for (card, call_hash) in
        [(Some(&*other), None), (Some(&*other), hash), (right, Some(&*other)), (hash, None)]
    {
        let told = bench.gate.answer(&owner, Door::LOCAL, &approval.id, answer(card, call_hash)).await;
        assert!(matches!(told, Err(AnswerError::WrongCall)), "{told:?}");
    }
    let told = bench.gate.answer(&owner, Door::LOCAL, &approval.id, answer(None, None)).await;
    assert!(matches!(told, Err(AnswerError::Invalid("card", _))), "{told:?}");
    let granted = bench.gate.answer(&owner, Door::LOCAL, &approval.id, answer(right, None)).await;
    let granted = granted.expect("granted");
    assert_eq!(bench.payload(granted.answer.expect("answer").ledger)["card"], json!(approval.card));

    // The approval is for what was shown: if that has changed, a person is asked again.
    bench.session.tainted_by = sources(1);
    assert_eq!(bench.again(found("/var/log/syslog", &[])).word.as_str(), "needs_approval");
    bench.session.tainted_by.clear();
    assert_eq!(bench.again(found("/var/log/syslog", &[])).word.as_str(), "allow");
}

/// Tools that run `/usr/bin/stat` with fixed arguments, on a path and on a project.
const PROGRAMS: [(&str, &str); 2] = [
    (
        "cert_end",
        "name = \"cert_end\"\nsummary = \"When a certificate ends.\"\nclass = \"read\"\nrisk = \"low\"\n\
         command = [\"/usr/bin/stat\", \"-c\", \"%y and more\", \"{path}\", \"{depth}\"]\nruntime = \"dynamic\"\n\
         untrusted_output = true\n[resource]\ntype = \"Path\"\nfrom = \"/path\"\ncanonical = \"path\"\n\
         [sandbox]\nread = [\"@logs\"]\nexec = [\"/usr/bin/env\"]\n[limits]\nwall_ms_max = 1000\n\
         output_bytes_max = 4096\nmemory_bytes_max = 67108864\nprocesses_max = 2\nfile_bytes_max = 0\n\
         [input]\ntype = \"object\"\nadditionalProperties = false\nrequired = [\"path\"]\n\
         [input.properties.path]\ntype = \"string\"\n[input.properties.depth]\ntype = \"string\"\n",
    ),
    (
        "build",
        "name = \"build\"\nsummary = \"Builds a project.\"\nclass = \"exec\"\nrisk = \"high\"\n\
         command = [\"/usr/bin/stat\", \"{project}\"]\nruntime = \"dynamic\"\nuntrusted_output = true\n\
         [resource]\ntype = \"Project\"\nfrom = \"/project\"\ncanonical = \"id\"\n[sandbox]\n\
         write = [\"@workspace/{project}\"]\n[limits]\nwall_ms_max = 1000\noutput_bytes_max = 4096\n\
         memory_bytes_max = 67108864\nprocesses_max = 2\nfile_bytes_max = 4096\n[input]\ntype = \"object\"\n\
         additionalProperties = false\nrequired = [\"project\"]\n[input.properties.project]\ntype = \"string\"\n",
    ),
];

fn with_programs() -> (Bench, tempfile::TempDir) {
    let tools = tempfile::tempdir().expect("folder");
    for (name, text) in PROGRAMS {
        std::fs::write(tools.path().join(format!("{name}.toml")), text).expect("a manifest");
    }
    let data = tempfile::tempdir().expect("folder");
    crate::ledger::key::make(&crate::ledger::Files::below(data.path()).log_key()).expect("log key");
    (Bench::with_tools(data, &format!("{EVERYTHING}{ASKS}"), tools.path()), tools)
}

/// "This exact call would run" stood above a program without its fixed arguments, and above a
/// folder of which the call gets only a part.
#[tokio::test(flavor = "multi_thread")]
async fn a_card_has_the_whole_command_line_and_the_folder_of_this_call() {
    let (bench, _tools) = tokio::task::block_in_place(with_programs);
    let cert = bench.decide("cert_end", &json!({ "path": "/var/log/x" }), found("/var/log/real", &[]));
    assert!(matches!(bench.commit(cert).await, Outcome::Wait(_)));
    let build = bench.decide("build", &json!({ "project": "demo" }), crate::call::Object::Fixed);
    assert!(matches!(bench.commit(build).await, Outcome::Wait(_)));
    let (approvals, _) = Approval::list(bench.gate.ledger(), None, 0, 10, |_| true).expect("list");
    let [cert, build] = approvals.as_slice() else { panic!("{approvals:?}") };
    assert_eq!(cert.shown["command"], json!(["/usr/bin/stat", "-c", "%y and more", "/var/log/real"]));
    assert_eq!(cert.shown["summary"], json!("When a certificate ends."));
    assert_eq!(cert.shown["sandbox"]["exec"], json!(["/usr/bin/env"]));
    assert_eq!(build.shown["command"], json!(["/usr/bin/stat", "demo"]));
    assert_eq!(build.shown["sandbox"]["write"], json!(["/nonexistent/workspace/demo"]));

    // All of it is under the digest that an answer repeats.
    let stored = bench.payload(cert.ledger);
    let digest = |value: &Value| {
        let read = serde_json::from_value::<ApprovalRequestPayload>(value.clone()).expect("a payload");
        card::digest(&read).map(|card| card.hex())
    };
    assert_eq!(digest(&stored), cert.card);
    for place in ["/shown/command/2", "/shown/sandbox/exec/0", "/shown/summary"] {
        let mut changed = stored.clone();
        *changed.pointer_mut(place).expect("there") = json!("other");
        assert_ne!(digest(&changed), cert.card, "{place}");
    }
}

/// A call that could never start is refused before a person is asked about it.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_about_a_call_without_a_command_line() {
    let (bench, _tools) = tokio::task::block_in_place(with_programs);
    let arguments = json!({ "path": "/var/log/x", "depth": "--output=/x" });
    let decided = bench.decide("cert_end", &arguments, found("/var/log/x", &[]));
    let outcome = bench.commit(decided).await;
    let Outcome::Refused(result) = outcome else { panic!("{outcome:?}") };
    assert!(result.text().contains("`depth` starts with `-`"), "{result:?}");
}
