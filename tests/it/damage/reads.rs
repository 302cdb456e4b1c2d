//! What commands say on a damaged ledger: what is sound is shown whole, what is not is marked, the
//! server hears of it, and every refusal has the same exit code.

use super::{flip, is_broken};
use crate::approval::People;
use crate::support::{Server, TestHome, text, until};

fn verified(server: &Server) {
    until("the ledger is verified", || {
        text(&server.send("GET", "/readyz", "", b"").body) == "ready\nledger: ok\n"
    });
}

/// The entries of the first run of a home: of its decision, and of the result of that call.
fn first_call(home: &TestHome) -> (u64, u64) {
    let seq = |kind: &str| home.entries(&[&format!("kind:{kind}")])[0]["seq"].as_u64().expect("seq");
    (seq("call.decision"), seq("call.result"))
}

/// A healthy entry is shown whole, and a damaged neighbour is marked, as is a rule whose
/// `policy.load` does not verify.
#[test]
fn a_damaged_neighbour_is_marked_and_hides_nothing_of_an_entry() {
    let home = TestHome::init();
    home.expect(0, &["run", "list_dir(/var/log)"]);
    let (decision, result) = first_call(&home);
    let load = home.entries(&["kind:policy.load"])[0]["seq"].as_u64().expect("seq");
    let (of_decision, of_result) = (decision.to_string(), result.to_string());
    let whole = home.expect(0, &["audit", "show", &of_decision]);
    flip(&home.path("data/ledger.db"), result);
    let shown = home.expect(0, &["audit", "show", &of_decision]);
    let marked = format!("#{result} call.result does not verify: par audit show {result}");
    assert!(shown.contains(&marked), "{shown}");
    let kept = |line: &&str| !line.contains(&format!("#{result} "));
    assert_eq!(
        whole.lines().filter(kept).collect::<Vec<_>>(),
        shown.lines().filter(kept).collect::<Vec<_>>()
    );
    flip(&home.path("data/ledger.db"), result);
    flip(&home.path("data/ledger.db"), decision);
    let shown = home.expect(0, &["audit", "show", &of_result]);
    assert!(shown.contains(&format!("#{decision} call.decision does not verify")), "{shown}");
    assert!(shown.contains("took"), "{shown}");
    // In a list, the row of the healthy entry is not marked.
    let listed = home.expect(0, &["audit", "show", "kind:call.result"]);
    assert!(!listed.contains("does not verify"), "{listed}");
    flip(&home.path("data/ledger.db"), decision);
    flip(&home.path("data/ledger.db"), load);
    let shown = home.expect(0, &["audit", "show", &of_decision]);
    assert!(shown.contains(&format!("loaded by entry {load}, which does not verify")), "{shown}");
}

/// A server hears of damage from every command that reads the files and meets it, whatever else the
/// command was asked for.
#[test]
fn the_server_hears_of_damage_that_a_command_meets_beside_its_own_entry() {
    // The damaged entry: the decision of a call, or its result.
    for (args, of_result) in [
        (&["audit", "show", "DECISION"][..], true),
        (&["audit", "verify"], true),
        (&["audit", "export"], true),
        (&["policy", "explain", "DECISION"], false),
        (&["policy", "replay"], false),
        (&["doctor"], true),
    ] {
        let home = TestHome::init();
        home.expect(0, &["run", "list_dir(/var/log)"]);
        let key = home.key("ops", "admin");
        let (decision, result) = first_call(&home);
        let server = home.serve();
        verified(&server);
        flip(&home.path("data/ledger.db"), if of_result { result } else { decision });
        let named = decision.to_string();
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "DECISION" { named.as_str() } else { arg }).collect();
        let says = text(&home.par(&args).stderr);
        assert!(args.contains(&"export") || says.contains("was told"), "{args:?}: {says}");
        until(&format!("the server hears of it from {args:?}"), || is_broken(&server));
        assert_eq!(server.run(&key, "health_check()").json()["code"], "ledger_damaged", "{args:?}");
        assert_eq!(server.stop(), Some(0));
    }
}

/// A read of an export over HTTP is heard too.
#[test]
fn the_server_hears_of_damage_that_an_export_over_http_meets() {
    let home = TestHome::init();
    let key = home.key("ops", "admin");
    let server = home.serve();
    verified(&server);
    flip(&home.path("data/ledger.db"), 4);
    let _export = server.get(&key, "/audit/export");
    until("the export is heard", || is_broken(&server));
    assert_eq!(server.stop(), Some(0));
}

/// With and without a server, what a damaged ledger refuses exits with 5 and names the way out. An
/// approval says so before its card, and lists say it too.
#[test]
fn every_command_that_a_damaged_ledger_refuses_exits_with_5() {
    let people = People::new();
    let home = &people.home;
    let server = home.serve();
    let (reply, asked) = people.ask(&server, &people.list());
    let (run, id) = (reply["run"].as_str().expect("run"), asked["id"].as_str().expect("id"));
    verified(&server);
    flip(&home.path("data/ledger.db"), 6);
    home.expect(5, &["audit", "show", "6"]);
    until("the change is found", || is_broken(&server));
    refused_with_5(home, id);
    let marked = |args: &[&str]| {
        let output = home.par(args);
        let says = text(&output.stderr);
        assert!(
            says.contains("the ledger is damaged") && says.contains("par audit renew"),
            "{args:?}: {says}"
        );
        text(&output.stdout)
    };
    for args in [&["approval", "list"][..], &["runs", "list"], &["policy", "replay"]] {
        let _listed = marked(args);
    }
    // An intact run is shown whole.
    let shown = marked(&["runs", "show", run]);
    for name in ["who ", "started ", "message "] {
        assert!(shown.lines().any(|line| line.starts_with(name)), "{name}: {shown}");
    }
    let metrics = text(&server.get(&people.viewer, "/metrics").body);
    assert!(metrics.contains("\npar_ledger_obstacle 1\n"), "{metrics}");
    assert_eq!(server.stop(), Some(0));
    for args in [&["approval", "list"][..], &["runs", "list"], &["policy", "replay"]] {
        let _listed = marked(args);
    }
}

fn refused_with_5(home: &TestHome, id: &str) {
    for args in [
        &["key", "create", "late", "--role", "viewer"][..],
        &["reload"],
        &["login"],
        &["approval", "approve", id, "--card", "0000"],
        &["approval", "deny", id],
        &["run", "health_check()"],
        &["tool", "call", "health_check"],
    ] {
        let output = home.par(args);
        let (says, shown) = (text(&output.stderr), text(&output.stdout));
        assert_eq!(output.status.code(), Some(5), "{args:?}: {says}{shown}");
        assert!(says.contains("par audit renew"), "{args:?}: {says}");
        assert_eq!(shown, "", "{args:?} shows no card first");
    }
}

/// A verification that fails says what is next, and a command for people writes no log line of what
/// it says itself.
#[test]
fn a_failed_verification_says_what_is_next_and_commands_write_no_log_lines() {
    let home = TestHome::init();
    let _key = home.key("ops", "operator");
    flip(&home.path("data/ledger.db"), 1);
    let shown = home.expect(5, &["audit", "verify"]);
    for words in ["seq 1: ", "`par audit show 1`", "`par audit renew --reason …`"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let checked = home.par(&["doctor"]);
    let shown = text(&checked.stdout);
    for words in ["`par audit show 1`", "`par audit renew --reason …`"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let refused = home.par(&["run", "health_check()"]);
    let says = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{says}");
    assert!(says.lines().all(|line| line.starts_with("par: ")), "{says}");
}
