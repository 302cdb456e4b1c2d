//! Each request to a model is decided first, with the labels of what is sent, and is on the ledger
//! before the first byte leaves (L3).

use super::{House, Reply, path};
use crate::replay::replay;
use crate::support::{text, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Allows the model as the shipped rule does, unless the run has read untrusted text.
const ONLY_UNTAINTED: &str = r#"@id("only-untainted")
@advice("start a run that reads nothing first")
forbid (principal, action == PAR::Action::"model.ask", resource == PAR::Sink::"model:default")
when { principal.taint.contains("untrusted") };
"#;

fn asks(house: &House) -> Vec<Value> {
    house.home.entries(&["kind:model.ask"])
}

fn shown(house: &House, seq: &Value) -> Value {
    serde_json::from_str(&house.home.expect(0, &["audit", "show", "--json", &seq.to_string()])).expect("JSON")
}

/// The kinds of a run's entries, in order.
fn kinds(house: &House, run: &Value) -> Vec<String> {
    let entries = house.home.entries(&[&format!("run:{}", run.as_str().expect("run"))]);
    entries.iter().map(|entry| entry["kind"].as_str().expect("kind").to_owned()).collect()
}

#[test]
fn every_request_to_a_model_is_decided_before_it_is_sent() {
    let house = House::start(|_| {});
    let call = |path: String| Reply::Calls(vec![("read_file".to_owned(), path)]);
    let log = house.home.path("workspace/note.txt");
    std::fs::write(&log, "words of another").expect("file");
    let run =
        house.run([call(path(&log)), call(path(Path::new("/etc/shadow"))), Reply::Say("ok".to_owned())]);
    assert_eq!(run["status"], "done", "{run}");
    assert_eq!(
        kinds(&house, &run["run"]),
        [
            "run.request",
            "model.ask",
            "model.reply",
            "call.decision",
            "call.result",
            "model.ask",
            "model.reply",
            "call.decision",
            "model.ask",
            "model.reply",
            "run.reply"
        ]
    );
    let asks = asks(&house);
    let of = |name: &str| asks.iter().map(|ask| ask[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("decision"), ["allow"; 3]);
    assert_eq!(of("policies"), vec![json!(["configured-models"]); 3]);
    assert_eq!(of("taint"), [json!([]), json!(["untrusted"]), json!(["untrusted"])]);
    let first = shown(&house, &asks[0]["seq"]);
    let payload = &first["payload"];
    assert_eq!(
        (&payload["name"], &payload["provider"], &payload["model"], &payload["reply_tokens_max"]),
        (&json!("default"), &json!("openai"), &json!("m"), &json!(4_096)),
        "{first}"
    );
    assert_eq!(payload["host"], house.model.address.as_str());
    assert!(payload["input_tokens"].as_u64().expect("tokens") > 500 && payload.get("fallback_of").is_none());
    let request = &payload["request"];
    assert_eq!(request["resource"], json!({ "type": "PAR::Sink", "id": "model:default" }));
    assert_eq!(request["context"]["ask"]["fallback_of"], "");
    house.check_ledger();
}

/// No rule permits what is not named: the model is not asked, and the run says so.
#[test]
fn a_model_that_no_rule_permits_is_not_asked() {
    let house = House::start(|home| {
        std::fs::remove_file(home.path("etc/policies/05-models.cedar")).expect("rule");
        std::fs::remove_file(home.path("etc/policies/tests/05-models.toml")).expect("cases");
    });
    let run = house.run([Reply::Say("hello".to_owned())]);
    assert_eq!((&run["status"], &run["said_by"]), (&json!("denied"), &json!("par")), "{run}");
    let told = run["answer"].as_str().expect("an answer");
    assert!(
        told.contains("no policy permits it")
            && told.contains("`par init --upgrade`")
            && told.contains("model:default"),
        "{told}"
    );
    assert!(house.model.requests().is_empty(), "nothing was sent");
    assert_eq!(kinds(&house, &run["run"]), ["run.request", "model.ask", "run.reply"]);
    let ask = &asks(&house)[0];
    assert_eq!((&ask["decision"], &ask["status"]), (&json!("deny"), &json!("policy")));
    house.check_ledger();
}

/// What a run has read decides where it may go: the second request is denied.
#[test]
fn a_rule_stops_a_run_that_has_read_untrusted_text_before_the_next_request() {
    let house = House::start(|home| home.add("policies/06-models.cedar", ONLY_UNTAINTED));
    let note = house.home.path("workspace/note.txt");
    std::fs::write(&note, "words of another").expect("file");
    let call = Reply::Calls(vec![("read_file".to_owned(), path(&note))]);
    let run = house.run([call, Reply::Say("never".to_owned())]);
    assert_eq!(run["status"], "denied", "{run}");
    let told = run["answer"].as_str().expect("an answer");
    assert!(told.contains("forbidden by only-untainted") && told.contains("start a run"), "{told}");
    assert_eq!(house.model.requests().len(), 1, "the second was not sent");
    let told = house.model.requests().concat();
    assert!(!told.contains("words of another"));
    let viewer = house.home.key("viewer", "viewer");
    let metrics = text(&house.server.get(&viewer, "/metrics").body);
    for line in ["model=\"default\",decision=\"allow\"} 1\n", "model=\"default\",decision=\"deny\"} 1\n"] {
        assert!(metrics.contains(&format!("par_model_asks_total{{{line}")), "{metrics}");
    }
    assert_eq!(
        kinds(&house, &run["run"]),
        ["run.request", "model.ask", "model.reply", "call.decision", "call.result", "model.ask", "run.reply"]
    );
    house.check_ledger();
}

/// The decisions come out again from their entries, and other rules are compared with them.
#[test]
fn decisions_on_models_are_replayed() {
    let house = House::start(|_| {});
    house.run([Reply::Say("one".to_owned())]);
    house.run([Reply::Say("two".to_owned())]);
    house.server.stop();
    let told = replay(&house.home, 0, &[]);
    assert_eq!(
        (&told["decisions"], &told["as_recorded"], &told["different"]),
        (&json!(2), &json!(2), &json!(0))
    );
    let rules = house.home.beside("other");
    crate::support::copy_folder(&house.home.path("etc/policies"), &rules);
    std::fs::remove_file(rules.join("05-models.cedar")).expect("rule");
    std::fs::remove_file(rules.join("tests/05-models.toml")).expect("cases");
    let told = replay(&house.home, 1, &["--against", &rules.display().to_string()]);
    let flips: BTreeSet<&str> =
        told["flips"].as_array().expect("flips").iter().map(|f| f["to"].as_str().expect("to")).collect();
    assert_eq!(flips, BTreeSet::from(["deny"]), "{told}");
}

/// `par policy explain` knows the action: for the configured model, and for an entry.
#[test]
fn a_decision_on_a_model_is_explained() {
    let house = House::start(|home| home.add("policies/06-models.cedar", ONLY_UNTAINTED));
    house.run([Reply::Say("one".to_owned())]);
    let explain =
        |code: i32, args: &[&str]| house.home.expect(code, &[&["policy", "explain"], args].concat());
    let told = explain(0, &["model.ask"]);
    assert!(told.contains("configured-models") && told.contains(&house.model.address), "{told}");
    let told = explain(3, &["model.ask", "--tainted"]);
    assert!(
        told.contains("only-untainted") && told.contains("start a run that reads nothing first"),
        "{told}"
    );
    let seq = asks(&house)[0]["seq"].to_string();
    let told = explain(0, &[&seq]);
    assert!(
        told.contains("Sink model:default") && told.contains("recorded: allow by configured-models"),
        "{told}"
    );
    let offline = crate::support::TestHome::init();
    offline.expect(2, &["policy", "explain", "model.ask"]);
}

/// A request whose answer never came counts with all that was reserved for it; one that was
/// answered or refused counts once or not at all.
#[test]
fn after_a_crash_a_request_without_an_answer_counts_as_spent() {
    let house = House::start(|_| {});
    let note = house.home.path("workspace/note.txt");
    std::fs::write(&note, "words").expect("file");
    let call = Reply::Calls(vec![("read_file".to_owned(), path(&note))]);
    house.model.play([call, Reply::Hang]);
    let running = house.server.run_aside(&house.key, "go");
    until("the second request is sent", || house.model.requests().len() == 2);
    let House { home, model, server, .. } = house;
    let _all = server.kill();
    drop(running.join().expect("thread"));
    let before = home.entries(&["kind:run.reply"]);
    assert!(before.is_empty(), "{before:?}");
    let server = home.serve();
    until("the run is closed", || !home.entries(&["kind:run.reply"]).is_empty());
    let show = |entry: &Value| -> Value {
        let seq = entry["seq"].to_string();
        serde_json::from_str(&home.expect(0, &["audit", "show", "--json", &seq])).expect("JSON")
    };
    let [first, second] = home.entries(&["kind:model.ask"]).try_into().expect("two requests");
    let [said] = home.entries(&["kind:model.reply"]).try_into().expect("one answer");
    let [reply] = home.entries(&["kind:run.reply"]).try_into().expect("one reply");
    assert_eq!((&reply["status"], &first["decision"]), (&json!("interrupted"), &json!("allow")), "{reply}");
    let (said, lost, reply) = (show(&said), show(&second), show(&reply));
    let usage = &reply["payload"]["usage"];
    let number = |of: &Value, name: &str| of["payload"][name].as_u64().expect("a number");
    assert!(number(&lost, "input_tokens") > 0 && number(&lost, "reply_tokens_max") > 0, "{lost}");
    assert_eq!(usage["model_calls"], 2, "{reply}");
    assert_eq!(
        (usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64()),
        (
            Some(number(&said, "input_tokens") + number(&lost, "input_tokens")),
            Some(number(&said, "output_tokens") + number(&lost, "reply_tokens_max"))
        ),
        "{reply}"
    );
    assert_eq!(model.requests().len(), 2, "nothing is sent again");
    server.stop();
    home.expect(0, &["audit", "verify"]);
}

/// A provider that sends nothing needs no rule.
#[test]
fn offline_asks_no_rule() {
    let home = crate::support::TestHome::init();
    std::fs::remove_file(home.path("etc/policies/05-models.cedar")).expect("rule");
    std::fs::remove_file(home.path("etc/policies/tests/05-models.toml")).expect("cases");
    home.expect(0, &["run", "how is this server doing?"]);
    home.expect(0, &["tool", "call", "health_check", "{}"]);
    assert!(home.entries(&["kind:model.ask"]).is_empty());
}
