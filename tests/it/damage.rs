//! A ledger that was changed behind the server: every place says so, nothing runs, and the way out
//! works.

mod reads;

use crate::approval::People;
use crate::dashboard::log_in;
use crate::support::{Server, TestHome, text, until};
use serde_json::{Value, json};

/// Every entry is verified each second, so that a test need not wait for a day.
const OFTEN: &str = "[paths]\nlogs = \"/var/log\"\n[ledger]\nverify_every_s = 1\nverify_whole_every_s = 1\n";

/// Changes one byte in the middle of a payload, as another program would.
#[expect(clippy::disallowed_methods, reason = "tests edit the files directly")]
fn flip(file: &std::path::Path, seq: u64) {
    let db = rusqlite::Connection::open(file).expect("database");
    db.busy_timeout(std::time::Duration::from_secs(10)).expect("timeout");
    let seq = i64::try_from(seq).expect("number");
    let of = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
    let mut body = db.query_row("SELECT body FROM payload WHERE seq = ?1", [seq], of).expect("payload");
    let middle = body.len() / 2;
    body[middle] ^= 1;
    db.execute("UPDATE payload SET body = ?2 WHERE seq = ?1", rusqlite::params![seq, body]).expect("changed");
}

fn is_broken(server: &Server) -> bool {
    server.send("GET", "/readyz", "", b"").status == 503
}

/// What each place says of a ledger with a changed entry, while the server runs (A2).
#[test]
fn a_change_while_the_server_runs_is_shown_everywhere_and_nothing_runs() {
    let people = People::with(&OFTEN[OFTEN.find("[ledger]").expect("a table")..]);
    let home = &people.home;
    let server = home.serve();
    until("the ledger is verified", || {
        text(&server.send("GET", "/readyz", "", b"").body) == "ready\nledger: ok\n"
    });
    let metrics = text(&server.get(&people.viewer, "/metrics").body);
    assert!(metrics.contains("\npar_ledger_broken 0\n"), "{metrics}");
    let (reply, asked) = people.ask(&server, &people.list());
    let run = reply["run"].as_str().expect("run");
    let login = log_in(&server, &people.viewer);
    flip(&home.path("data/ledger.db"), 6);
    until("the change is found", || is_broken(&server));
    // One table: the place, and what it says.
    let page = |path: &str| text(&server.send("GET", path, &login, b"").body);
    let way_out = "par audit renew";
    for (place, says, words) in [
        (
            "/readyz",
            text(&server.send("GET", "/readyz", "", b"").body),
            "ledger_damaged\nledger: broken at 6\n",
        ),
        ("/health", text(&server.get(&people.viewer, "/health").body), "\"state\":\"broken\""),
        ("/health", text(&server.get(&people.viewer, "/health").body), "\"status\":\"degraded\""),
        ("/health", text(&server.get(&people.viewer, "/health").body), "\"reason\":\"the ledger is damaged"),
        ("/health", text(&server.get(&people.viewer, "/health").body), way_out),
        ("/metrics", text(&server.get(&people.viewer, "/metrics").body), "\npar_ledger_broken 1\n"),
        ("/ui/", page("/ui/"), "chain ✗ broken at 6"),
        ("/ui/", page("/ui/"), way_out),
        ("/ui/runs", page("/ui/runs"), "chain ✗ broken at 6"),
        // A key by its name and user, not by its id (C1).
        ("/ui/runs", page("/ui/runs"), ">asker (ana)<"),
        ("/ui/", page("/ui/"), ">asker (ana)<"),
        ("/ui/health", page("/ui/health"), "degraded"),
        ("/ui/health", page("/ui/health"), way_out),
        ("the log", server.log(), "THE LEDGER IS DAMAGED"),
    ] {
        assert!(says.contains(words), "{place} does not say {words:?}: {says}");
    }
    // Nothing runs, nothing is approved, no key is made, no rules are loaded.
    let refused = server.run(&people.asker, "health_check()");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("ledger_damaged")));
    assert!(text(&refused.body).contains(way_out), "{}", text(&refused.body));
    let id = asked["id"].as_str().expect("id");
    let answer = json!({ "answer": "grant", "call_hash": asked["call_hash"] }).to_string();
    let headers = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", people.ben);
    let answered = server.send("POST", &format!("/approvals/{id}"), &headers, answer.as_bytes());
    assert_eq!(answered.json()["code"], "ledger_damaged", "{}", text(&answered.body));
    for args in [&["key", "create", "late", "--role", "viewer"][..], &["reload"]] {
        let output = home.par(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(text(&output.stderr).contains(way_out), "{args:?}: {}", text(&output.stderr));
    }
    // The waiting run stays as it is, and can be read.
    assert_eq!(server.get(&people.asker, &format!("/runs/{run}")).json()["status"], "waiting");
    let kinds = kinds_since_damage(home);
    assert_eq!(kinds.first().map(String::as_str), Some("ledger.damage"), "{kinds:?}");
    assert!(kinds.iter().all(|kind| is_written(kind)), "{kinds:?}");
    let found = home.entries(&["kind:ledger.damage"]).remove(0);
    let found = home.entry(found["seq"].as_u64().expect("seq"));
    assert_eq!((&found["payload"]["entry"], &found["payload"]["pass"]), (&json!(6), &json!("whole")));
    assert_eq!(server.stop(), Some(0));
    a_start_is_read_only_until_the_log_is_renewed(&people, run);
}

fn kinds_since_damage(home: &TestHome) -> Vec<String> {
    let all = home.entries(&[]);
    let kinds = all.iter().map(|header: &Value| header["kind"].as_str().expect("kind").to_owned());
    kinds.skip_while(|kind| kind != "ledger.damage").collect()
}

fn is_written(kind: &str) -> bool {
    ["start", "stop", "auth.refused", "export", "ledger.damage"].contains(&kind)
}

fn a_start_is_read_only_until_the_log_is_renewed(people: &People, run: &str) {
    let home = &people.home;
    let server = home.serve();
    // At once: nothing waits for a verification.
    assert_eq!(text(&server.send("GET", "/readyz", "", b"").body), "ledger_damaged\nledger: broken at 6\n");
    assert_eq!(server.run(&people.asker, "health_check()").status, 503);
    assert_eq!(server.get(&people.asker, &format!("/runs/{run}")).json()["status"], "waiting");
    assert_eq!(server.stop(), Some(0));
    let kinds = kinds_since_damage(home);
    assert!(kinds.iter().all(|kind| is_written(kind)), "{kinds:?}");
    home.expect(5, &["audit", "verify"]);
    home.expect(0, &["audit", "renew", "--reason", "a byte was changed"]);
    home.expect(0, &["audit", "verify"]);
    let key = home.key("after", "operator");
    let server = home.serve();
    assert_eq!(server.run(&key, "health_check()").status, 200);
}

/// A change before the start, also in a sealed segment: the server starts, runs are taken while it
/// verifies, and it is read-only once the change is found (A2).
#[test]
fn a_change_before_the_start_is_found_after_it() {
    for is_sealed in [false, true] {
        let home = TestHome::init();
        home.configure("[paths]\nlogs = \"/var/log\"\n[ledger]\nsegment_bytes_max = 65536\n");
        let key = home.key("ops", "operator");
        let server = home.serve();
        for _ in 0..if is_sealed { 12 } else { 1 } {
            assert_eq!(server.run(&key, "health_check()").status, 200);
        }
        assert_eq!(server.stop(), Some(0));
        let seals = home.entries(&["kind:segment.seal"]).len();
        assert_eq!(seals > 0, is_sealed, "{seals} seals");
        flip(&home.path("data/ledger.db"), 3);
        let server = home.serve();
        until("the change is found", || is_broken(&server));
        assert_eq!(server.run(&key, "health_check()").json()["code"], "ledger_damaged");
        let health = server.get(&key, "/health").json();
        assert_eq!(health["ledger"]["verification"]["entry"], 3, "{health}");
        assert_eq!(server.stop(), Some(0));
    }
}

/// If the bytes are put back, the recorded damage stays: only a new log takes work again.
#[test]
fn bytes_that_were_put_back_do_not_undo_the_finding() {
    let home = TestHome::init();
    home.configure(OFTEN);
    let key = home.key("ops", "operator");
    let server = home.serve();
    flip(&home.path("data/ledger.db"), 2);
    until("the change is found", || is_broken(&server));
    assert_eq!(server.stop(), Some(0));
    flip(&home.path("data/ledger.db"), 2);
    let says = home.expect(0, &["audit", "verify"]);
    assert!(says.contains("damage was found at entry 2") && says.contains("par audit renew"), "{says}");
    let server = home.serve();
    assert_eq!(server.run(&key, "health_check()").json()["code"], "ledger_damaged");
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "renew", "--reason", "the finding was looked into"]);
    let key = home.key("ops", "operator");
    assert_eq!(home.serve().run(&key, "health_check()").status, 200);
}

/// A command that acts without a server verifies the newest entries first: it refuses, names the
/// way out, and records what it found.
#[test]
fn a_command_without_a_server_refuses_to_act_on_a_damaged_ledger() {
    let damaged = |fill: &dyn Fn(&TestHome)| {
        let home = TestHome::init();
        home.configure("[paths]\nlogs = \"/var/log\"\n");
        fill(&home);
        flip(&home.path("data/ledger.db"), 1);
        home
    };
    for args in [
        &["run", "health_check()"][..],
        &["tool", "call", "health_check"],
        &["key", "create", "late", "--role", "viewer"],
        &["audit", "redact", "2", "--reason", "a test"],
    ] {
        let home = damaged(&|home| drop(home.key("ops", "operator")));
        let before = home.entries(&[]).len();
        refuses(&home, args);
        let after = home.entries(&[]);
        let kinds = after.iter().skip(before).map(|header| header["kind"].as_str().expect("kind"));
        assert_eq!(kinds.collect::<Vec<_>>(), ["ledger.damage"], "{args:?}");
        // The finding is on record: it holds even if the byte is put back.
        flip(&home.path("data/ledger.db"), 1);
        refuses(&home, args);
    }
}

fn refuses(home: &TestHome, args: &[&str]) {
    let output = home.par(args);
    let says = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{args:?}: {says}{}", text(&output.stdout));
    assert!(says.contains("par audit renew --reason"), "{args:?}: {says}");
}

/// An approval is not given on a damaged ledger without a server either.
#[test]
fn an_approval_is_not_answered_on_a_damaged_ledger_without_a_server() {
    let people = People::new();
    let server = people.home.serve();
    let (_, asked) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    flip(&people.home.path("data/ledger.db"), 6);
    let output = people.home.approve(asked["id"].as_str().expect("id"), &[]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(people.home.entries(&["kind:approval.grant"]).is_empty());
}

/// A read that meets a damaged entry makes the server read-only, long before the next round of its
/// verification.
#[test]
fn a_read_that_meets_damage_makes_the_server_read_only() {
    let home = TestHome::init();
    let key = home.key("ops", "admin");
    let server = home.serve();
    until("the ledger is verified", || {
        text(&server.send("GET", "/readyz", "", b"").body) == "ready\nledger: ok\n"
    });
    flip(&home.path("data/ledger.db"), 4);
    assert!(!is_broken(&server));
    let _read = server.get(&key, "/audit/entries/4");
    until("the read is heard", || is_broken(&server));
    assert_eq!(server.run(&key, "health_check()").json()["code"], "ledger_damaged");
    let health = server.get(&key, "/health").json();
    assert_eq!(health["ledger"]["verification"]["entry"], 4, "{health}");
    assert_eq!(server.stop(), Some(0));
}

/// A few new entries are verified within seconds, and the badge counts them against all.
#[test]
fn a_few_new_entries_are_verified_at_once() {
    let home = TestHome::init();
    let key = home.key("ops", "admin");
    let server = home.serve();
    let login = log_in(&server, &key);
    let verified = || {
        let health = server.get(&key, "/health").json();
        let ledger = &health["ledger"];
        (ledger["verification"]["entries"].as_u64(), ledger["size"].as_u64())
    };
    until("the ledger is verified", || verified().0 > Some(0));
    let size = verified().1.expect("size");
    let page = text(&server.send("GET", "/ui/", &login, b"").body);
    assert!(page.contains(&format!("chain ✓ {size} of {size}")), "{page}");
    assert_eq!(server.run(&key, "health_check()").status, 200);
    until("the new entries are verified", || verified().0 > Some(size) && verified().0 == verified().1);
    assert_eq!(server.stop(), Some(0));
}

/// Lists, pages and exports go on in a damaged ledger, and mark the entry.
#[test]
fn a_damaged_entry_is_marked_and_hides_no_other() {
    let home = TestHome::init();
    let key = home.key("ops", "admin");
    let server = home.serve();
    for word in ["errors", "health_check()"] {
        assert_eq!(server.run(&key, word).status, 200);
    }
    let asked = home.entries(&["kind:run.request"])[0]["seq"].as_u64().expect("seq");
    let login = format!("{}Accept: text/html\r\n", log_in(&server, &key));
    flip(&home.path("data/ledger.db"), asked);
    let (marked, shown) = (format!("entry {asked} does not verify"), "health_check()");
    let page = |path: &str| {
        let answer = server.send("GET", path, &login, b"");
        (answer.status, text(&answer.body))
    };
    for (path, words) in [("/ui/runs", marked.as_str()), ("/ui/runs", shown), ("/ui/", shown)] {
        let (status, body) = page(path);
        assert!(status == 200 && body.contains(words), "{path} {status}: {body}");
    }
    let (status, body) = page(&format!("/ui/audit/{asked}"));
    assert!(status == 200 && body.contains("does not verify") && body.contains("Stored payload"), "{body}");
    assert_eq!(page(&format!("/ui/audit/{}", asked + 1)).0, 200);
    assert_eq!(page("/ui/audit").0, 200);
    assert!(page("/ui/audit/999999").1.starts_with("<!DOCTYPE html>"), "an error in a browser is a page");
    let runs = server.get(&key, "/runs").json();
    assert_eq!(runs["items"][1]["damaged"], asked, "{runs}");
    let entry = server.get(&key, &format!("/audit/entries/{asked}")).json();
    assert!(entry["damaged"].is_string() && entry["payload"].is_string(), "{entry}");
    assert_eq!(server.get(&key, "/audit?q=words").status, 200);
    until("the reads are heard", || is_broken(&server));
    let refused = home.par(&["login"]);
    let says = text(&refused.stderr);
    assert!(!refused.status.success() && says.contains("no approval can be answered"), "{says}");
    the_files_are_read_too(&home, asked);
    assert_eq!(server.stop(), Some(0));
    the_files_are_read_too(&home, asked);
}

fn the_files_are_read_too(home: &TestHome, asked: u64) {
    let card = home.expect(5, &["audit", "show", &asked.to_string()]);
    assert!(card.contains("does not verify: "), "{card}");
    assert!(home.expect(0, &["audit", "show"]).contains("does not verify"));
    let file = home.path("export.jsonl");
    let out = file.to_str().expect("path");
    let why = home.par(&["audit", "export", "--out", out]);
    let says = text(&why.stderr);
    assert_eq!(why.status.code(), Some(5), "{says}");
    assert!(says.contains(&format!("entry {asked} does not verify")), "{says}");
    let checked = home.par(&["audit", "verify", "--export", out]);
    let says = text(&checked.stderr);
    assert!(checked.status.code() == Some(5) && says.contains(&format!("line {}", asked + 2)), "{says}");
    std::fs::remove_file(&file).expect("removed");
}

/// A run with damaged entries is shown as far as it verifies, on every surface, and the damaged
/// entry is named: no error in its place, and no empty page.
#[test]
fn a_run_with_damaged_entries_is_shown_as_far_as_it_verifies() {
    let home = TestHome::init();
    home.expect(0, &["run", "list_dir(/var/log); read_file(/etc/shadow)"]);
    let seq = |kind: &str| home.entries(&[&format!("kind:{kind}")])[0]["seq"].as_u64().expect("seq");
    let (result, reply) = (seq("call.result"), seq("run.reply"));
    let run = home.entries(&["kind:run.reply"])[0]["run"].as_str().expect("run").to_owned();
    let viewer = home.key("sees", "viewer");
    flip(&home.path("data/ledger.db"), reply);
    flip(&home.path("data/ledger.db"), result);
    let shown = home.expect(5, &["runs", "show", &run]);
    for words in [
        "status   done",
        "list_dir",
        "read_file",
        &format!("these entries do not verify: {result}, {reply}"),
        &format!("par audit show {result}"),
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let again = home.par(&["runs", "rerun", &run]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again.stderr));

    let server = home.serve();
    let answer = server.get(&viewer, &format!("/runs/{run}"));
    assert_eq!(answer.status, 200, "{}", text(&answer.body));
    let told = answer.json();
    assert_eq!(told["ledger"]["damaged"], json!([result, reply]), "{told}");
    assert_eq!((&told["status"], &told["said_by"]), (&json!("done"), &json!("par")), "{told}");
    assert_eq!(told["steps"].as_array().map(Vec::len), Some(2), "{told}");
    let login = log_in(&server, &viewer);
    let page = server.send("GET", &format!("/ui/runs/{run}"), &login, b"");
    let body = text(&page.body);
    assert_eq!(page.status, 200, "{body}");
    for seq in [result, reply] {
        let words = format!("<a href=\"/ui/audit/{seq}\">Entry {seq}</a> does not verify");
        assert!(body.contains(&words), "{words}: {body}");
    }
    assert!(body.contains("list_dir") && body.contains("call.decision"), "{body}");
}

/// The server hears of what a command read in the files.
#[test]
fn what_a_command_reads_beside_the_server_makes_it_read_only() {
    let home = TestHome::init();
    let key = home.key("ops", "admin");
    let server = home.serve();
    until("the ledger is verified", || {
        text(&server.send("GET", "/readyz", "", b"").body) == "ready\nledger: ok\n"
    });
    flip(&home.path("data/ledger.db"), 4);
    let read = home.par(&["audit", "show", "4"]);
    let says = text(&read.stderr);
    assert!(read.status.code() == Some(5) && says.contains("was told"), "{says}");
    until("the server hears of it", || is_broken(&server));
    assert_eq!(server.run(&key, "health_check()").json()["code"], "ledger_damaged");
    assert_eq!(server.stop(), Some(0));
}
