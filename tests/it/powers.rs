//! Powers of the API under custom rules, on the real server: who is refused and why, what the
//! ledger records of those who were not, and what remains if the policies are broken.

use crate::approval::{People, grant, key};
use crate::dashboard::log_in;
use crate::forge::forge;
use crate::support::{Server, TestHome, copy_folder, text};
use serde_json::{Value, json};

fn status(server: &Server, key: &str, path: &str) -> (u16, String) {
    let answer = server.get(key, path);
    let detail = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    (answer.status, detail["detail"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_rule_of_ones_own_says_from_where_and_until_when() {
    let home = TestHome::init();
    home.drop_cases();
    home.add(
        "policies/50-mine.cedar",
        r#"@id("audit-from-inside")
@advice("the ledger is read from 10.0.0.0/8")
forbid (principal, action == PAR::Action::"audit_read", resource)
unless { context has source_ip && context.source_ip.isInRange(ip("10.0.0.0/8")) };

@id("keys-end")
@advice("ask for a key with an end")
forbid (principal, action == PAR::Action::"run", resource)
unless { context has expires };
"#,
    );
    let server = home.serve();
    let (viewer, endless) = (home.key("viewer", "viewer"), home.key("endless", "operator"));
    let asked = ["key", "create", "ends", "--role", "operator", "--expires", "1d"];
    let ends = home.expect(0, &asked).trim().to_owned();
    let (code, why) = status(&server, &viewer, "/audit/entries");
    assert_eq!(
        (code, why.as_str()),
        (403, "`audit_read` is forbidden by audit-from-inside: the ledger is read from 10.0.0.0/8")
    );
    assert_eq!(status(&server, &viewer, "/runs").0, 200, "other powers are as they were");
    let refused = server.run(&endless, "health_check()");
    let why = text(&refused.body);
    assert!(
        refused.status == 403 && why.contains("forbidden by keys-end: ask for a key with an end"),
        "{why}"
    );
    assert_eq!(server.run(&ends, "health_check()").status, 200);
    // If nothing permits it, the rules say what to ask for.
    let (code, why) = status(&server, &endless, "/audit/entries");
    assert_eq!(code, 403);
    assert!(why.contains("forbidden by audit-from-inside"), "{why}");
    let (_, why) = status(&server, &endless, "/approvals");
    assert_eq!(
        why,
        "the role `operator` does not have the power `approval_read`: ask for a key with the role approver"
    );
}

/// The attack: a key that may only run from one network is used from another, from which it may
/// approve.
#[test]
fn a_key_that_may_run_anywhere_answers_nothing() {
    let people = People::new();
    let dan = key(&people.home, "dan", "approver", "carl");
    people.home.add(
        "policies/70-far.cedar",
        "@id(\"far\")\npermit (principal in PAR::User::\"carl\", action == PAR::Action::\"run\", resource)\n\
         when { context has source_ip && context.source_ip.isInRange(ip(\"203.0.113.0/24\")) };\n",
    );
    let server = people.home.serve();
    let (_, approval) = people.ask(&server, &people.list());
    assert_eq!(server.run(&dan, "health_check()").status, 403, "not from here");
    let refused = grant(&server, &dan, &approval);
    assert_eq!(refused.status, 403);
    assert!(text(&refused.body).contains("may approve and may not run"), "{}", text(&refused.body));
    assert_eq!(people.state(&server, &approval), "pending");
    // Nor does the page show it a button that it may not use.
    let path = format!("/ui/approvals/{}", approval["id"].as_str().expect("id"));
    let page = |key: &str| text(&server.send("GET", &path, &log_in(&server, key), b"").body);
    let (of_dan, of_ben) = (page(&dan), page(&people.ben));
    assert!(!of_dan.contains("name=\"answer\"") && of_dan.contains("may not answer"), "{of_dan}");
    assert!(of_ben.contains("name=\"answer\""), "{of_ben}");
    // A user outside the group and the requester are refused in the same way.
    for (name, user, why) in
        [("erin", "erin", "only a user in the group"), ("ana2", "ana", "the requester cannot approve")]
    {
        let page = page(&key(&people.home, name, "approver", user));
        assert!(!page.contains("name=\"answer\"") && page.contains(why), "{name}: {page}");
    }
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let page = page(&people.ben);
    assert!(!page.contains("name=\"answer\""), "{page}");
}

#[test]
fn what_one_may_not_see_is_not_there() {
    let people = People::new();
    people.home.add(
        "policies/70-hidden.cedar",
        &format!(
            "@id(\"not-anas\")\nforbid (principal in PAR::User::\"erin\", action in [PAR::Action::\"approval_read\", \
             PAR::Action::\"run_read\"], resource)\nwhen {{ resource.owner == PAR::Caller::\"key:{}\" }};\n",
            people.asker.get(4..12).expect("id")
        ),
    );
    let (erin, reader) =
        (key(&people.home, "erin", "approver", "erin"), key(&people.home, "reader", "viewer", "erin"));
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let other = people.home.key("other", "operator");
    let others = server.run(&other, "health_check()").json();
    let id = approval["id"].as_str().expect("id");
    assert_eq!(status(&server, &erin, &format!("/approvals/{id}")).0, 404);
    assert_eq!(server.get(&erin, "/approvals").json()["items"], json!([]));
    assert_eq!(grant(&server, &erin, &approval).status, 404);
    let page = server.send("GET", &format!("/ui/approvals/{id}"), &log_in(&server, &erin), b"");
    assert_eq!(page.status, 404);
    assert_eq!(status(&server, &reader, &format!("/runs/{}", run["run"].as_str().expect("run"))).0, 404);
    let listed = server.get(&reader, "/runs").json();
    let listed: Vec<&Value> =
        listed["items"].as_array().expect("items").iter().map(|run| &run["run"]).collect();
    assert_eq!(listed, [&others["run"]]);
    let all = server.get(&people.viewer, "/runs").json();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(2), "{all}");
}

/// The power that admitted a request is on the ledger, can be decided again, and an edit of it is
/// found.
#[test]
fn what_was_done_by_a_power_says_which_request_let_it_in() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    people.ended(&server, &run);
    let _spare = people.home.key("spare", "viewer");
    people.home.expect(0, &["key", "revoke", "spare"]);
    people.home.expect(0, &["reload"]);
    assert_eq!(server.stop(), Some(0));
    let seq = |query: &str| {
        let found = people.home.entries(&[query]);
        found.last().and_then(|entry| entry["seq"].as_u64()).expect(query)
    };
    let granted = people.home.entry(seq("kind:approval.grant"));
    let power = &granted["payload"]["power"];
    assert_eq!((&power["name"], &power["policies"]), (&json!("approve"), &json!(["approvers-answer"])));
    assert_eq!(power["policy"], granted["header"]["policy"]);
    assert_eq!(power["request"]["context"]["via"], "http");
    assert_eq!(power["request"]["principal"]["id"], granted["header"]["principal"]);
    for (query, name) in [("kind:key.revoke", "key_manage"), ("kind:policy.load", "reload")] {
        let entry = people.home.entry(seq(query));
        let power = &entry["payload"]["power"];
        assert_eq!((&power["name"], &power["policies"]), (&json!(name), &json!(["administrators-do-all"])));
        assert_eq!(power["request"]["context"]["via"], "socket");
    }
    people.home.expect(0, &["audit", "verify"]);
    let replayed = |home: &TestHome, code: i32| -> Value {
        serde_json::from_str(&home.expect(code, &["policy", "replay", "--json"])).expect("JSON")
    };
    // The approval, a key created and revoked, and both entries of the reload.
    assert_eq!(replayed(&people.home, 0)["powers"], 5);
    type Change<'a> = &'a dyn Fn(&mut Value);
    let changes: [(&str, Change<'_>); 5] = [
        ("names another caller", &|power| power["request"]["principal"]["id"] = json!("key:Ab3dEf9h")),
        ("names another power", &|power| power["request"]["action"]["id"] = json!("run")),
        ("names another approval", &|power| power["request"]["resource"]["id"] = json!("apr_x")),
        ("granted by another; the rules say `allow` by approvers-answer", &|power| {
            power["policies"] = json!(["another"])
        }),
        ("under other rules", &|power| power["policy"] = json!("00".repeat(32))),
    ];
    for (what, change) in changes {
        let copy = TestHome::empty();
        copy_folder(&people.home.root(), &copy.root());
        forge(&copy, seq("kind:approval.grant"), |_, payload| change(&mut payload["power"]));
        let told = replayed(&copy, 5);
        assert!(told["differences"][0]["what"].as_str().expect("text").contains(what), "{what}: {told}");
    }
}

#[test]
fn a_server_with_broken_policies_is_closed_and_can_be_mended() {
    let people = People::new();
    let admin = people.home.key("admin", "admin");
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    people.home.add("policies/60-broken.cedar", "@id(\"x\")\npermit (principal, action, resource");
    let server = people.home.serve();
    let ready = server.send("GET", "/readyz", "", b"");
    assert_eq!((ready.status, text(&ready.body).as_str()), (503, "policy\n"));
    for path in ["/audit/entries", "/runs", "/approvals", "/tools", "/health", "/metrics"] {
        assert_eq!(server.get(&admin, path).status, 200, "{path}: an administrator reads");
    }
    let health = server.get(&admin, "/health").json();
    assert!(health["obstacles"][0].as_str().expect("why").contains("60-broken.cedar:2"), "{health}");
    assert_eq!(server.send("GET", "/ui/", &log_in(&server, &admin), b"").status, 200);
    for (key, path) in
        [(&people.viewer, "/audit/entries"), (&people.ben, "/approvals"), (&people.asker, "/runs")]
    {
        let (code, why) = status(&server, key, path);
        assert!(code == 403 && why.contains("could not be loaded"), "{path}: {code} {why}");
    }
    for key in [&admin, &people.asker] {
        let refused = server.run(key, "health_check()");
        assert!(refused.status == 403 && text(&refused.body).contains("could not be loaded"));
    }
    assert_eq!(grant(&server, &people.ben, &approval).status, 403);
    let refused = people.home.approve(approval["id"].as_str().expect("id"), &[]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    // Keys can be created and revoked through the admin socket, and rules that are still broken are
    // not loaded.
    let _new = people.home.key("new", "viewer");
    people.home.expect(0, &["key", "revoke", "new"]);
    let output = people.home.par(&["reload"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("60-broken.cedar:2"));
    let load = people.home.entries(&["kind:policy.load"]);
    let seq = load.last().and_then(|entry| entry["seq"].as_u64()).expect("load");
    assert!(people.home.entry(seq)["payload"]["not_loaded"].to_string().contains("60-broken.cedar:2"));

    std::fs::remove_file(people.home.path("etc/policies/60-broken.cedar")).expect("removed");
    people.home.expect(0, &["reload"]);
    assert_eq!(server.send("GET", "/readyz", "", b"").status, 200);
    // The run that waited still waits: the rules that required approval are in force again.
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.home.expect(0, &["audit", "verify"]);
    people.home.expect(0, &["policy", "replay"]);
}

#[test]
fn a_power_is_explained_like_a_call() {
    let home = TestHome::init();
    let told = home.expect(0, &["policy", "explain", "run"]);
    assert!(told.starts_with("allow  operators-run\n"), "{told}");
    let told = home.expect(3, &["policy", "explain", "audit_read", "--as", "operator"]);
    assert!(told.starts_with("deny  no policy permits it"), "{told}");
    assert!(told.contains("advice: ask for a key with the role viewer"), "{told}");
    let told = home.expect(3, &["policy", "explain", "run_read"]);
    assert!(
        told.contains(
            "nearest to a permit: operators-read-their-runs, but `resource.owner == principal` does not hold"
        ),
        "{told}"
    );
    home.expect(0, &["policy", "explain", "run_read", "--owner", "self"]);
    home.expect(0, &["policy", "explain", "reload", "--as", "admin", "--via", "socket"]);
    for (args, why) in [
        (["run", "--owner", "self"], "which has no owner"),
        (["run", "--via", "window"], "unknown door"),
        (["run", "--as", "root"], "unknown key or role"),
    ] {
        let output = home.par(&[["policy", "explain"].as_slice(), args.as_slice()].concat());
        assert!(
            output.status.code() == Some(2) && text(&output.stderr).contains(why),
            "{}",
            text(&output.stderr)
        );
    }
}
