//! Answers from the command line: next to a server, without one, and by address with a key.

use super::{People, grant, os_user};
use crate::support::{TestHome, text};
use serde_json::{Value, json};
use std::time::Duration;

/// One approval over HTTP and one through the admin socket at the same moment; and a late one
/// without a server.
#[test]
fn two_approvals_at_once_count_once_and_a_late_one_does_not() {
    let people = People::with("[approvals]\nexpire_s = 5\n");
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let id = approval["id"].as_str().expect("id").to_owned();
    let (by_http, by_socket) = std::thread::scope(|scope| {
        let socket = scope.spawn(|| people.home.approve(&id, &[]).status.code());
        (grant(&server, &people.ben, &approval).status, socket.join().expect("thread"))
    });
    assert!(matches!((by_http, by_socket), (200, Some(1)) | (409, Some(0))), "{by_http} {by_socket:?}");
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(people.home.entries(&["kind:approval.grant"]).len(), 1);
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1);

    let (_, approval) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    std::thread::sleep(Duration::from_secs(5));
    let late = people.home.approve(approval["id"].as_str().expect("id"), &[]);
    assert_eq!(late.status.code(), Some(1), "{}", text(&late.stderr));
    assert!(
        text(&late.stderr).contains("the approval has expired and the call was refused"),
        "{}",
        text(&late.stderr)
    );
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1, "nothing more ran");
    people.verify();
}

/// On the command line: the request is shown in full, asked on a terminal only, and answered
/// through the admin socket.
#[test]
fn a_person_answers_by_the_command_line_beside_a_server() {
    let people = People::new();
    let home = &people.home;
    let server = home.serve();
    let asked = home.command(&["run", &people.list()]).env("PAR_KEY", &people.asker).output().expect("par");
    assert_eq!(asked.status.code(), Some(4), "{}", text(&asked.stderr));
    let approvals = home.expect(0, &["approval", "list", "--json"]);
    let approval: Value = serde_json::from_str(approvals.trim()).expect("one");
    let id = approval["id"].as_str().expect("id");
    assert!(text(&asked.stderr).contains(&format!("par approval show {id}")), "{}", text(&asked.stderr));
    assert!(home.expect(0, &["approval", "list"]).contains(id));
    let shown = home.expect(0, &["approval", "show", id]);
    for part in ["list_dir", "release-list policies/50-people.cedar:2", "ask a member", "[\"release\"]"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains(approval["call_hash"].as_str().expect("hash")), "{shown}");
    let unasked = home.par(&["approval", "approve", id]);
    assert_eq!(unasked.status.code(), Some(2), "no terminal to ask on: {}", text(&unasked.stderr));
    let wrong = home.par(&["approval", "approve", id, "--card", "zzzz"]);
    assert!(wrong.status.code() == Some(1) && text(&wrong.stderr).contains("not approved"), "{wrong:?}");
    let said = text(&home.approve(id, &["--reason", "seen"]).stdout);
    assert!(said.contains(&format!("{id} granted")), "{said}");
    assert_eq!(people.ended(&server, &approval)["status"], "done");
    assert_eq!(home.par(&["approval", "deny", id]).status.code(), Some(1), "answered");
    assert_eq!(home.par(&["approval", "show", "apr_01JD0000000000000000000000"]).status.code(), Some(1));
    assert_eq!(home.par(&["approval", "show", "x"]).status.code(), Some(2));
    assert_eq!(home.entries(&["kind:approval.grant"])[0]["principal"], os_user());
    assert!(home.expect(0, &["audit", "show", "kind:approval.grant"]).contains(" granted"));

    // Who approved stands on the run, next to a server too.
    let own = home.par(&["run", &people.read()]);
    assert_eq!(own.status.code(), Some(4), "{}", text(&own.stderr));
    let confirmed: Value =
        serde_json::from_str(home.expect(0, &["approval", "list", "--json"]).trim()).expect("one");
    home.approve(confirmed["id"].as_str().expect("id"), &[]);
    assert_eq!(people.ended(&server, &confirmed)["status"], "done");
    let shown = home.expect(0, &["runs", "show", "latest"]);
    let by = format!("spent by {}", os_user().trim_start_matches("os:"));
    assert!(shown.contains(&by) && shown.contains("with the time for the approval"), "{shown}");

    let (run, approval) = people.ask(&server, &people.list());
    home.expect(0, &["approval", "deny", approval["id"].as_str().expect("id"), "--reason", "no"]);
    assert_eq!(people.ended(&server, &run)["steps"][0]["status"], "refused");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// One person without a server: a confirmation of their own call counts, an approval does not.
#[test]
fn a_lone_person_confirms_at_the_terminal_and_the_run_resumes_there() {
    let people = People::new();
    let home = &people.home;
    home.expect(4, &["run", &people.read()]);
    let one = |home: &TestHome| -> Value {
        serde_json::from_str(home.expect(0, &["approval", "list", "--json"]).trim()).expect("one")
    };
    let approval = one(home);
    assert_eq!((&approval["confirm"], &approval["groups"]), (&json!(true), &json!([])));
    let done = home.approve(approval["id"].as_str().expect("id"), &["--json"]);
    let reply: Value = serde_json::from_str(text(&done.stdout).trim()).expect("reply");
    assert_eq!((&reply["status"], &reply["run"]), (&json!("done"), &approval["run"]), "{reply}");
    assert_eq!(home.expect(0, &["approval", "list", "--json"]), "");
    assert_eq!(home.expect(0, &["approval", "list", "--all", "--json"]).lines().count(), 1);

    // A3: a refusal is the outcome of the run, above whatever the model says.
    home.expect(4, &["run", &people.read()]);
    let no = home.par(&["approval", "deny", one(home)["id"].as_str().expect("id"), "--reason", "not today"]);
    let said = text(&no.stdout);
    assert_eq!(no.status.code(), Some(0), "the refusal counts: {said}{}", text(&no.stderr));
    let refused = format!("1 call was refused by {}: not today", os_user().trim_start_matches("os:"));
    let places = [said.find(&refused), said.find("offline provider")].map(|at| at.expect("said"));
    assert!(places[0] < places[1] && text(&no.stderr).contains(" refused; ledger"), "{said}");

    home.expect(4, &["tool", "call", "list_dir", &json!({ "path": home.path("workspace/box") }).to_string()]);
    let approval = one(home);
    // The requester learns it before anything has to be typed.
    let untyped = home.par(&["approval", "approve", approval["id"].as_str().expect("id")]);
    assert_eq!(untyped.status.code(), Some(3), "{}", text(&untyped.stderr));
    assert!(text(&untyped.stderr).contains("the requester cannot approve"), "{}", text(&untyped.stderr));
    let own = home.approve(approval["id"].as_str().expect("id"), &[]);
    assert_eq!(own.status.code(), Some(3), "{}", text(&own.stderr));
    assert!(text(&own.stderr).contains("the requester cannot approve"), "{}", text(&own.stderr));
    // Another user, a member of the group, once a server runs; the requester's call ends as it
    // would have.
    let server = home.serve();
    let untyped = home.par(&["approval", "approve", approval["id"].as_str().expect("id")]);
    assert_eq!(untyped.status.code(), Some(3), "{}", text(&untyped.stderr));
    assert!(text(&untyped.stderr).contains("the requester cannot approve"), "{}", text(&untyped.stderr));
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &approval);
    assert_eq!((&ended["status"], &ended["steps"][0]["status"]), (&json!("done"), &json!("ok")), "{ended}");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// An approver needs no home and no account on the host: only a key and the server's address.
#[test]
fn an_approver_answers_by_address_with_a_key() {
    let people = People::new();
    let server = people.home.serve();
    let url = format!("http://{}", server.address);
    let elsewhere = tempfile::tempdir().expect("folder");
    let par = |key: &str, args: &[&str]| {
        let mut command = crate::support::start(&crate::support::binary());
        command.env_clear().env("PAR_KEY", key).current_dir(elsewhere.path());
        let output = command.args(args).args(["--url", &url]).output().expect("par starts");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (reply, question) = people.ask(&server, &people.list());
    let id = question["id"].as_str().expect("id");
    let card = people.home.card(id);
    let (code, listed, why) = par(&people.ben, &["approval", "list"]);
    assert!(code == Some(0) && listed.contains(id), "{listed} {why}");
    let (code, _, why) = par(&people.asker, &["approval", "show", id]);
    assert!(code == Some(3) && why.contains("forbidden"), "who asked has no business here: {why}");
    let (code, _, why) = par(&people.asker, &["approval", "approve", id, "--card", &card]);
    assert!(code == Some(3), "{why}");
    let (code, shown, why) =
        par(&people.ben, &["approval", "approve", id, "--card", &card, "--reason", "looked"]);
    assert!(code == Some(0) && shown.contains("list_dir") && shown.contains("granted"), "{shown} {why}");
    assert_eq!(people.ended(&server, &reply)["status"], "done");
    let (code, _, why) = par(&people.ben, &["approval", "deny", id]);
    assert!(code == Some(1) && why.contains("answered"), "{why}");
    people.verify();
}

/// Finding B1: the refusal of an answer prints the lines that would allow it, and they do.
#[test]
fn a_refusal_prints_the_lines_that_would_allow_it() {
    let people = People::new();
    let home = &people.home;
    let par_toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    let os = os_user();
    home.configure(&par_toml.replace(&format!(", \"{os}\""), ""));
    let server = home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let id = approval["id"].as_str().expect("id");
    let refused = home.approve(id, &[]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    let line = format!("release = [\"ana\", \"ben\", \"carl\", \"{os}\"]");
    assert!(said.contains("below `[groups]`") && said.contains(&line), "{said}");
    assert!(said.ends_with("par reload\n"), "{said}");
    let file = home.path("etc/par.toml");
    let written = std::fs::read_to_string(&file).expect("par.toml");
    let before = written.lines().find(|line| line.starts_with("release = ")).expect("the group").to_owned();
    std::fs::write(&file, written.replace(&before, &line)).expect("par.toml");
    let said = text(&home.approve(id, &[]).stderr);
    assert!(said.contains("not loaded yet"), "{said}");
    home.expect(0, &["reload"]);
    let asked = people.asked_again(&server, &approval);
    let granted = home.approve(asked["id"].as_str().expect("id"), &[]);
    assert_eq!(granted.status.code(), Some(0), "{}", text(&granted.stderr));
    assert_eq!(people.ended(&server, &run)["status"], "done");
}
