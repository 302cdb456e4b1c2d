//! Output that is not read, or that cannot be written; and output for programs, which has one shape
//! here and over HTTP.

use crate::support::{TestHome, binary, start, text};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::{Output, Stdio};

type Way = fn(&TestHome, &[&str]) -> Output;

/// Runs a command whose standard output accepts no byte.
fn into_full(home: &TestHome, args: &[&str]) -> Output {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    home.command(args).stdout(full).output().expect("par starts")
}

/// Runs a command whose reader has disconnected.
fn into_closed(home: &TestHome, args: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().expect("pipe");
    drop(reader);
    home.command(args).stdout(Stdio::from(writer)).output().expect("par starts")
}

/// Runs a command without any standard output, which it sees as `/dev/null`.
fn into_nothing(home: &TestHome, args: &[&str]) -> Output {
    let mut command = start(Path::new("/bin/sh"));
    command.args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(binary()).args(args);
    command.env_clear().env("PAR_HOME", home.root()).output().expect("sh starts")
}

/// Name and state of each key.
fn keys(home: &TestHome) -> Vec<(String, String)> {
    let word = |key: &Value, name: &str| key[name].as_str().expect("a word").to_owned();
    lines(home, &["--json", "key", "list"])
        .iter()
        .map(|key| (word(key, "name"), word(key, "state")))
        .collect()
}

/// JSON, one value per line.
fn lines(home: &TestHome, args: &[&str]) -> Vec<Value> {
    home.expect(0, args).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A key that could not be shown must not remain valid: it is revoked at once, with and without a
/// server.
#[test]
fn a_key_that_could_not_be_shown_is_revoked() {
    let home = TestHome::init();
    let try_both = |name: &str| {
        for (way, run) in [("full", into_full as Way), ("closed", into_closed), ("nothing", into_nothing)] {
            for json in [&["--json"][..], &[]] {
                let name = format!("{name}-{way}-{}", json.len());
                let output = run(&home, &[json, &["key", "create", &name, "--role", "admin"]].concat());
                let told = text(&output.stderr);
                assert_eq!(output.status.code(), Some(1), "{name}: {told}");
                assert!(told.contains("could not be printed") && told.contains("revoked"), "{name}: {told}");
                assert!(!told.contains("par_"), "{told}");
                assert!(keys(&home).contains(&(name, "revoked".to_owned())), "{:?}", keys(&home));
            }
        }
    };
    try_both("alone");
    let server = home.serve();
    try_both("served");
    assert_eq!(server.stop(), Some(0));
    assert!(keys(&home).iter().all(|(_, state)| state == "revoked"), "{:?}", keys(&home));
}

/// The tour's key ends with the tour, whatever happens to its output.
#[test]
fn a_tour_that_is_not_seen_leaves_no_key() {
    for (run, code) in [(into_closed as Way, 0), (into_nothing, 0), (into_full, 1)] {
        let home = TestHome::init();
        let output = run(&home, &["quickstart", "--once"]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(keys(&home).iter().all(|(_, state)| state == "revoked"), "{:?}", keys(&home));
        // Without `--once` the key is the purpose: no server is left that cannot be used.
        let output = run(&home, &["quickstart"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(keys(&home).iter().all(|(_, state)| state == "revoked"), "{:?}", keys(&home));
        home.expect(0, &["audit", "verify"]);
    }
}

/// A reader that closes early, such as `head -1`, is not an error; a full disk is one.
#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    let home = TestHome::init();
    home.expect(0, &["run", "health_check()"]);
    let _key = home.key("one", "viewer");
    for args in [
        &["audit", "show"][..],
        &["--json", "audit", "show"],
        &["audit", "verify"],
        &["tool", "list"],
        &["config", "show"],
        &["key", "list"],
        &["policy", "check"],
        &["approval", "list", "--json"],
        &["man"],
        &["completion", "bash"],
        &["--help"],
    ] {
        let output = into_closed(&home, args);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
    }
    for args in [&["audit", "show"][..], &["--json", "tool", "list"], &["man"]] {
        let output = into_full(&home, args);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains("No space left"), "{args:?}: {told}");
    }
}

#[test]
fn a_tour_is_for_people() {
    let home = TestHome::empty();
    let output = home.par(&["--json", "quickstart", "--once"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty() && !home.root().exists(), "nothing was made: {}", text(&output.stdout));
}

/// A command prints for programs what they would read over HTTP.
#[test]
fn lists_have_one_shape_here_and_over_http() {
    let home = TestHome::init();
    let [viewer, operator] = ["viewer", "operator"].map(|role| home.key(role, role));
    let server = home.serve();
    server.run(&operator, "read_file(path=\"/etc/shadow\")");
    let items = |key: &str, path: &str| server.get(key, path).json()["items"].clone();
    assert_eq!(json!(lines(&home, &["--json", "tool", "list"])), items(&operator, "/tools"));
    assert_eq!(
        json!(lines(&home, &["--json", "audit", "show", "kind:call.decision"])),
        items(&viewer, "/audit/entries?q=kind:call.decision")
    );
    assert_eq!(json!(lines(&home, &["--json", "audit", "show"])), items(&viewer, "/audit/entries"));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn what_is_shown_as_json_is_json() {
    let home = TestHome::init();
    let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    home.configure(&format!("{toml}night = [\"ana\", \"ben\"]\n"));
    let shown = lines(&home, &["--json", "config", "show"]);
    let of = |key: &str| shown.iter().find(|one| one["key"] == key).expect(key)["value"].clone();
    assert_eq!(of("server.listen"), "127.0.0.1:7117");
    assert_eq!(of("server.hosts"), json!([]));
    assert_eq!(of("approvals.expire_s"), 900);
    assert_eq!(of("groups.night"), json!(["ana", "ben"]));
    let [tool] = &lines(&home, &["--json", "tool", "show", "deploy"])[..] else { panic!("one line") };
    assert_eq!(tool["runs"]["arguments"], json!(["{project}", "{version}"]), "{tool}");
    let [tool] = &lines(&home, &["--json", "tool", "show", "health_check"])[..] else { panic!("one line") };
    assert_eq!(tool["runs"], json!({ "builtin": "health_check" }), "{tool}");
}

/// Issue 15, finding A7: a tool that is on and that no rule permits is named by what checks a home,
/// since every call of it is denied.
#[test]
fn a_tool_that_no_rule_permits_is_named() {
    let home = TestHome::init();
    let clean = home.expect(0, &["config", "check"]);
    assert!(!clean.contains("no rule permits"), "{clean}");
    let shown = std::fs::read_to_string(home.path("etc/tools.d/disk_usage.toml")).expect("a manifest");
    home.add("tools.d/orphan.toml", &shown.replace("name = \"disk_usage\"", "name = \"orphan\""));
    let expect = "`orphan` is on, and no rule permits it: every call is denied";
    for args in [&["config", "check"][..], &["doctor", "--quick"], &["tool", "list"]] {
        let output = home.par(args);
        let told = format!("{}{}", text(&output.stdout), text(&output.stderr)).replace("\n", " ");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(expect), "{args:?}: {told}");
    }
    let json = home.expect(0, &["--json", "config", "check"]);
    assert!(json.contains("`orphan` is on"), "{json}");
}

/// A tool that the role may not use reads as unknown in the reply, as for a model; the owner of the
/// home also sees the reason.
#[test]
fn a_hidden_tool_is_distinguished_from_a_missing_one() {
    let home = TestHome::init();
    home.add(
        "policies/50-closed.cedar",
        "@id(\"closed\")\nforbid (principal, action == PAR::Action::\"health_check\", resource);\n",
    );
    for (tool, is_told) in [("health_check", true), ("absent", false)] {
        let output = home.par(&["tool", "call", tool]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains(&format!("no tool is named `{tool}`")));
        let told = text(&output.stderr).contains("exists, but no policy permits the role operator");
        assert_eq!(told, is_told, "{}", text(&output.stderr));
        // Issue 15, finding A7: a run said only that there is no such tool.
        let run = home.par(&["run", &format!("{tool}()")]);
        assert!(text(&run.stdout).contains(&format!("no tool is named `{tool}`")), "{}", text(&run.stdout));
        let told = text(&run.stderr).contains("exists, but no policy permits the role operator");
        assert_eq!(told, is_told, "{}", text(&run.stderr));
    }
    // A user who may not run the agent may not call a tool either.
    let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    home.configure(&toml.replace("local_role = \"operator\"", "local_role = \"viewer\""));
    let output = home.par(&["tool", "call", "list_dir", "{\"path\":\"/var/log\"}"]);
    let why = text(&output.stderr);
    assert!(
        output.status.code() == Some(3) && why.contains("the role `viewer` does not have the power `run`"),
        "{why}"
    );
}

/// A user with a key and without a home uses the address; never in clear over a network.
#[test]
fn a_server_is_asked_by_its_address() {
    let home = TestHome::init();
    let server = home.serve();
    let key = home.key("ops", "operator");
    let elsewhere = tempfile::tempdir().expect("folder");
    let run = |url: &str, key: &str| {
        let mut command = start(&binary());
        command.env_clear().env("PAR_KEY", key).current_dir(elsewhere.path());
        let output = command.args(["run", "--url", url, "health_check()"]).output().expect("par starts");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let url = format!("http://{}", server.address);
    let (code, told, why) = run(&url, &key);
    assert!(code == Some(0) && told.contains("health_check"), "{told} {why}");
    assert_eq!(run(&url, "par_wrong").0, Some(6));
    assert_eq!(run("http://127.0.0.1:1", &key).0, Some(7));
    let (code, _, why) = run("http://192.0.2.1:7117", &key);
    assert!(code == Some(2) && why.contains("in clear"), "{why}");
    let mut command = start(&binary());
    command.env_clear().env("PAR_KEY", &key).env("PAR_URL", &url).current_dir(elsewhere.path());
    assert!(command.args(["run", "health_check()"]).output().expect("par starts").status.success());
}
