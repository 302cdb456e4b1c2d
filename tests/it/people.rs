//! A home for one person, and one for several: both satisfy their shipped cases, and one person
//! alone gets a call done.

use crate::support::{TestHome, text};
use crate::terminal::on_terminal;
use serde_json::{Value, json};

const DEPLOY: &str = "deploy(project=\"demo\", version=\"1.0.1\")";

fn home(people: &[&str]) -> TestHome {
    let home = TestHome::empty();
    home.expect(0, &[&["init"], people].concat());
    home
}

/// The rule that requires approval for a deployment.
fn asks(home: &TestHome) -> &'static str {
    let told = home.expect(0, &["policy", "check"]);
    match (told.contains("deploy-needs-confirm"), told.contains("deploy-needs-release")) {
        (true, false) => "confirm",
        (false, true) => "release",
        other => panic!("{other:?}: {told}"),
    }
}

/// The shipped cases hold, and detect every change, in either home.
#[test]
fn what_is_shipped_for_either_holds() {
    for (flag, expect) in
        [(vec!["--people", "one"], "confirm"), (vec!["--people", "several"], "release"), (vec![], "release")]
    {
        let home = home(&flag);
        assert_eq!(asks(&home), expect, "{flag:?}");
        assert!(home.expect(0, &["policy", "test"]).contains("mutation score 100 %"), "{flag:?}");
        home.expect(0, &["policy", "fmt", "--check"]);
    }
    let home = TestHome::empty();
    let made: Value =
        serde_json::from_str(&home.expect(0, &["init", "--people", "one", "--json"])).expect("JSON");
    assert_eq!(made["people"], "one");
}

/// Questions are only asked on a terminal, and an invalid answer creates no home.
#[test]
fn one_or_several_is_asked_on_a_terminal() {
    const PROMPT: &str = "[one/SEVERAL] ";
    for (keys, expect) in
        [("one\n", "confirm"), ("several\n", "release"), ("\n", "release"), ("\u{4}", "release")]
    {
        let home = TestHome::empty();
        // An empty answer leaves each reading tool off.
        let keys = format!("{keys}{}", "\n".repeat(12));
        let seen = on_terminal(&home, &["init"], false, PROMPT, &keys);
        assert_eq!(seen.code, Some(0), "{keys:?}: {}", seen.screen);
        assert_eq!(asks(&home), expect, "{keys:?}");
    }
    let home = TestHome::empty();
    let seen = on_terminal(&home, &["init"], false, PROMPT, "both\u{1b}[2J\n");
    assert!(seen.code == Some(2) && seen.screen.contains("unknown answer"), "{}", seen.screen);
    assert!(!home.root().exists(), "nothing was made");
}

/// One person alone: requests, reviews, confirms at the terminal, and the deployment is live.
#[test]
fn a_person_alone_deploys() {
    let home = home(&["--people", "one"]);
    home.expect(4, &["run", DEPLOY]);
    let asked: Value =
        serde_json::from_str(home.expect(0, &["approval", "list", "--json"]).trim()).expect("one");
    assert_eq!((&asked["confirm"], &asked["groups"]), (&json!(true), &json!([])), "{asked}");
    let id = asked["id"].as_str().expect("id");
    let done = home.approve(id, &["--json"]);
    let reply: Value = serde_json::from_str(text(&done.stdout).trim()).expect("reply");
    assert_eq!(reply["status"], "done", "{reply}");
    if reply["steps"][0]["status"] == "refused" {
        eprintln!("skipped: programs cannot run here: {reply}");
        return;
    }
    let live = std::fs::read_to_string(home.path("workspace/demo/current/VERSION")).expect("live");
    assert_eq!(live.trim(), "1.0.1");
    // A run never confirms its own call, and in a home for several one person alone cannot.
    home.expect(4, &["run", DEPLOY]);
    let home = self::home(&["--people", "several"]);
    home.expect(4, &["run", DEPLOY]);
    let asked: Value =
        serde_json::from_str(home.expect(0, &["approval", "list", "--json"]).trim()).expect("one");
    let own = home.approve(asked["id"].as_str().expect("id"), &[]);
    let told = text(&own.stderr);
    assert_eq!(own.status.code(), Some(3), "{told}");
    for part in
        ["the group `release` must", "has no member", "[groups]\n    release = [\"USER\"]", "par reload"]
    {
        assert!(told.contains(part), "{part:?} in {told}");
    }
}
