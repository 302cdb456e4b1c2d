//! Bundles and requests that earlier versions recorded: they are decided as they were, and later
//! rules can decide them too. The corpus was written by the binary of the commit before the format
//! `par/bundle/2`.

use super::{catalog, load, names, shipped, top};
use crate::policy::{Bundle, RecordedRequest, Ruling};
use crate::types::Digest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn corpus() -> PathBuf {
    top().join("src/policy/tests/corpus")
}

/// The archives of the corpus by their digest.
fn archives() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(corpus()).expect("corpus").map(|entry| entry.expect("entry").path());
    let archives = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: PathBuf| {
        let digest = path.file_stem().and_then(|stem| stem.to_str()).expect("a digest").to_owned();
        (digest, std::fs::read_to_string(path).expect("archive"))
    };
    archives.map(read).collect()
}

fn rebuilt(digest: &str, archive: &str) -> Bundle {
    Bundle::rebuild(archive.as_bytes(), Digest::from_hex(digest).expect("digest")).expect(digest)
}

/// The decisions of the corpus.
fn decisions() -> Vec<Value> {
    let text = std::fs::read_to_string(corpus().join("decisions.jsonl")).expect("decisions");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn recorded(decision: &Value) -> RecordedRequest {
    RecordedRequest::read(&decision["request"]).expect("a request")
}

fn policies(decision: &Value) -> Vec<String> {
    serde_json::from_value(decision["policies"].clone()).expect("policies")
}

#[test]
fn a_bundle_of_the_first_format_rebuilds_to_its_digest() {
    let archives = archives();
    assert_eq!(archives.len(), 2);
    for (digest, archive) in archives {
        let bundle = rebuilt(&digest, &archive);
        assert_eq!((bundle.digest().hex(), bundle.archive()), (digest, archive));
    }
}

/// Neither the later format nor its built-in policies pass for the first one, and the reverse.
#[test]
fn the_formats_of_bundles_do_not_mix() {
    let (digest, archive) = archives().pop_first().expect("one");
    let mut later: Value = serde_json::from_str(&archive).expect("JSON");
    later["t"] = json!("par/bundle/2");
    let rebuild = |value: &Value, digest: &str| {
        let digest = Digest::from_hex(digest).expect("digest");
        Bundle::rebuild(value.to_string().as_bytes(), digest).expect_err("taken").to_string()
    };
    assert_eq!(rebuild(&later, &digest), "`built_in` is missing or has the wrong type");
    later["built_in"] = json!({});
    assert!(rebuild(&later, &digest).starts_with("its lines are missing `built-in "));

    let bundle = Bundle::load(&shipped(), catalog(), &names()).expect("bundle");
    let mut first: Value = serde_json::from_str(&bundle.archive()).expect("JSON");
    first["t"] = json!("par/bundle/1");
    let told = rebuild(&first, &bundle.digest().hex());
    assert_eq!(told, "its lines name built-in policies, which it does not have");
}

/// A replay repeats what was recorded under the rules of then.
#[test]
fn an_earlier_decision_is_repeated_as_it_was() {
    let archives = archives();
    let (decisions, mut seen) = (decisions(), BTreeMap::new());
    for decision in &decisions {
        let digest = decision["policy"].as_str().expect("digest");
        let again = rebuilt(digest, &archives[digest]).decide_again(&recorded(decision));
        let word = again.answer.word();
        assert_eq!(
            (word, again.answer.policies()),
            (decision["decision"].as_str().expect("word"), policies(decision).as_slice())
        );
        *seen.entry(word).or_insert(0) += 1;
    }
    assert_eq!(seen, BTreeMap::from([("allow", 4), ("deny", 3), ("needs_approval", 2)]));
}

/// Members that an earlier schema did not have are filled in with what held then, and the answer
/// says so.
#[test]
fn an_earlier_request_is_filled_in_for_later_rules() {
    let rules = "@id(\"all\") permit(principal, action in PAR::Action::\"call_tool\", resource);
        @id(\"marked\") forbid(principal, action in PAR::Action::\"call_tool\", resource)
        when { context.channel == \"cli\" && context.agent == \"\" && context.task == \"\" && !context.plan
               && !context.call.halted && context.call.calls_left == 32 && principal.owner == \"os:root\"
               && principal.seen.isEmpty() };";
    let bundle = load(rules);
    let first = recorded(&decisions()[1]);
    let again = bundle.decide_other(&first);
    assert_eq!(again.answer.policies(), ["marked"], "{:?}", again.answer);
    assert!(again.fits && again.filled);
    // Under the schema of today nothing is filled in, and a request with one member missing does
    // not pass.
    let mut today = decisions()[1]["request"].clone();
    for (place, value) in
        [("channel", json!("http")), ("agent", json!("")), ("task", json!("")), ("plan", json!(false))]
    {
        today["context"][place] = value;
    }
    today["context"]["from"] = json!({});
    today["context"]["from_all"] = json!("untrusted");
    for entity in today["entities"].as_array_mut().expect("entities") {
        if entity["uid"]["type"] == "PAR::Session" {
            entity["attrs"]["seen"] = json!([]);
        }
    }
    let again = bundle.decide_other(&RecordedRequest::read(&today).expect("a request"));
    assert!(!again.fits && !again.filled && matches!(again.answer, Ruling::Deny { .. }), "{again:?}");
}

/// Where arguments came from is not known of an earlier request, and of an argument that became
/// sensitive later: that is the unsafe value. What was recorded stays.
#[test]
fn origins_that_were_not_recorded_are_filled_in_as_the_unsafe_value() {
    let with = |request: &Value, sensitive: &[&str]| {
        let names = sensitive.iter().map(|name| (*name).to_owned()).collect();
        let filled = recorded(request).0.filled(Some(&names));
        filled.map(|built| built.json()["context"].clone())
    };
    let earlier = with(&decisions()[1], &["to", "path"]).expect("filled");
    assert_eq!(earlier["from"], json!({ "path": "untrusted", "to": "untrusted" }));
    assert_eq!((&earlier["from_all"], &earlier["call"]["chosen"]), (&json!("untrusted"), &json!(false)));
    let mut now = decisions()[1].clone();
    now["request"]["context"] = earlier;
    now["request"]["context"]["from"] = json!({ "path": "message", "to": "trusted" });
    now["request"]["context"]["from_all"] = json!("trusted");
    now["request"]["context"]["call"]["chosen"] = json!(true);
    let same = with(&now, &["to", "path"]).expect("the session is of an earlier schema");
    assert_eq!((&same["from"]["to"], &same["from_all"]), (&json!("trusted"), &json!("trusted")));
    let fewer = with(&now, &["path"]).expect("filled");
    assert_eq!((&fewer["from"], &fewer["from_all"]), (&json!({ "path": "message" }), &json!("message")));
    let more = with(&now, &["path", "name"]).expect("filled");
    assert_eq!(more["from"], json!({ "name": "untrusted", "path": "message" }));
    assert_eq!((&more["from_all"], &more["call"]["chosen"]), (&json!("untrusted"), &json!(true)));
}
