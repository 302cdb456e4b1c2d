//! The server stops, is killed, or finds an older state.db: an approval request stays, and an
//! approval is used once.

use super::{People, check, grant, until};
use serde_json::json;
use std::time::Duration;

#[test]
fn an_approval_that_expires_while_no_server_runs_is_refused_at_the_next_start() {
    let people = People::with("[approvals]\nexpire_s = 1\n");
    let server = people.home.serve();
    let (run, _) = people.ask(&server, &people.list());
    server.kill();
    std::thread::sleep(Duration::from_millis(1_100));
    let server = people.home.serve();
    assert_eq!(people.ended(&server, &run)["steps"][0]["status"], "refused");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

#[test]
fn a_run_waits_through_a_restart() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    let server = people.home.serve();
    assert_eq!(server.get(&people.ben, "/approvals").json()["items"], json!([approval]));
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Killed after the approval and before the decision that uses it: the next start continues, once.
#[test]
fn an_approval_survives_a_crash() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    people.stop_tools(&server);
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    server.kill();
    let told = people.told(&run);
    assert_eq!(told.last().map(String::as_str), Some("approval.grant"), "{told:?}");
    let server = people.home.serve();
    let ended = people.ended(&server, &run);
    assert_eq!((&ended["status"], &ended["steps"][0]["status"]), (&json!("done"), &json!("ok")), "{ended}");
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1);
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Killed while the approved call runs: it is recorded as interrupted, never run again, and the run
/// ends.
#[test]
fn an_approved_call_that_a_crash_interrupted_does_not_run_twice() {
    let people = People::new();
    let slow = include_str!("../tools/tail.toml")
        .replace("name = \"tail\"", "name = \"follow\"")
        .replace("\"-n\", \"{lines}\"", "\"-n\", \"{lines}\", \"-f\"")
        .replace("wall_ms_max = 5000", "wall_ms_max = 20000");
    std::fs::write(people.home.path("etc/tools.d/follow.toml"), slow).expect("manifest");
    let ask = "@id(\"confirm-follow\")\n@require_confirm(\"\")\nforbid (principal, action == PAR::Action::\"follow\", \
               resource) unless { context.call.approved == \"confirmed\" };\n";
    std::fs::write(people.home.path("etc/policies/60-follow.cedar"), ask).expect("policy");
    let server = people.home.serve();
    let notes = people.home.path("workspace/notes");
    let (run, approval) = people.ask(&server, &format!("follow(path=\"{}\", lines=1)", notes.display()));
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let mut told = Vec::new();
    until("the call is let go", || {
        told = people.told(&run);
        told.contains(&"call.decision allow".to_owned())
    });
    if told.iter().any(|line| line.starts_with("call.result")) {
        eprintln!("skipped: programs cannot run here: {told:?}");
        return;
    }
    server.kill();
    let server = people.home.serve();
    let ended = people.ended(&server, &run);
    assert_eq!(
        (&ended["status"], &ended["steps"][0]["status"]),
        (&json!("done"), &json!("interrupted")),
        "{ended}"
    );
    let told = people.told(&run);
    assert_eq!(told.iter().filter(|line| *line == "call.decision allow").count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|line| line.starts_with("call.result")).count(), 1, "{told:?}");
    check(&grant(&server, &people.ben, &approval), 409, "answered");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// state.db from before the approval, restored: it is rebuilt from the ledger, and nothing is used
/// twice. A row changed by hand is refused, and found by `verify`.
#[test]
fn an_older_state_db_spends_nothing_twice() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    let (state, kept) = (people.home.path("data/state.db"), people.home.path("data/kept"));
    std::fs::copy(&state, &kept).expect("copy");
    let server = people.home.serve();
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    for beside in ["state.db-wal", "state.db-shm"] {
        let _absent = std::fs::remove_file(people.home.path("data").join(beside));
    }
    std::fs::rename(&kept, &state).expect("put back");
    let server = people.home.serve();
    check(&grant(&server, &people.ben, &approval), 409, "answered");
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1);
    people.verify();

    edit(&state, "UPDATE approval SET state = 'pending', answer_seq = NULL");
    edit(&state, "UPDATE run SET status = 'waiting'");
    check(&grant(&server, &people.ben, &approval), 500, "damaged");
    assert_eq!(server.stop(), Some(0));
    people.home.expect(5, &["audit", "verify"]);
    let server = people.home.serve();
    check(&grant(&server, &people.ben, &approval), 500, "damaged");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1, "nothing ran again");
    assert_eq!(people.home.entries(&["kind:approval.grant"]).len(), 1);
}

#[expect(clippy::disallowed_methods, reason = "simulates an edit by hand")]
fn edit(state: &std::path::Path, sql: &str) {
    let state = rusqlite::Connection::open(state).expect("state.db");
    state.execute(sql, []).expect(sql);
}
