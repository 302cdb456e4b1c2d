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

/// The owner's own runs are listed, shown and sent again next to a server, without a key. Through
/// the admin socket the list is of all users, so nothing is said of missing ones.
#[test]
fn the_owner_reads_own_runs_next_to_a_server() {
    let home = TestHome::init();
    let server = home.serve();
    let asked = home.par(&["run", "read_file(path=\"/etc/shadow\")"]);
    assert_eq!(asked.status.code(), Some(0), "{}", text(&asked.stderr));
    let said = text(&asked.stderr);
    assert!(said.contains("1 call was refused and did not run: read_file (policy)"), "{said}");
    assert!(!said.contains("the model says:"), "only on a terminal: {said}");
    let listed = home.par(&["runs", "list"]);
    assert!(!text(&listed.stderr).contains("may be missing"), "{}", text(&listed.stderr));
    let rows = home.expect(0, &["runs", "list", "--json"]);
    let row: Value = serde_json::from_str(rows.lines().next().expect("a run")).expect("JSON");
    let run = row["run"].as_str().expect("id");
    let shown = home.expect(0, &["runs", "show", run]);
    assert!(shown.contains("par.outside") && shown.contains("/etc/shadow"), "{shown}");
    let again = home.expect(0, &["runs", "rerun", run]);
    assert!(again.contains("read_file /etc/shadow"), "{again}");
    assert_eq!(home.expect(0, &["runs", "list", "--json"]).lines().count(), 2);
    assert_eq!(server.stop(), Some(0));
}

/// A tool that is not there: what was probably meant, and a manifest that is not loaded yet. The
/// caller is not told that a hidden tool exists; a reader of the ledger is.
#[test]
fn a_tool_that_is_not_offered_is_explained_to_people() {
    let home = TestHome::init();
    let manifest = std::fs::read_to_string(home.path("etc/tools.d/health_check.toml")).expect("a manifest");
    let named = |name: &str| manifest.replace("name = \"health_check\"", &format!("name = \"{name}\""));
    let kernel = named("kernel");
    std::fs::write(home.path("etc/tools.d/hidden.toml"), named("hidden")).expect("written");
    let _server = home.serve();
    let meant = home.par(&["run", "list_dirs(path=\"/var/log\")"]);
    let told = text(&meant.stdout);
    assert!(told.contains("no tool is named `list_dirs`: did you mean `list_dir`?"), "{told}");
    std::fs::write(home.path("etc/tools.d/kernel.toml"), kernel).expect("written");
    let unloaded = home.par(&["tool", "call", "kernel"]);
    assert_eq!(unloaded.status.code(), Some(1));
    assert!(text(&unloaded.stderr).contains("`par reload` loads it"), "{}", text(&unloaded.stderr));
    let hidden = home.par(&["run", "hidden()"]);
    assert!(text(&hidden.stdout).contains("no tool is named `hidden`"), "{}", text(&hidden.stdout));
    let near = home.par(&["run", "hiddem()"]);
    assert!(!text(&near.stdout).contains("did you mean"), "{}", text(&near.stdout));
    let card = |tool: &str| {
        let headers = home.entries(&["kind:call.decision", &format!("tool:{tool}")]);
        home.expect(0, &["audit", "show", &headers[0]["seq"].to_string()])
    };
    assert!(card("hidden").contains("`hidden` was loaded, but no policy permits"), "{}", card("hidden"));
    assert!(!card("kernel").contains("was loaded"), "{}", card("kernel"));
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
