//! Evidence that leaves the host: what a third party can check, and what a returning client
//! refuses.

use crate::forge::forge;
use crate::support::{TestHome, binary, copy_folder, start, text};
use serde_json::{Value, json};
use std::process::Output;

/// `par` as on another machine: no home, no server, only the binary.
fn stranger(folder: &std::path::Path, args: &[&str]) -> Output {
    start(&binary()).env_clear().current_dir(folder).args(args).output().expect("par starts")
}

/// A run that read, was refused and answered.
fn run(home: &TestHome) -> String {
    let message = r#"list_dir(path="/var/log") read_file(path="/etc/shadow")"#;
    let reply: Value = serde_json::from_str(&home.expect(0, &["run", "--json", message])).expect("JSON");
    reply["run"].as_str().expect("run").to_owned()
}

/// A run's proof is checked with the file and the public key alone, and covers the whole run.
#[test]
fn a_runs_proof_is_checked_by_a_stranger() {
    let home = TestHome::init();
    let run = run(&home);
    let key = home.expect(0, &["audit", "key"]).trim().to_owned();
    let elsewhere = tempfile::tempdir().expect("folder");
    let file = elsewhere.path().join("run.proof");
    home.expect(0, &["audit", "prove", "--run", &run, "--out", file.to_str().expect("path")]);
    let checked = stranger(elsewhere.path(), &["audit", "check-proof", "run.proof", "--key", &key]);
    let told = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{told}{}", text(&checked.stderr));
    for part in
        ["run.request", "call.decision", "list_dir", "allow", "deny", "run.reply", "key of epoch 1", &run]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let json = stranger(elsewhere.path(), &["--json", "audit", "check-proof", "run.proof", "--key", &key]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let kinds: Vec<&str> = json["entries"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(|e| e["header"]["kind"].as_str())
        .collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"run.request"), Some(&"run.reply")), "{kinds:?}");

    // A changed word, a missing entry, another key.
    let proof = std::fs::read_to_string(&file).expect("proof");
    let mut without: Value = serde_json::from_str(&proof).expect("JSON");
    let entries = without["entries"].as_array_mut().expect("list");
    entries.remove(2);
    for (what, changed) in
        [("changed", proof.replace("/etc/shadow", "/etc/passwd")), ("left out", without.to_string())]
    {
        std::fs::write(&file, changed).expect("file");
        let checked = stranger(elsewhere.path(), &["audit", "check-proof", "run.proof", "--key", &key]);
        assert_eq!(checked.status.code(), Some(5), "{what}: {}", text(&checked.stdout));
        assert!(text(&checked.stderr).contains("nothing is proven"), "{what}");
    }
    std::fs::write(&file, proof).expect("file");
    let other = TestHome::init();
    let _run = self::run(&other);
    let foreign = other.expect(0, &["audit", "key"]).trim().to_owned();
    let checked = stranger(elsewhere.path(), &["audit", "check-proof", "run.proof", "--key", &foreign]);
    assert_eq!(checked.status.code(), Some(5));
}

/// One entry as a C2SP tlog-proof, from the files and over HTTP.
#[test]
fn an_entrys_proof_is_a_tlog_proof() {
    let home = TestHome::init();
    let _run = run(&home);
    let key = home.expect(0, &["audit", "key"]).trim().to_owned();
    let proof = home.expect(0, &["audit", "prove", "3"]);
    let mut lines = proof.lines();
    assert_eq!(lines.next(), Some("c2sp.org/tlog-proof@v1"));
    assert!(lines.next().is_some_and(|line| line.starts_with("extra ")));
    assert_eq!(lines.next(), Some("index 3"));
    let auditor = home.key("auditor", "viewer");
    let runner = home.key("runner", "operator");
    let server = home.serve();
    let over_http = server.get(&auditor, "/audit/proof?seq=3");
    assert_eq!(over_http.status, 200);
    let folder = tempfile::tempdir().expect("folder");
    for proof in [proof.as_bytes(), &over_http.body] {
        std::fs::write(folder.path().join("proof"), proof).expect("file");
        let checked = stranger(folder.path(), &["audit", "check-proof", "proof", "--key", &key]);
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    }
    // A user who may not read the audit reads no entry; the tree itself is readable with any key.
    assert_eq!(server.get(&runner, "/audit/proof?seq=3").status, 403);
    for path in ["/audit/checkpoint", "/audit/key", "/audit/consistency?from=1&to=3"] {
        assert_eq!(server.get(&runner, path).status, 200, "{path}");
        assert_eq!(server.get("par_none", path).status, 401, "{path}");
    }
    assert_eq!(text(&server.get(&runner, "/audit/key").body).trim(), key);
    for path in [
        "/audit/consistency?from=0&to=3",
        "/audit/consistency?from=3&to=1",
        "/audit/consistency?to=99999&from=1",
    ] {
        assert_eq!(server.get(&runner, path).status, 422, "{path}");
    }
    assert_eq!(server.get(&auditor, "/audit/proof?seq=99999").status, 404);
}

/// A kept checkpoint reveals a rollback and a rewrite, even by a holder of the live keys.
#[test]
fn a_kept_checkpoint_reveals_changes() {
    let home = TestHome::init();
    let yesterday = TestHome::empty();
    copy_folder(&home.root(), &yesterday.root());
    let message = r#"read_file(path="/etc/shadow")"#;
    let reply = home.par(&["run", "--json", message]);
    let kept = home.path("kept.json");
    std::fs::write(&kept, &reply.stdout).expect("reply");
    let _run = run(&home);
    let verify = |home: &TestHome, code: i32| -> Value {
        let path = kept.to_str().expect("path").to_owned();
        serde_json::from_str(&home.expect(code, &["audit", "verify", "--json", "--checkpoint", &path]))
            .expect("JSON")
    };
    let whole = verify(&home, 0);
    assert_eq!((&whole["verdict"], whole["anchored"].is_u64()), (&json!("verified"), true), "{whole}");
    let path = kept.to_str().expect("path");
    let from = ["audit", "verify", "--json", "--from", "3", "--checkpoint", path];
    let part: Value = serde_json::from_str(&home.expect(0, &from)).expect("JSON");
    assert_eq!((&part["from"], &part["verdict"]), (&json!(3), &json!("verified")), "{part}");
    assert_eq!((&part["root"], &part["state_rows"]), (&whole["root"], &Value::Null), "{part}");
    assert!(home.expect(2, &["audit", "verify", "--from", "99999"]).is_empty());
    let alone: Value = serde_json::from_str(&home.expect(0, &["audit", "verify", "--json"])).expect("JSON");
    assert_eq!(alone["verdict"], "verified_unanchored");

    let rewritten = TestHome::empty();
    copy_folder(&home.root(), &rewritten.root());
    let denied = rewritten.entries(&["kind:call.decision", "decision:deny"])[0]["seq"].as_u64().expect("seq");
    forge(&rewritten, denied, |header, _| {
        header.insert("decision".to_owned(), json!("allow"));
    });
    rewritten.expect(0, &["audit", "verify"]);
    assert_eq!(verify(&rewritten, 5)["verdict"], "diverged");

    let _first = run(&yesterday);
    yesterday.expect(0, &["audit", "verify"]);
    assert_eq!(verify(&yesterday, 5)["verdict"], "diverged", "yesterday's copy, gone on with");
    let other = TestHome::init();
    let _run = run(&other);
    assert_eq!(verify(&other, 5)["verdict"], "diverged", "another log");
}

/// A client that called yesterday refuses today's rewritten ledger before anything runs on it.
#[test]
fn a_client_that_called_before_refuses_a_rewritten_ledger() {
    let home = TestHome::init();
    let key = home.key("script", "operator");
    let client = tempfile::tempdir().expect("folder");
    let call = |url: &str| {
        let mut command = start(&binary());
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", client.path()).env("PAR_KEY", &key);
        command.args(["run", "--url", url, r#"read_file(path="/etc/shadow")"#]).output().expect("par starts")
    };
    let server = home.serve();
    let (port, url) = (server.address.clone(), format!("http://{}", server.address));
    let first = call(&url);
    assert!(text(&first.stderr).contains("first contact"), "{}", text(&first.stderr));
    let again = call(&url);
    assert!(!text(&again.stderr).contains("first contact"), "{}", text(&again.stderr));
    assert_eq!((first.status.code(), again.status.code()), (Some(0), Some(0)), "{}", text(&again.stderr));
    assert_eq!(server.stop(), Some(0));

    let denied = home.entries(&["kind:call.decision"])[0]["seq"].as_u64().expect("seq");
    forge(&home, denied, |header, _| {
        header.insert("decision".to_owned(), json!("allow"));
    });
    home.expect(0, &["audit", "verify"]);
    let server = home.serve_at(&port);
    let requests = || home.entries(&["kind:run.request"]).len();
    let before = requests();
    let refused = call(&url);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(said.contains("entries have changed") && said.contains("par audit trust"), "{said}");
    assert_eq!(requests(), before, "nothing was sent to run");

    // A person who knows the reason accepts the log as it is now.
    let log = home.expect(0, &["audit", "key"]);
    let mut trust = start(&binary());
    trust.env_clear().env("HOME", client.path()).args(["audit", "trust", &url, "--key", log.trim()]);
    assert!(trust.status().expect("par starts").success());
    assert_eq!(call(&url).status.code(), Some(0));
    assert_eq!(server.stop(), Some(0));
}

/// A second verification of the same home compares it with what was there the first time.
#[test]
fn a_verification_is_remembered() {
    let home = TestHome::init();
    let _run = run(&home);
    let person = tempfile::tempdir().expect("folder");
    let verify = || {
        let mut command = home.command(&["audit", "verify", "--json"]);
        let output = command.env("HOME", person.path()).output().expect("par starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), report["verdict"].as_str().expect("verdict").to_owned())
    };
    assert_eq!(verify(), (Some(0), "verified_unanchored".to_owned()));
    assert_eq!(verify(), (Some(0), "verified".to_owned()));
    let _run = run(&home);
    assert_eq!(verify(), (Some(0), "verified".to_owned()));
    forge(&home, 3, |header, _| {
        header.insert("boot".to_owned(), json!("another"));
    });
    assert_eq!(verify(), (Some(5), "diverged".to_owned()));
}

/// `--since-last` reads what came after a verification that succeeded, and relies on its checkpoint
/// alone.
#[test]
#[expect(clippy::disallowed_methods, reason = "simulates an edit by hand")]
fn a_verification_may_continue_from_the_last_one() {
    let home = TestHome::init();
    let _run = run(&home);
    let person = tempfile::tempdir().expect("folder");
    let verify = |home: &TestHome, more: &[&str]| {
        let mut command = home.command(&[&["audit", "verify", "--json"], more].concat());
        let output = command.env("HOME", person.path()).output().expect("par starts");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), report)
    };
    let since = ["--since-last"];
    assert_eq!(verify(&home, &since).0, Some(2), "nothing was verified yet");
    // A part of a ledger is not all of it.
    let kept = home.path("kept.note");
    std::fs::write(&kept, home.expect(0, &["audit", "checkpoint"])).expect("note");
    let path = kept.to_str().expect("path");
    assert_eq!(verify(&home, &["--from", "3", "--checkpoint", path]).0, Some(0));
    assert_eq!(verify(&home, &since).0, Some(2), "a part was");
    let (code, whole) = verify(&home, &[]);
    assert_eq!(code, Some(0), "{whole}");
    let size = whole["signed"].as_u64().expect("signed");
    for _ in 0..2 {
        let _run = run(&home);
        let (code, part) = verify(&home, &since);
        assert_eq!((code, &part["verdict"]), (Some(0), &json!("verified")), "{part}");
        assert!(part["from"].as_u64() >= Some(size) && part["entries"].as_u64() > Some(0), "{part}");
        assert!(part["warnings"].to_string().contains("were not read"), "{part}");
    }
    let (code, nothing) = verify(&home, &since);
    assert_eq!((code, &nothing["entries"]), (Some(0), &json!(0)), "nothing is new: {nothing}");

    // Stored data of earlier entries is not read; their tree is.
    let changed = TestHome::empty();
    copy_folder(&home.root(), &changed.root());
    let known = person.path().join(".config/par/known-logs");
    let text = std::fs::read_to_string(&known).expect("known logs");
    let (here, there) = (home.path("data"), changed.path("data"));
    let moved = text.replace(here.to_str().expect("path"), there.to_str().expect("path"));
    std::fs::write(&known, text.clone() + &moved).expect("known logs");
    rusqlite::Connection::open(changed.path("data/ledger.db"))
        .expect("database")
        .execute("UPDATE payload SET body = x'7b7d' WHERE seq = 3", [])
        .expect("changed");
    assert_eq!(verify(&changed, &since).0, Some(0));
    assert_eq!(verify(&changed, &[]).0, Some(5));
    forge(&home, 3, |header, _| {
        header.insert("boot".to_owned(), json!("another"));
    });
    let (code, forged) = verify(&home, &since);
    assert_eq!((code, &forged["verdict"]), (Some(5), &json!("diverged")), "{forged}");
    // A log that is trusted as it is now has not been verified.
    let mut trust = home.command(&["audit", "trust", here.to_str().expect("path"), "--key"]);
    trust.arg(home.expect(0, &["audit", "key"]).trim()).env("HOME", person.path());
    assert!(trust.status().expect("par starts").success());
    assert_eq!(verify(&home, &since).0, Some(2));
}

#[test]
fn a_home_made_again_at_a_known_place_says_how_its_log_is_accepted() {
    let person = tempfile::tempdir().expect("folder");
    let home = TestHome::init();
    let verify = || {
        let output = home.command(&["audit", "verify"]).env("HOME", person.path()).output();
        let output = output.expect("par starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let _run = run(&home);
    assert_eq!(verify().0, Some(0));
    std::fs::remove_dir_all(home.path("data")).expect("removed");
    home.expect(0, &["init"]);
    let _run = run(&home);
    let (code, said) = verify();
    assert_eq!(code, Some(5), "{said}");
    let key = home.expect(0, &["audit", "key"]);
    let mend = format!("par audit trust {} --key {}", home.path("data").display(), key.trim());
    assert!(said.contains("If this home was made again") && said.contains(&mend), "{said}");
    assert!(!said.contains("the way out"), "nothing is damaged: {said}");
    let mut trust = home.command(&["audit", "trust", home.path("data").to_str().expect("path"), "--key"]);
    assert!(trust.arg(key.trim()).env("HOME", person.path()).status().expect("par starts").success());
    assert_eq!(verify().0, Some(0));
}
