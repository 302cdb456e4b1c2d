//! `par.sock`: users of this host ask next to a running server, without a key.

use crate::support::{TestHome, is_root, text};
use serde_json::{Value, json};
use std::os::unix::process::CommandExt as _;

/// Finding B3: `par run` and `par tool call` next to a server needed a key, or were refused.
#[test]
fn the_owner_asks_next_to_a_server_without_a_key() {
    let home = TestHome::init();
    let server = home.serve();
    let reply: Value =
        serde_json::from_str(&home.expect(0, &["run", "health_check()", "--json"])).expect("JSON");
    assert_eq!((&reply["status"], &reply["steps"][0]["tool"]), (&json!("done"), &json!("health_check")));
    let listed = home.expect(0, &["tool", "call", "list_dir", "{\"path\": \"/var/log\"}"]);
    assert!(listed.contains("\"entries\""), "{listed}");
    let refused = home.par(&["tool", "call", "read_file", "{\"path\": \"/etc/shadow\"}"]);
    assert_eq!(refused.status.code(), Some(3), "a denied call fails: {}", text(&refused.stdout));
    let unfit = home.par(&["tool", "call", "health_check", "{"]);
    assert_eq!(unfit.status.code(), Some(2), "{}", text(&unfit.stderr));
    let asked = home.entries(&["kind:run.request"]);
    assert_eq!(asked.len(), 3);
    for header in &asked {
        let entry = home.entry(header["seq"].as_u64().expect("seq"));
        assert_eq!(entry["payload"]["via"], "par_sock", "{entry}");
        assert!(header["principal"].as_str().is_some_and(|by| by.starts_with("os:")), "{header}");
    }
    assert_eq!(server.stop(), Some(0));
    assert!(!home.path("data/par.sock").exists(), "it is removed with the server");
    home.expect(0, &["run", "health_check()"]);
    let local = home.entries(&["kind:run.request"]).pop().expect("a run without a server");
    assert_eq!(home.entry(local["seq"].as_u64().expect("seq"))["payload"]["via"], "local");
    home.expect(0, &["audit", "verify"]);
}

/// A key that the caller has goes over the network, as before.
#[test]
fn a_key_in_the_environment_is_used() {
    let home = TestHome::init();
    let key = home.key("ops", "operator");
    let _server = home.serve();
    let output = home.command(&["run", "health_check()"]).env("PAR_KEY", &key).output().expect("par");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let asked = home.entries(&["kind:run.request"]).pop().expect("asked");
    let entry = home.entry(asked["seq"].as_u64().expect("seq"));
    assert_eq!(entry["payload"]["via"], "http");
    assert!(asked["principal"].as_str().is_some_and(|by| by.starts_with("key:")), "{asked}");
}

/// Users of the host reach only the installed service: every place says so.
#[test]
fn a_home_that_is_not_the_service_says_that_other_users_need_a_key() {
    let home = TestHome::init();
    let before = std::fs::read_to_string(home.path("etc/par.toml")).expect("text");
    home.configure(&format!(
        "{before}\n[auth.os_users]\ndaemon = {{ user = \"ana\", role = \"approver\" }}\n"
    ));
    let told = home.expect(0, &["config", "check"]);
    assert!(told.contains("`auth.os_users`: daemon has no way in"), "{told}");
    assert!(told.contains("installed service") && told.contains("PAR_KEY"), "{told}");
    let server = home.serve();
    assert!(server.log().contains("daemon has no way in"), "{}", server.log());
    if !is_root() {
        return;
    }
    for args in [vec!["approval", "list"], vec!["run", "health_check()"]] {
        let refused = home.command(&args).uid(1).gid(1).output();
        let Ok(refused) = refused else {
            eprintln!("skipped: another user cannot start the test's program");
            return;
        };
        let told = text(&refused.stderr);
        assert!(!refused.status.success() && told.contains("installed service"), "{args:?}: {told}");
    }
}
