//! Between an approval request and its run something changes: a rule, a tool, a script, a group, a
//! key.

use super::{People, check, grant, key, post, until};
use serde_json::json;

/// A changed rule or a changed tool needs another approval.
#[test]
fn a_change_of_policy_or_manifest_voids_the_request_and_asks_again() {
    let people = People::new();
    let manifest = people.home.path("etc/tools.d/list_dir.toml");
    let policy = people.home.path("etc/policies/50-people.cedar");
    let mut server = people.home.serve();
    let (run, mut approval) = people.ask(&server, &people.list());
    for (file, find, put) in [
        (&policy, "@advice(\"ask", "@advice(\"please ask"),
        (&manifest, "wall_ms_max = 5000", "wall_ms_max = 4000"),
    ] {
        assert_eq!(server.stop(), Some(0));
        let before = std::fs::read_to_string(file).expect("file");
        assert!(before.contains(find), "{before}");
        std::fs::write(file, before.replacen(find, put, 1)).expect("file");
        server = people.home.serve();
        let mut asked = Vec::new();
        until("approval is requested again", || {
            asked = server.get(&people.ben, "/approvals?state=pending").json()["items"]
                .as_array()
                .expect("items")
                .clone();
            asked.len() == 1 && asked[0]["id"] != approval["id"]
        });
        check(&grant(&server, &people.ben, &approval), 409, "answered");
        let old =
            server.get(&people.ben, &format!("/approvals/{}", approval["id"].as_str().expect("id"))).json();
        assert_eq!(old["state"], "void");
        assert_ne!(asked[0]["call_hash"], old["call_hash"]);
        let now = json!({ "id": asked[0]["id"], "call_hash": old["call_hash"] });
        check(&grant(&server, &people.ben, &now), 409, "wrong_call");
        approval = asked.remove(0);
    }
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &run);
    assert_eq!(
        (&ended["status"], ended["steps"].as_array().map(Vec::len)),
        (&json!("done"), Some(1)),
        "{ended}"
    );
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// What a changed `deploy.sh` would leave if it had run.
const OTHER_SCRIPT: &str = "printf '{}'; : >PWNED\n";

/// The script is edited while an approval request for it is open: whether it is unanswered, or
/// approved and not yet begun, the new bytes never run under the request for the old ones.
#[test]
fn a_script_that_changes_before_its_run_needs_another_approval() {
    let people = People::new();
    let (script, left) = (people.home.path("etc/jobs.d/deploy.sh"), people.home.path("workspace/demo/PWNED"));
    let message = "deploy(project=\"demo\", version=\"1.0.1\")";
    let mut server = people.home.serve();
    let (run, unanswered) = people.ask(&server, message);
    assert_eq!(server.stop(), Some(0));
    std::fs::write(&script, OTHER_SCRIPT).expect("script");
    server = people.home.serve();
    let asked = people.asked_again(&server, &unanswered);
    check(&grant(&server, &people.ben, &unanswered), 409, "answered");
    let old_yes = json!({ "id": asked["id"], "call_hash": unanswered["call_hash"] });
    check(&grant(&server, &people.ben, &old_yes), 409, "wrong_call");

    people.stop_tools(&server);
    assert_eq!(grant(&server, &people.ben, &asked).status, 200);
    server.kill();
    std::fs::write(&script, format!("{OTHER_SCRIPT}# and again\n")).expect("script");
    server = people.home.serve();
    let again = people.asked_again(&server, &asked);
    assert_eq!(people.state(&server, &asked), "void", "the yes was to another script");
    assert!(!left.exists() && people.home.entries(&["kind:call.result"]).is_empty(), "it ran");
    let told = people.told(&run);
    assert!(!told.contains(&"call.decision allow".to_owned()), "{told:?}");

    // Without a restart: the server continues with the bytes it has read, and requests approval
    // again if it reads others.
    std::fs::write(&script, format!("{OTHER_SCRIPT}# a third time\n")).expect("script");
    assert_eq!(people.state(&server, &again), "pending");
    people.home.expect(0, &["reload"]);
    let last = people.asked_again(&server, &again);
    check(&grant(&server, &people.ben, &again), 409, "answered");

    let no = json!({ "answer": "refuse", "call_hash": last["call_hash"] });
    assert_eq!(post(&server, &people.ben, &last, &no).status, 200);
    assert_eq!(people.ended(&server, &run)["steps"][0]["status"], "refused");
    assert!(!left.exists(), "it ran");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// A person who could approve when the request was made, and may not any more.
#[test]
fn a_user_who_left_the_group_or_lost_the_key_cannot_answer() {
    let people = People::new();
    let carl = key(&people.home, "carl", "approver", "carl");
    let server = people.home.serve();
    let (run, before) = people.ask(&server, &people.list());
    people.home.expect(0, &["key", "revoke", "carl"]);
    check(&grant(&server, &carl, &before), 401, "unauthenticated");
    assert_eq!(server.stop(), Some(0));
    let toml = std::fs::read_to_string(people.home.path("etc/par.toml")).expect("par.toml");
    people.home.configure(&toml.replace("\"ben\", ", ""));
    let second = key(&people.home, "carl-again", "approver", "carl");
    let server = people.home.serve();
    let asked = people.asked_again(&server, &before);
    check(&grant(&server, &people.ben, &asked), 403, "not_in_group");
    check(&grant(&server, &people.ben, &before), 403, "not_in_group");
    assert_eq!(grant(&server, &second, &asked).status, 200, "another key of a member");
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

#[test]
fn a_run_whose_key_was_withdrawn_does_not_go_on() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    people.home.expect(0, &["key", "revoke", "asker"]);
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &run);
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    let shown =
        server.get(&people.ben, &format!("/approvals/{}", approval["id"].as_str().expect("id"))).json();
    assert_eq!(shown["state"], "void");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}
