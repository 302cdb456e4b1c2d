//! Halts and cancelled runs, through the real server: what a stop keeps from beginning, what it
//! ends, and what it leaves as it is.

use crate::approval::{People, grant};
use crate::crash::is_sleep;
use crate::model::{House, Reply};
use crate::support::{TestHome, text, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A tool that takes half a minute, and says when it began and when it ended.
fn slow(name: &str, class: &str, [sandbox, limits]: [&str; 2]) -> String {
    format!(
        "name = \"{name}\"\nsummary = \"n\"\nclass = \"{class}\"\nrisk = \"low\"\ninterpreter = \"/bin/sh\"\n\
         script = \"jobs.d/{name}.sh\"\nargs = [\"{{seconds}}\"]\nuntrusted_output = true\n[resource]\n\
         type = \"Host\"\nis = \"localhost\"\n[sandbox]\nexec = [\"/usr/bin/sleep\", \"/usr/bin/touch\"]\n{sandbox}[limits]\nwall_ms_max = 60000\n\
         output_bytes_max = 65536\nmemory_bytes_max = 268435456\nprocesses_max = 8\n{limits}[input]\ntype = \"object\"\nadditionalProperties = false\nrequired = [\"seconds\"]\n\
         [input.properties.seconds]\ntype = \"integer\"\nminimum = 0\nmaximum = 30\n"
    )
}

const SLOW: &str = r#"
@id("slow") permit (principal, action in [PAR::Action::"look", PAR::Action::"act"], resource);
"#;

fn house() -> House {
    House::start(|home| {
        let workspace = home.path("workspace");
        let script = "touch WS/act.began; sleep \"$1\"; touch WS/act.ended; printf done\n";
        home.add("jobs.d/act.sh", &script.replace("WS", workspace.to_str().expect("UTF-8")));
        home.add("jobs.d/look.sh", "sleep \"$1\"; printf done\n");
        home.add("tools.d/look.toml", &slow("look", "read", ["", ""]));
        let writes = ["write = [\"@workspace\"]\n", "file_bytes_max = 65536\n"];
        home.add("tools.d/act.toml", &slow("act", "exec", writes));
        home.add("policies/60-slow.cedar", SLOW);
        home.drop_cases();
    })
}

fn call(tool: &str, seconds: u64) -> Reply {
    Reply::Calls(vec![(tool.to_owned(), json!({ "seconds": seconds }).to_string())])
}

fn runs(house: &House) {
    until("the program runs", || house.server.descendants().into_iter().any(is_sleep));
}

fn began(home: &TestHome, tool: &str) {
    let mark = home.path(&format!("workspace/{tool}.began"));
    until("the tool begins", || mark.exists());
}

fn halts(home: &TestHome) -> Vec<Value> {
    let listed = home.expect(0, &["halt", "list", "--json"]);
    listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The status of the newest run, once it has ended, and its reply.
fn ended(house: &House) -> Value {
    let mut last = Value::Null;
    until("the run ends", || {
        let run = house.home.par(&["runs", "show", "latest", "--json"]);
        last = serde_json::from_slice(&run.stdout).unwrap_or_default();
        last["status"].as_str().is_some_and(|status| !["running", "waiting"].contains(&status))
    });
    last
}

/// Nothing begins under a halt of everything, whoever asks, also after a restart of the server; who
/// is refused reads why, and so does whoever looks at the server. Once it is lifted, all is as
/// before.
#[test]
fn a_halt_of_everything_outlasts_the_server_and_says_why() {
    let house = House::start(|_| {});
    let told = house.home.expect(0, &["halt", "--all", "--reason", "incident 7"]);
    assert!(told.starts_with("halted: all, halt "), "{told}");
    let check = |house: &House| {
        let refused = house.server.run(&house.key, "go");
        assert_eq!(refused.status, 409, "{}", text(&refused.body));
        let why = refused.json();
        assert_eq!(why["code"], "halted", "{why}");
        let detail = why["detail"].as_str().expect("detail");
        assert!(detail.starts_with("PAR is halted by os:") && detail.contains("incident 7"), "{why}");
        let health = house.server.get(&house.key, "/health").json();
        assert_eq!(health["halts"][0]["scope"], "all", "{health}");
        assert_eq!(health["halts"][0]["reason"], "incident 7", "{health}");
        let metrics = text(&house.server.get(&house.key, "/metrics").body);
        assert!(metrics.contains("\npar_halts 1\n"), "{metrics}");
    };
    check(&house);
    let before = house.home.entries(&["kind:run.request"]).len();
    let House { home, model, server, key } = house;
    assert_eq!(server.stop(), Some(0));
    let here = home.par(&["run", "health_check()"]);
    assert_eq!(here.status.code(), Some(3), "{}", text(&here.stderr));
    assert!(text(&here.stderr).contains("incident 7"), "{}", text(&here.stderr));
    let house = House { server: home.serve(), home, model, key };
    check(&house);
    assert_eq!(house.home.entries(&["kind:run.request"]).len(), before, "no run began");
    let halt = halts(&house.home)[0]["halt"].to_string();
    house.home.expect(0, &["halt", "lift", &halt, "--reason", "mended"]);
    assert_eq!(halts(&house.home), Vec::<Value>::new());
    assert_eq!(house.run([Reply::Say("well".to_owned())])["answer"], "well");
    let again = house.home.par(&["halt", "lift", &halt]);
    assert_ne!(again.status.code(), Some(0), "a halt is lifted once");
    house.check_ledger();
    house.home.expect(0, &["policy", "replay"]);
}

/// The calls of a halted tool are denied by a rule that is on the ledger, so that the decision can
/// be repeated; the rest of the run goes on.
#[test]
fn the_calls_of_a_halted_tool_are_denied_on_record() {
    let house = house();
    house.home.expect(0, &["halt", "--tool", "look", "--reason", "too slow"]);
    let both = vec![
        ("look".to_owned(), json!({ "seconds": 0 }).to_string()),
        ("health_check".to_owned(), "{}".to_owned()),
    ];
    let run = house.run([Reply::Calls(both), Reply::Say("so be it".to_owned())]);
    assert_eq!((&run["status"], &run["answer"]), (&json!("done"), &json!("so be it")), "{run}");
    let step = &run["steps"][0];
    assert_eq!((&step["decision"], &step["class"]), (&json!("deny"), &json!("halt")), "{step}");
    assert_eq!(step["policies"], json!(["par.halted"]), "{step}");
    let why = step["result"]["error"].as_str().expect("words");
    assert!(why.starts_with("`tool:look` is halted by os:") && why.ends_with(": too slow"), "{why}");
    assert_eq!(run["steps"][1]["status"], "ok", "{run}");
    house.home.expect(0, &["policy", "replay"]);
    let metrics = text(&house.server.get(&house.key, "/metrics").body);
    assert!(metrics.contains("par_refusals_total{class=\"halt\"} 1"), "{metrics}");
    let unknown = house.home.par(&["halt", "--tool", "lok", "--reason", "x"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown.stderr));
    house.check_ledger();
}

/// Without `--now` a call that runs is waited for, and nothing begins after it. With `--now` it
/// ends at once, and so does a request to a model.
#[test]
fn a_halt_ends_what_runs_only_if_told_to() {
    let house = house();
    house.model.play([call("act", 2), Reply::Say("never asked".to_owned())]);
    let asked = house.server.run_aside(&house.key, "go");
    began(&house.home, "act");
    house.home.expect(0, &["halt", "--all", "--reason", "stop"]);
    let run = asked.join().expect("thread").expect("answer").json();
    assert_eq!(run["status"], "cancelled", "{run}");
    assert_eq!(run["steps"][0]["status"], "ok", "what had begun has ended by itself: {run}");
    assert!(house.home.path("workspace/act.ended").exists());
    assert_eq!(house.model.requests().len(), 1, "the model is not asked again");
    house.home.expect(0, &["halt", "lift", "--all"]);

    house.model.play([call("act", 30)]);
    for mark in ["act.began", "act.ended"] {
        std::fs::remove_file(house.home.path(&format!("workspace/{mark}"))).expect("mark");
    }
    let (asked, at) = (house.server.run_aside(&house.key, "go"), Instant::now());
    began(&house.home, "act");
    house.home.expect(0, &["halt", "--all", "--now", "--reason", "stop now"]);
    let run = asked.join().expect("thread").expect("answer").json();
    assert_eq!(
        (&run["status"], &run["steps"][0]["status"]),
        (&json!("cancelled"), &json!("killed")),
        "{run}"
    );
    assert!(at.elapsed() < Duration::from_secs(25), "{:?}", at.elapsed());
    until("its program is gone", || !house.server.descendants().into_iter().any(is_sleep));
    assert!(!house.home.path("workspace/act.ended").exists());
    house.home.expect(0, &["halt", "lift", "--all"]);

    house.model.play([Reply::Hang]);
    let asked = house.server.run_aside(&house.key, "go");
    let before = house.model.requests().len();
    until("the model is asked", || house.model.requests().len() > before);
    house.home.expect(0, &["halt", "--all", "--now", "--reason", "stop now"]);
    let run = asked.join().expect("thread").expect("answer").json();
    assert_eq!(run["status"], "cancelled", "{run}");
    assert!(run["answer"].as_str().expect("answer").contains("stop now"), "{run}");
    house.check_ledger();
    house.home.expect(0, &["policy", "replay"]);
}

/// A question stays open under a halt, and no answer counts until it is lifted.
#[test]
fn no_answer_counts_under_a_halt() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    people.home.expect(0, &["halt", "--key", "asker", "--reason", "who is this?"]);
    let refused = grant(&server, &people.ben, &approval);
    assert_eq!(
        (refused.status, refused.json()["code"].clone()),
        (409, json!("halted")),
        "{}",
        text(&refused.body)
    );
    assert_eq!(people.state(&server, &approval), "pending");
    let other = server.run(&people.asker, &people.read());
    assert_eq!(other.status, 409, "{}", text(&other.body));
    people.home.expect(0, &["halt", "lift", "--all"]);
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    people.verify();
}

/// An answer that was given before the halt is not spent under it, also over a restart.
#[test]
fn a_grant_is_not_spent_under_a_halt() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    people.stop_tools(&server);
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    people.home.expect(0, &["halt", "--tool", "list_dir", "--reason", "wait"]);
    let _left = server.kill();
    let server = people.home.serve();
    std::thread::sleep(Duration::from_millis(500));
    let state = people.state(&server, &approval);
    assert_eq!(state, "granted", "it is not spent");
    people.home.expect(0, &["halt", "lift", "--all"]);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    people.verify();
}

/// The owner cancels: what reads is ended, what acts is waited for, and both are on record.
#[test]
fn a_cancelled_run_ends_its_reads_and_waits_for_its_acts() {
    let house = house();
    let cancel = |reason: &str| {
        let listed = house.server.get(&house.key, "/runs?limit=1").json();
        let id = listed["items"][0]["run"].as_str().expect("run").to_owned();
        let headers = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", house.key);
        let body = json!({ "reason": reason }).to_string();
        let answer = house.server.send("POST", &format!("/runs/{id}/cancel"), &headers, body.as_bytes());
        (answer.status, answer.json())
    };
    house.model.play([call("look", 30)]);
    let (asked, at) = (house.server.run_aside(&house.key, "go"), Instant::now());
    runs(&house);
    let (status, told) = cancel("not needed");
    assert_eq!(status, 202, "{told}");
    let run = asked.join().expect("thread").expect("answer").json();
    assert_eq!(
        (&run["status"], &run["steps"][0]["status"]),
        (&json!("cancelled"), &json!("killed")),
        "{run}"
    );
    assert!(run["answer"].as_str().expect("answer").ends_with(": not needed"), "{run}");
    assert!(at.elapsed() < Duration::from_secs(25), "{:?}", at.elapsed());
    let (status, told) = cancel("twice");
    assert_eq!((status, &told["code"]), (409, &json!("ended")), "{told}");

    house.model.play([call("act", 2), Reply::Say("never asked".to_owned())]);
    let asked = house.server.run_aside(&house.key, "go");
    began(&house.home, "act");
    assert_eq!(cancel("not that").0, 202);
    let run = asked.join().expect("thread").expect("answer").json();
    assert_eq!((&run["status"], &run["steps"][0]["status"]), (&json!("cancelled"), &json!("ok")), "{run}");
    assert!(house.home.path("workspace/act.ended").exists());
    house.check_ledger();
    house.home.expect(0, &["policy", "replay"]);
}

/// A waiting run is cancelled with and without a server, by its owner and by root; others learn
/// nothing about it.
#[test]
fn a_waiting_run_is_cancelled() {
    let people = People::new();
    let other = people.home.key("other", "operator");
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let id = run["run"].as_str().expect("run");
    let headers = |key: &str| format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
    let path = format!("/runs/{id}/cancel");
    for (key, status) in [(&other, 404), (&people.viewer, 403), (&people.ben, 403)] {
        let answer = server.send("POST", &path, &headers(key), b"{}");
        assert_eq!(answer.status, status, "{}", text(&answer.body));
    }
    people.home.expect(0, &["runs", "cancel", id, "--reason", "a mistake"]);
    let ended = people.ended(&server, &run);
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert!(ended["answer"].as_str().expect("answer").ends_with(": a mistake"), "{ended}");
    assert_eq!(people.state(&server, &approval), "void");
    let (run, _) = people.ask(&server, &people.read());
    assert_eq!(server.stop(), Some(0));
    let id = run["run"].as_str().expect("run");
    people.home.expect(0, &["runs", "cancel", id]);
    let shown: Value =
        serde_json::from_str(&people.home.expect(0, &["runs", "show", id, "--json"])).expect("JSON");
    assert_eq!(shown["status"], "cancelled", "{shown}");
    let again = people.home.par(&["runs", "cancel", id]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stderr));
    people.verify();
}

/// A crash after a `run.cancel`: the next start closes the run, and the stop goes with it.
#[test]
fn a_cancelled_run_is_closed_after_a_crash() {
    let house = house();
    house.model.play([call("act", 30)]);
    let asked = house.server.run_aside(&house.key, "go");
    began(&house.home, "act");
    house.home.expect(0, &["runs", "cancel", "latest"]);
    let House { home, model, server, key } = house;
    let _left = server.kill();
    let _gone = asked.join();
    let house = House { server: home.serve(), home, model, key };
    assert_eq!(ended(&house)["status"], "interrupted");
    assert_eq!(house.run([Reply::Say("well".to_owned())])["status"], "done");
    house.check_ledger();
}
