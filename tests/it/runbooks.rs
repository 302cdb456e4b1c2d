//! Runbooks on a home: chosen by a whole phrase, followed without a model, given to a model with
//! the system prompt, on record, and refused at load if anything in them is wrong.

use crate::model::{House, Reply};
use crate::support::{TestHome, text};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const NOTE: &str = "+++
when = [\"look at the note\"]
tools = [\"health_check\", \"read_file\", \"deploy\"]
+++
# The note

1. `health_check()`
2. `deploy(demo, 1.0.0)`: back to the version that worked.

Tell the operator.
";

fn request(home: &TestHome) -> Value {
    let seq = home.entries(&["kind:run.request"]).pop().expect("a run")["seq"].as_u64().expect("seq");
    home.entry(seq)
}

/// `par run "disk is full"` works without a model, and the record says what was followed.
#[test]
fn a_phrase_of_a_runbook_is_followed_without_a_model() {
    let home = TestHome::init();
    let output = home.par(&["run", "Disk  is FULL"]);
    let (told, note) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{note}");
    for step in ["disk_usage", "largest_paths /var/log", "largest_paths"] {
        assert!(told.contains(step), "{step}: {told}");
    }
    assert!(told.contains("runbook disk-full: 3 of 3 steps"), "{told}");
    assert!(told.contains("What the runbook says next:\nIf another file system is full"), "{told}");
    assert!(note.contains("; runbook disk-full; ledger entries"), "{note}");
    let request = request(&home);
    assert_eq!(request["header"]["runbook"], "disk-full");
    let given = &request["payload"]["runbook"];
    assert_eq!(given["name"], "disk-full");
    assert!(given["text"].as_str().expect("text").contains(r#"`largest_paths(path="/var/log")`"#), "{given}");
    let loaded = home.entries(&["kind:policy.load"]).pop().expect("rules")["seq"].as_u64().expect("seq");
    let loaded = home.entry(loaded);
    let one = loaded["payload"]["runbooks"].as_array().expect("runbooks").iter();
    let sha256: Vec<&Value> =
        one.filter(|one| one["name"] == "disk-full").map(|one| &one["sha256"]).collect();
    assert_eq!(sha256, [&given["sha256"]]);
    assert_eq!(loaded["payload"]["digest"], request["header"]["policy"], "the bundle covers it");
    // So does the alert that it lists.
    let told = home.expect(0, &["run", "alert DiskFull"]);
    assert!(told.contains("runbook disk-full: 3 of 3 steps"), "{told}");
    // Nothing else chooses one, and replay decides as before.
    for other in ["is the disk is full", "alert DiskFull on web1"] {
        home.expect(0, &["run", other]);
        assert!(self::request(&home)["payload"].get("runbook").is_none(), "{other}");
    }
    home.expect(0, &["policy", "replay"]);
    home.expect(0, &["audit", "verify"]);
}

/// The model gets the operator's text with the system prompt, and never by what a tool says.
#[test]
fn a_model_gets_the_runbook_as_the_operators_text() {
    let house = House::start(|home| {
        std::fs::write(home.path("workspace/note.txt"), "disk is full").expect("file");
    });
    let note = house.home.path("workspace/note.txt").display().to_string();
    let read = Reply::Calls(vec![("read_file".to_owned(), json!({ "path": note }).to_string())]);
    house.model.play([read, Reply::Say("disk is full".to_owned())]);
    let run = house.server.run(&house.key, "what does the note say?").json();
    assert!(run.get("runbook").is_none(), "a result or a reply chooses nothing: {run}");
    assert!(!house.model.requests().concat().contains("runbook"), "no model heard of one");
    house.model.play([Reply::Say("seen".to_owned())]);
    let run = house.server.run(&house.key, "disk is full").json();
    assert_eq!(run["runbook"], "disk-full", "{run}");
    let asked: Value = serde_json::from_str(house.model.requests().last().expect("asked")).expect("JSON");
    let system = asked["messages"][0]["content"].as_str().expect("a prompt");
    assert_eq!(asked["messages"][0]["role"], "system");
    assert!(system.contains("wrote the following runbook for exactly this message"), "{system}");
    assert!(system.contains(r#"2. `largest_paths(path="/var/log")`"#), "{system}");
    assert_eq!(asked["messages"][1], json!({ "role": "user", "content": "disk is full" }));
    let shown = house.server.get(&house.key, &format!("/runs/{}", run["run"].as_str().expect("run"))).json();
    assert_eq!(shown["runbook"], "disk-full");
    house.check_ledger();
}

/// Whatever is wrong in a file is reported with its line, and nothing is loaded.
#[test]
fn a_faulty_runbook_is_refused_with_its_line() {
    let home = TestHome::init();
    let file = home.path("etc/runbooks.d/note.md");
    let check = |text: &str, expect: &str| {
        std::fs::write(&file, text).expect("file");
        for command in [&["policy", "check"][..], &["runbook", "check"], &["run", "help"]] {
            let output = home.par(command);
            let told = crate::support::text(&output.stderr);
            assert!(!output.status.success() && told.contains(expect), "{command:?}: {told}");
        }
    };
    check(
        &NOTE.replace("health_check", "health_chek"),
        "runbooks.d/note.md:3: no tool is named `health_chek`",
    );
    check(
        &NOTE.replace("look at the note", "disk is full"),
        "runbooks.d/note.md:2: the phrase `disk is full` chooses",
    );
    check(&NOTE.replace("tools =", "tool ="), "runbooks.d/note.md:3: unknown field `tool`");
    check(&format!("{NOTE}{}", "x".repeat(17 << 10)), "runbooks.d/note.md: has ");
    std::fs::write(&file, NOTE).expect("file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).expect("mode");
    let told = text(&home.par(&["policy", "check"]).stderr);
    assert!(told.contains("note.md: is writable by others (mode 0666)"), "{told}");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("mode");
    home.expect(0, &["policy", "check"]);
}

/// Which steps the rules would permit, ask about and deny, for a role.
#[test]
fn a_check_shows_what_would_be_decided_on_each_step() {
    let home = TestHome::init();
    home.add("runbooks.d/note.md", NOTE);
    let decided = |who: &str| -> Vec<String> {
        let told = home.expect(
            if who == "viewer" { 3 } else { 0 },
            &["runbook", "check", "note", "--as", who, "--json"],
        );
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let steps = told["steps"].as_array().expect("steps").iter();
        steps.map(|step| step["decision"].as_str().expect("a decision").to_owned()).collect()
    };
    assert_eq!(decided("operator"), ["allow", "needs_approval"]);
    assert_eq!(decided("viewer"), ["deny", "deny"]);
    home.expect(0, &["tool", "disable", "deploy"]);
    assert_eq!(decided("operator"), ["allow", "off"]);
    let told = home.expect(0, &["runbook", "list"]);
    assert!(told.contains("disk-full") && told.contains("look at the note"), "{told}");
    home.expect(2, &["runbook", "check", "nothing"]);
    // A tool that is off is left out and named.
    let told = home.expect(0, &["run", "look at the note"]);
    assert!(told.contains("runbook note: 1 of 2 steps; left out are those of `deploy`"), "{told}");
}
