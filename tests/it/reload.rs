//! Rules are replaced while the server runs: all or nothing, on the ledger first, and no call is
//! decided under rules that no longer hold.

use crate::approval::People;
use crate::support::{Server, TestHome, text};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const FORBID: &str = r#"
@id("no-notes")
@advice("the notes are closed")
forbid (principal, action == PAR::Action::"read_file", resource in PAR::Path::"@workspace");
"#;

/// A tool `wait` that sleeps for as long as it is asked to.
const WAIT: &str = r#"
name = "wait"
summary = "Wait."
class = "exec"
risk = "low"
command = ["/usr/bin/sleep", "{seconds}"]
runtime = "dynamic"
untrusted_output = true
[resource]
type = "Host"
is = "localhost"
[sandbox]
[limits]
wall_ms_max = 20000
output_bytes_max = 1024
memory_bytes_max = 134217728
processes_max = 2
[input]
type = "object"
additionalProperties = false
required = ["seconds"]
[input.properties.seconds]
type = "string"
maxLength = 4
"#;
const PERMIT_WAIT: &str = r#"
@id("wait")
permit (principal in PAR::Role::"operator", action == PAR::Action::"wait", resource);
"#;

fn home() -> TestHome {
    let home = TestHome::init();
    home.drop_cases();
    std::fs::write(home.path("workspace/notes"), "the notes\n").expect("file");
    home
}

fn write(home: &TestHome, below: &str, text: &str) {
    match below.strip_prefix("etc/") {
        Some(below) => home.add(below, text),
        None => std::fs::write(home.path(below), text).expect("file"),
    }
}

fn notes(home: &TestHome) -> String {
    format!("read_file(path=\"{}\")", home.path("workspace/notes").display())
}

fn step(server: &Server, key: &str, message: &str) -> Value {
    let answer = server.run(key, message);
    assert_eq!(answer.status, 200, "{}", text(&answer.body));
    answer.json()["steps"][0].clone()
}

fn reload(home: &TestHome) -> Value {
    serde_json::from_str(&home.expect(0, &["reload", "--json"])).expect("JSON")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_rule_counts_from_the_reload_on_and_not_before() {
    let home = home();
    let server = home.serve();
    let key = home.key("ops", "operator");
    assert_eq!(step(&server, &key, &notes(&home))["decision"], "allow");
    write(&home, "etc/policies/50-notes.cedar", FORBID);
    assert_eq!(step(&server, &key, &notes(&home))["decision"], "allow", "nothing is loaded by itself");
    let ahead = "changed on disk but not loaded";
    assert!(home.expect(0, &["doctor", "--quick"]).contains(ahead));

    let told = home.expect(0, &["reload"]);
    assert!(told.starts_with("loaded: rules ") && told.ends_with("\n  + policy no-notes\n"), "{told}");
    let denied = step(&server, &key, &notes(&home));
    assert_eq!((&denied["decision"], &denied["policies"]), (&json!("deny"), &json!(["no-notes"])));

    // The requester and the changes are on the ledger.
    let loads = home.entries(&["kind:policy.load"]);
    let (first, last) = (&loads[0], &loads[1]);
    assert!(loads.len() == 2 && last["principal"].as_str().expect("who").starts_with("os:"), "{last}");
    let payload = &home.entry(last["seq"].as_u64().expect("number"))["payload"];
    assert_eq!(payload["was"], first["policy"]);
    assert_eq!(payload["difference"]["policies"]["added"], json!(["no-notes"]));

    assert!(!home.expect(0, &["doctor", "--quick"]).contains(ahead));
    let told = home.expect(0, &["reload"]);
    assert!(told.starts_with("loaded: nothing changed, rules "), "{told}");
    std::fs::remove_file(home.path("etc/policies/50-notes.cedar")).expect("removed");
    let told = reload(&home);
    assert_eq!(told["policies"], json!({ "added": [], "removed": ["no-notes"], "changed": [] }));
    assert_eq!(told["policy"], first["policy"], "the same files, the same digest");
    assert_eq!(step(&server, &key, &notes(&home))["decision"], "allow");
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn what_is_broken_is_not_loaded_and_the_old_rules_stay() {
    let home = home();
    let server = home.serve();
    let key = home.key("ops", "operator");
    write(&home, "etc/policies/50-notes.cedar", FORBID);
    // Valid rules that fail their own tests are broken too.
    std::fs::create_dir(home.path("etc/policies/tests")).expect("folder");
    let case = "\n[[case]]\nname = \"n\"\nrole = \"operator\"\ntool = \"health_check\"\nexpect = \"deny\"\n";
    let broken: [(&str, &str, &str); 4] = [
        (
            "etc/policies/tests/60.toml",
            case,
            "policies/tests/60.toml:2: n: operator health_check: expected deny, got allow: read-health",
        ),
        ("etc/policies/60.cedar", "@id(\"x\")\npermit (principal, action, resource", "policies/60.cedar:2"),
        (
            "etc/policies/60.cedar",
            "@id(\"x\")\npermit (principal, action == PAR::Action::\"none\", resource);",
            "60.cedar:",
        ),
        ("etc/tools.d/x.toml", "name = \"x\"\nsurprise = 1\n", "x.toml:2"),
    ];
    for (file, bytes, place) in &broken {
        write(&home, file, bytes);
        let output = home.par(&["reload"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(
            said.contains("the previous rules remain in force") && said.contains(place),
            "{file}: {said}"
        );
        std::fs::remove_file(home.path(file)).expect("removed");
        // All or nothing: the valid forbid next to it is not in force either.
        assert_eq!(step(&server, &key, &notes(&home))["decision"], "allow");
    }
    // A file that other users may write decides nothing.
    let open = home.path("etc/policies/50-notes.cedar");
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("mode");
    let output = home.par(&["reload"]);
    assert!(output.status.code() == Some(2), "{}", text(&output.stderr));
    assert_eq!(home.entries(&["kind:policy.load"]).len(), 1, "nothing came into force");
    let refused = home.entries(&["kind:policy.refuse"]);
    assert_eq!(refused.len(), broken.len() + 1, "each try is on the ledger");
    let first = home.entry(refused[0]["seq"].as_u64().expect("seq"));
    assert!(first["payload"]["reason"].as_str().expect("reason").contains(broken[0].2), "{first}");
    assert!(server.log().contains("the rules on disk were not loaded"), "{}", server.log());
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn keys_of_the_configuration_that_cannot_be_loaded_are_named() {
    let home = home();
    let server = home.serve();
    home.configure(
        "[paths]\nlogs = \"/var/log\"\n[approvals]\nexpire_s = 60\n[groups]\nrelease = [\"ana\"]\n",
    );
    let told = reload(&home);
    assert_eq!(
        (&told["groups"], &told["not_loaded"]),
        (&json!(true), &json!(["approvals.expire_s", "sandbox.minimum"]))
    );
    home.configure("[paths]\nlogs = \"/var\"\n");
    let output = home.par(&["reload"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`paths.logs` has changed"), "{}", text(&output.stderr));
    drop(server);
}

#[test]
fn without_a_server_there_is_nothing_to_reload() {
    let home = home();
    let output = home.par(&["reload"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
}

#[test]
fn a_signal_does_the_same() {
    let home = home();
    let server = home.serve();
    let key = home.key("ops", "operator");
    write(&home, "etc/policies/50-notes.cedar", FORBID);
    server.signal(Signal::SIGHUP);
    until("the signal was answered", || server.log().contains("the rules on disk are in force"));
    assert_eq!(step(&server, &key, &notes(&home))["decision"], "deny");
    assert_eq!(home.entries(&["kind:policy.load"])[1]["principal"], Value::Null, "a signal has no name");
    write(&home, "etc/policies/60.cedar", "permit");
    server.signal(Signal::SIGHUP);
    until("the signal was answered", || server.log().contains("the previous rules remain in force"));
    assert_eq!(step(&server, &key, &notes(&home))["decision"], "deny");
}

#[test]
fn a_tool_that_is_added_can_be_used_and_one_under_way_ends_where_it_is() {
    let home = home();
    let server = home.serve();
    let key = home.key("ops", "operator");
    let processes = server.descendants().len();
    write(&home, "etc/tools.d/wait.toml", WAIT);
    write(&home, "etc/policies/50-wait.cedar", PERMIT_WAIT);
    let told = reload(&home);
    assert_eq!(told["tools"]["added"], json!(["wait"]));

    let running = server.run_aside(&key, "wait(seconds=\"3\")");
    until("it runs", || home.entries(&["kind:call.decision", "tool:wait"]).len() == 1);
    // The tool is removed, and its policy with it.
    std::fs::remove_file(home.path("etc/tools.d/wait.toml")).expect("removed");
    std::fs::remove_file(home.path("etc/policies/50-wait.cedar")).expect("removed");
    assert_eq!(reload(&home)["tools"]["removed"], json!(["wait"]));
    let unknown = step(&server, &key, "wait(seconds=\"0\")");
    assert_eq!(unknown["decision"], "invalid", "{unknown}");
    let ended = running.join().expect("thread").expect("answer").json();
    assert_eq!(ended["steps"][0]["status"], "ok", "{ended}");
    // The old launcher ends with its last call: the number of processes is the same again.
    until("the old launcher is gone", || server.descendants().len() == processes);
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn a_waiting_call_is_asked_again_under_new_rules() {
    let people = People::new();
    let server = people.home.serve();
    let (reply, question) = people.ask(&server, &people.list());
    write(&people.home, "etc/policies/60-more.cedar", FORBID);
    reload(&people.home);
    let run = reply["run"].as_str().expect("run").to_owned();
    let pending = || -> Vec<Value> {
        let list = server.get(&people.ben, "/approvals?state=pending").json();
        list["items"].as_array().expect("items").iter().filter(|one| one["run"] == run).cloned().collect()
    };
    until("approval is requested again", || pending().iter().any(|one| one["id"] != question["id"]));
    // The old approval is void; the new one counts.
    let old = crate::approval::grant(&server, &people.ben, &question);
    assert_eq!(old.status, 409, "{}", text(&old.body));
    let id = pending()[0]["id"].as_str().expect("id").to_owned();
    // A person is told so before the card, and which one is open instead.
    let first = question["id"].as_str().expect("id");
    let said = people.home.par(&["approval", "approve", first, "--card", "0000"]);
    assert_eq!((said.status.code(), text(&said.stdout)), (Some(1), String::new()));
    let expect = format!(
        "{first} is void: the call, its rules or its run have changed since; it was asked again as {id}"
    );
    assert!(text(&said.stderr).contains(&expect), "{}", text(&said.stderr));
    let asked = server.get(&people.ben, &format!("/approvals/{id}")).json();
    assert_ne!(asked["call_hash"], question["call_hash"]);
    let renewed = people.home.entry(asked["ledger"].as_u64().expect("number"));
    assert_eq!(renewed["payload"]["replaces"], question["id"], "the ledger says what became of the first");
    assert_eq!(crate::approval::grant(&server, &people.ben, &asked).status, 200);
    assert_eq!(people.ended(&server, &reply)["status"], "done");
    people.home.expect(0, &["audit", "verify"]);
}

/// After a `policy.load` no call is decided under earlier rules, however many are in progress.
#[test]
fn no_decision_is_under_rules_that_are_gone() {
    let home = home();
    let server = home.serve();
    let keys: Vec<String> = (0..3).map(|key| home.key(&format!("ops{key}"), "operator")).collect();
    let file = home.path("etc/policies/50-notes.cedar");
    let (message, end) = (notes(&home), Instant::now() + Duration::from_secs(8));
    std::thread::scope(|scope| {
        for key in keys.iter().chain(&keys) {
            scope.spawn(|| {
                while Instant::now() < end {
                    let answer = server.run(key, &message);
                    assert_eq!(answer.status, 200, "{}", text(&answer.body));
                }
            });
        }
        let mut turn = 0;
        while turn % 2 == 1 || Instant::now() < end {
            if turn % 2 == 0 {
                write(&home, "etc/policies/50-notes.cedar", FORBID);
            } else {
                std::fs::remove_file(&file).expect("removed");
            }
            reload(&home);
            turn += 1;
        }
    });
    let (mut rules, mut loads, mut words) = (Value::Null, 0, BTreeSet::new());
    for entry in home.entries(&[]) {
        match entry["kind"].as_str().expect("kind") {
            "policy.load" => {
                rules = entry["policy"].clone();
                loads += 1;
            }
            "call.decision" => {
                assert_eq!(entry["policy"], rules, "{entry}");
                words.insert(entry["decision"].as_str().expect("decision").to_owned());
            }
            _ => {}
        }
    }
    assert!(loads > 2 && words.len() == 2, "{loads} {words:?}");
    home.expect(0, &["audit", "verify"]);
}
