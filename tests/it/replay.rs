//! Decisions made again from the ledger: as recorded, under other rules, and after an attacker
//! changed them and rebuilt the chain.

use crate::forge::{connect, forge};
use crate::history;
use crate::support::{TestHome, copy_folder, text};
use par::types::Digest;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const TIGHTER: &str = r#"
@id("no-nginx")
forbid (principal, action in PAR::Action::"read", resource in PAR::Path::"/var/log/nginx");
"#;

pub fn replay(home: &TestHome, code: i32, args: &[&str]) -> Value {
    let args = [&["policy", "replay", "--json"], args].concat();
    serde_json::from_str(&home.expect(code, &args)).expect("JSON")
}

fn sum(members: &Value) -> u64 {
    members.as_object().expect("object").values().filter_map(Value::as_u64).sum()
}

/// A home with an allowed and a forbidden call, and both again under other rules.
fn called() -> TestHome {
    let home = TestHome::init();
    for _ in 0..2 {
        home.expect(0, &["tool", "call", "health_check", "{}"]);
        home.expect(3, &["tool", "call", "read_file", r#"{"path":"/var/log/wtmp"}"#]);
        home.add("policies/50-more.cedar", TIGHTER);
    }
    home
}

fn denied(home: &TestHome) -> u64 {
    home.entries(&["kind:call.decision", "decision:deny"])[0]["seq"].as_u64().expect("seq")
}

#[test]
fn two_thousand_decisions_come_out_again_and_only_what_a_rule_changes_flips() {
    let home = TestHome::init();
    let made = history::write(&home.root(), 2_000);
    let count = |word: &str| made.iter().filter(|one| one.word == word).count() as u64;
    assert!(count("allow") > 300 && count("deny") > 300 && count("needs_approval") > 50);
    let rules = home.beside("tighter");
    copy_folder(&home.path("etc/policies"), &rules);
    std::fs::write(rules.join("50-more.cedar"), TIGHTER).expect("policies");
    let rules = rules.display().to_string();
    let told = replay(&home, 1, &["--against", &rules]);
    assert_eq!((told["decisions"].as_u64(), told["different"].as_u64()), (Some(2_000), Some(0)));
    assert_eq!((told["invalid"].as_u64(), told["without_request"].as_u64()), (Some(40), Some(40)));
    assert_eq!((told["as_recorded"].as_u64(), sum(&told["bundles"])), (Some(1_920), 1_920));
    let flipped: Vec<u64> = made
        .iter()
        .filter(|one| one.word == "allow" && one.path.is_some_and(|path| path.starts_with("/var/log/nginx")))
        .map(|one| one.seq)
        .collect();
    assert!(flipped.len() > 50);
    let flips = told["flips"].as_array().expect("flips");
    assert_eq!(flips.len(), 1, "{told}");
    assert_eq!(
        (&flips[0]["from"], &flips[0]["to"], &flips[0]["by"]),
        (&json!("allow"), &json!("deny"), &json!("no-nginx"))
    );
    assert_eq!(flips[0]["count"].as_u64(), Some(flipped.len() as u64));
    let shown: Vec<u64> =
        flips[0]["examples"].as_array().expect("some").iter().filter_map(|e| e["seq"].as_u64()).collect();
    assert_eq!(shown, flipped[..5]);
    assert_eq!(told["compared"], 1_920);

    // The same rule in shadow mode changes nothing, and is reported.
    let shadow = TIGHTER.replace("forbid", "@mode(\"shadow\")\nforbid");
    std::fs::write(Path::new(&rules).join("50-more.cedar"), shadow).expect("policies");
    let told = replay(&home, 0, &["--against", &rules, "--since", "1h"]);
    assert_eq!((&told["flips"], &told["shadow_flips"][0]["count"]), (&json!([]), &json!(flipped.len())));
    assert_eq!(told["compared"], 1_920);
    // Old decisions are left out.
    assert_eq!(replay(&home, 0, &["--since", "2099-01-01"])["decisions"], 0);
    home.expect(2, &["policy", "replay", "--since", "yesterday"]);
    let none = home.beside("none");
    std::fs::create_dir(&none).expect("folder");
    home.expect(2, &["policy", "replay", "--against", &none.display().to_string()]);
}

/// Other tools for which a request has another form: it does not match, and is denied.
#[test]
fn requests_unknown_to_the_new_tools_are_denied_and_reported_separately() {
    let home = called();
    let other = home.beside("other");
    copy_folder(&home.path("etc"), &other);
    // Unchanged tools change nothing.
    assert_eq!(replay(&home, 0, &["--against", &other.display().to_string()])["compared"], 4);
    std::fs::remove_file(other.join("tools.d/health_check.toml")).expect("removed");
    let read = std::fs::read_to_string(other.join("policies/10-read.cedar")).expect("policies");
    let without = read.replacen("PAR::Action::\"health_check\"", "PAR::Action::\"list_dir\"", 1);
    assert_ne!(read, without);
    let without = without.replace("resource == PAR::Host::\"localhost\"", "resource in PAR::Path::\"@logs\"");
    std::fs::write(other.join("policies/10-read.cedar"), without).expect("policies");
    let told = replay(&home, 1, &["--against", &other.display().to_string()]);
    let flips = told["flips"].as_array().expect("flips");
    let by = "a request that does not match the new tools and schema";
    assert_eq!((flips.len(), &flips[0]["by"], &flips[0]["count"]), (1, &json!(by), &json!(2)), "{told}");
}

pub fn copy(home: &TestHome) -> TestHome {
    let copy = TestHome::empty();
    copy_folder(&home.root(), &copy.root());
    copy
}

/// A holder of files and keys can build a chain that verifies; but the decisions do not follow from
/// their rules.
#[test]
fn an_edited_decision_is_found_although_the_chain_was_rebuilt() {
    let home = called();
    assert_eq!(replay(&home, 0, &[])["as_recorded"], 4);
    let seq = denied(&home);
    type Change<'a> = &'a dyn Fn(&mut Map<String, Value>, &mut Value);
    let allow = |header: &mut Map<String, Value>| {
        header.insert("decision".to_owned(), json!("allow"));
        header.insert("policies".to_owned(), json!(["read-logs"]));
    };
    let request = &|name: &'static str, id: &'static str| {
        move |_: &mut Map<String, Value>, payload: &mut Value| payload["request"][name]["id"] = json!(id)
    };
    let changes: [(&str, Change<'_>); 11] = [
        ("recorded `allow` by read-logs; the rules say `deny` by no-login-records", &|header, payload| {
            allow(header);
            payload.as_object_mut().expect("object").remove("reason");
        }),
        ("recorded `deny`; the rules say", &|header, _| {
            header.remove("policies");
        }),
        ("no policy evaluated", &|header, payload| {
            allow(header);
            payload["request"] = json!({});
        }),
        ("the rules say `deny`", &|header, _| {
            header.insert("decision".to_owned(), json!("needs_approval"));
        }),
        ("in shadow mode", &|_, payload| {
            payload["shadow"] = json!({ "decision": "allow", "policies": [] });
        }),
        ("recorded an error", &|_, payload| payload["errors"] = json!(["broken"])),
        ("the request names the tool `list_dir`", &request("action", "list_dir")),
        ("the request names the session `ses_x`", &request("principal", "ses_x")),
        ("cannot be read", &|_, payload| payload["request"]["entities"] = json!(7)),
        ("names no policy bundle", &|header, _| {
            header.remove("policy");
        }),
        ("under another bundle", &|header, _| {
            header.insert("policy".to_owned(), json!(Digest::sha256(b"another").hex()));
        }),
    ];
    for (what, change) in changes {
        let copy = copy(&home);
        forge(&copy, seq, change);
        copy.expect(0, &["audit", "verify"]);
        let told = replay(&copy, 5, &[]);
        let found = told["differences"].as_array().expect("list");
        assert!(found.iter().all(|one| one["seq"] == json!(seq)), "{what}: {told}");
        assert!(found.iter().any(|one| one["what"].as_str().expect("text").contains(what)), "{what}: {told}");
        let words = copy.par(&["policy", "replay"]);
        assert_eq!(words.status.code(), Some(5));
        assert!(text(&words.stdout).contains(&format!("seq {seq}: ")), "{}", text(&words.stdout));
    }
}

/// The kept bundles are the ones that decided, or are refused.
#[test]
fn bundles_are_kept_before_they_count_and_must_be_whole() {
    let home = called();
    let loaded: BTreeSet<String> = home
        .entries(&["kind:policy.load"])
        .iter()
        .map(|entry| format!("{}.json", entry["policy"].as_str().expect("digest")))
        .collect();
    let kept = |home: &TestHome| -> BTreeSet<String> {
        let items = std::fs::read_dir(home.path("data/bundles")).expect("folder");
        items.map(|item| item.expect("entry").file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!((kept(&home), loaded.len()), (loaded.clone(), 2));
    let first = format!("{}.json", home.entry(denied(&home))["header"]["policy"].as_str().expect("digest"));

    let changed = copy(&home);
    let file = changed.path("data/bundles").join(&first);
    let text_of = std::fs::read_to_string(&file).expect("bundle");
    std::fs::write(&file, text_of.replace("@id(\\\"no-login-records\\\")", "@id(\\\"no-login-recordz\\\")"))
        .expect("changed");
    assert_ne!(std::fs::read_to_string(&file).expect("bundle"), text_of);
    assert_eq!(replay(&changed, 5, &[])["different"], 2);

    let without = copy(&home);
    std::fs::remove_file(without.path("data/bundles").join(&first)).expect("removed");
    let told = replay(&without, 1, &[]);
    assert_eq!((sum(&told["not_kept"]), &told["as_recorded"], &told["different"]), (2, &json!(2), &json!(0)));
    assert!(text(&without.par(&["policy", "replay"]).stdout).contains("which is no longer stored"));

    // An erased payload is counted, and is not a contradiction.
    let erased = copy(&home);
    connect(&erased.path("data/ledger.db"))
        .execute("UPDATE payload SET salt = NULL, body = NULL WHERE seq = ?1", [denied(&home) as i64])
        .expect("erased");
    let told = replay(&erased, 0, &[]);
    assert_eq!((&told["without_payload"], &told["as_recorded"]), (&json!(1), &json!(3)));
}

/// A running server keeps the bundle of a reload before it takes effect, and records each time a
/// rule in shadow mode would have decided otherwise.
#[test]
fn a_reload_keeps_its_bundle_and_shadow_mode_is_on_the_record() {
    let home = TestHome::init();
    let key = home.key("ops", "operator");
    let server = home.serve();
    home.add("policies/50-more.cedar", "@id(\"no-health\")\n@mode(\"shadow\")\nforbid (principal, action == PAR::Action::\"health_check\", resource);\n");
    home.expect(0, &["reload"]);
    let reply = server.run(&key, "how is this server doing?").json();
    assert_eq!(reply["steps"][0]["decision"], "allow", "{reply}");
    // Next to a running server.
    let told = replay(&home, 0, &[]);
    assert_eq!((&told["different"], &told["as_recorded"]), (&json!(0), &told["decisions"]));
    assert_eq!(told["shadow_flips"][0]["by"], "no-health");
    let seq = reply["steps"][0]["ledger"]["decision"].as_u64().expect("seq");
    let shadow = &home.entry(seq)["payload"]["shadow"];
    assert_eq!(*shadow, json!({ "decision": "deny", "policies": ["no-health"] }));
    assert_eq!(std::fs::read_dir(home.path("data/bundles")).expect("folder").count(), 2);
    let checked = home.expect(0, &["policy", "check"]);
    let line = checked.lines().find(|line| line.contains("no-health")).expect("listed");
    assert!(line.ends_with("in shadow mode: only reported"), "{line}");
    drop(server);
}
