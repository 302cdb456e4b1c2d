//! Payloads erased by `par audit redact`: they are in no file any more, and everything that refers
//! to them still works.

use crate::support::{TestHome, text};
use serde_json::{Value, json};
use std::path::Path;

const MARKER: &str = "orchid-9931-QxZw";

/// Files below `data/` whose raw bytes hold the marker.
fn found(home: &TestHome) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("folder") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if std::fs::read(&path).is_ok_and(|bytes| holds(&bytes)) {
                found.push(path.file_name().expect("name").to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(&home.path("data"), &mut found);
    found
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
}

/// The request of a run: the marker appears again in arguments, decision and reply.
fn message() -> String {
    format!(r#"list_dir(path="/var/log") read_file(path="/etc/{MARKER}")"#)
}

fn redact(home: &TestHome, code: i32, args: &[&str]) -> Value {
    let args = [&["audit", "redact", "--json", "--reason", "a test asks for it"], args].concat();
    serde_json::from_str(&home.expect(code, &args)).expect("JSON")
}

fn seqs(list: &Value) -> Vec<u64> {
    list.as_array().expect("list").iter().filter_map(|item| item["seq"].as_u64()).collect()
}

/// With the server running, killed right after the answer.
#[test]
fn an_erased_run_is_gone_and_still_listed() {
    let home = TestHome::init();
    let viewer = home.key("auditor", "viewer");
    let operator = home.key("runner", "operator");
    let server = home.serve();
    let reply = server.run(&operator, &message()).json();
    let run = reply["run"].as_str().expect("run").to_owned();
    assert!(!found(&home).is_empty(), "the words are there before");
    let (first, last) = (reply["ledger"]["first"].as_u64(), reply["ledger"]["last"].as_u64());
    let (first, last) = (first.expect("first"), last.expect("last"));

    // One entry alone: the related ones are named.
    let told = redact(&home, 0, &[&first.to_string()]);
    assert_eq!((seqs(&told["entries"]), &told["left"]), (vec![first], &json!([])));
    assert!(seqs(&told["same_words"]).contains(&last), "{told}");
    assert!(!found(&home).is_empty());
    let told = redact(&home, 0, &["--run", &run]);
    assert_eq!((&told["left"], &told["same_words"]), (&json!([]), &json!([])), "{told}");
    server.kill();
    assert_eq!(found(&home), Vec::<String>::new());
    let report: Value = serde_json::from_str(&home.expect(0, &["audit", "verify", "--json"])).expect("JSON");
    let entries = (first..=last).filter(|seq| home.entry(*seq)["payload"] == "erased").count();
    assert_eq!(report["redacted"].as_u64(), Some(entries as u64));

    let says = home.entry(told["entries"][0]["redaction"].as_u64().expect("number"));
    assert_eq!(says["header"]["kind"], "redaction");
    assert_eq!(says["payload"]["power"]["name"], "redact");
    assert_eq!(says["payload"]["power"]["policies"], json!(["administrators-do-all"]));
    let replayed: Value =
        serde_json::from_str(&home.expect(0, &["policy", "replay", "--json"])).expect("JSON");
    assert_eq!(replayed["different"], 0, "{replayed}");
    assert!(
        replayed["without_payload"].as_u64() > Some(0) && replayed["powers"].as_u64() > Some(0),
        "{replayed}"
    );

    // A client learns that it was erased.
    let server = home.serve();
    for path in ["/runs?limit=10".to_owned(), format!("/runs/{run}"), format!("/audit/entries/{first}")] {
        let answer = server.get(&viewer, &path);
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer.body));
        assert!(!holds(&answer.body), "{path}");
    }
    let again = server.get(&viewer, &format!("/runs/{run}")).json();
    assert_eq!(
        (&again["status"], again["steps"].as_array().map(Vec::len)),
        (&reply["status"], Some(2)),
        "{again}"
    );
    assert!(again["answer"].as_str().is_some_and(|answer| answer.contains("erased")), "{again}");
    assert_eq!(
        (&again["steps"][0]["args"], &again["steps"][0]["result"]),
        (&json!("erased"), &json!("erased"))
    );
    for view in ["timeline", "reader", "json"] {
        let page = page(&server, &viewer, &format!("/ui/runs/{run}?view={view}"));
        assert!(page.contains("erased") && !page.contains(MARKER), "{view}: {page}");
    }
    assert!(page(&server, &viewer, &format!("/ui/audit/{last}")).contains("was erased"));
    assert_eq!(server.stop(), Some(0));
    let proof = home.beside("run.proof").display().to_string();
    home.expect(0, &["audit", "prove", "--run", &run, "--out", &proof]);
    let key = home.expect(0, &["audit", "key"]);
    let checked = home.expect(0, &["audit", "check-proof", &proof, "--key", key.trim()]);
    assert!(checked.contains("run.reply"), "{checked}");
    assert_eq!(found(&home), Vec::<String>::new());
}

/// A page, after a login with the key.
fn page(server: &crate::support::Server, key: &str, path: &str) -> String {
    let origin = format!("Origin: http://{}\r\n", server.address);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let login = server.send("POST", "/ui/login", &format!("{origin}{form}"), format!("key={key}").as_bytes());
    let cookie = login.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("cookie");
    let cookie = cookie.split(';').next().expect("pair").to_owned();
    let answer = server.send("GET", path, &format!("Cookie: {cookie}\r\n"), b"");
    assert_eq!(answer.status, 200, "{path}: {}", text(&answer.body));
    text(&answer.body)
}

/// Without a server; and refusals, after which nothing has been done.
#[test]
fn without_a_server_and_all_or_none() {
    let home = TestHome::init();
    let reply: Value = serde_json::from_str(&home.expect(0, &["run", "--json", &message()])).expect("JSON");
    let (run, last) = (reply["run"].as_str().expect("run"), reply["ledger"]["last"].as_u64().expect("last"));
    let (last, size) = (last.to_string(), home.entries(&[]).len());
    for (code, args, why) in [
        (1, &[&last, "0"][..], "entry 0 is a `genesis`; its payload is never erased"),
        (1, &[&last, "99999"], "entry 99999 does not exist"),
        (1, &["--run", "run_none"], "the ledger holds no such payload to erase"),
        (2, &[], "required"),
        (2, &[&last, "--run", run], "cannot be used with"),
        (2, &["--reason", &format!("it says /etc/{MARKER}"), &last], "repeats words"),
    ] {
        let with_reason = [&["audit", "redact", "--reason", "a test"], args].concat();
        let all =
            if args.contains(&"--reason") { [&["audit", "redact"], args].concat() } else { with_reason };
        let refused = home.par(&all);
        let told = text(&refused.stderr);
        assert_eq!((refused.status.code(), told.contains(why)), (Some(code), true), "{args:?}: {told}");
    }
    assert_eq!(home.entries(&[]).len(), size);
    assert!(home.entry(last.parse().expect("number"))["payload"].is_object());
    let told = home.expect(0, &["audit", "redact", "--reason", "a test", "--run", run]);
    for part in ["erased #", "run.reply", "no trace of it is left", "not searched:", "backups"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(found(&home), Vec::<String>::new());
    assert!(home.expect(0, &["audit", "verify"]).contains("redacted)"));
    let says = home.entries(&["kind:redaction"]);
    assert!(home.entry(says[0]["seq"].as_u64().expect("seq"))["payload"].get("power").is_none());
    let again = home.par(&["audit", "redact", "--reason", "a test", &last]);
    assert!(text(&again.stderr).contains("already erased"));
}

/// Rules give this power: one that forbids it holds for the admin socket too.
#[test]
fn a_rule_can_forbid_it() {
    let home = TestHome::init();
    let reply: Value = serde_json::from_str(&home.expect(0, &["run", "--json", &message()])).expect("JSON");
    let last = reply["ledger"]["last"].as_u64().expect("last").to_string();
    home.add(
        "policies/50-more.cedar",
        "@id(\"never-erase\") forbid (principal, action == PAR::Action::\"redact\", resource);",
    );
    let server = home.serve();
    let refused = home.par(&["audit", "redact", "--reason", "a test", &last]);
    let told = text(&refused.stderr);
    assert_eq!((refused.status.code(), told.contains("never-erase")), (Some(6), true), "{told}");
    assert!(home.entry(last.parse().expect("number"))["payload"].is_object());
    assert_eq!(server.stop(), Some(0));
}
