//! A run that may use only some tools: those that its request names, its key names, or both.

use crate::approval::People;
use crate::support::{Answer, TestHome, text};
use serde_json::{Value, json};

fn asked(home: &TestHome) -> Value {
    let header = home.entries(&["kind:run.request"]).pop().expect("a run");
    home.entry(header["seq"].as_u64().expect("seq"))["payload"].clone()
}

/// The model is told what keeps it from the tool, and no rule is asked.
#[test]
fn a_run_uses_only_the_tools_that_its_request_names() {
    let home = TestHome::init();
    std::fs::write(home.path("workspace/notes"), "the notes\n").expect("file");
    let call = format!("read_file(path=\"{}\")", home.path("workspace/notes").display());
    let open: Value = serde_json::from_str(&home.expect(0, &["run", &call, "--json"])).expect("JSON");
    assert_eq!(open["steps"][0]["status"], "ok", "{open}");
    assert_eq!((open.get("ceiling"), asked(&home).get("ceiling")), (None, None));

    let narrow = home.expect(0, &["run", "--tools", "list_dir,health_check", &call, "--json"]);
    let narrow: Value = serde_json::from_str(&narrow).expect("JSON");
    let step = &narrow["steps"][0];
    assert_eq!((&step["decision"], &step["class"]), (&json!("deny"), &json!("policy")), "{narrow}");
    let told = "`read_file` is not among the tools of this run, to which its request or its key limits it";
    assert_eq!(step["result"]["error"], told);
    let names = json!(["health_check", "list_dir"]);
    assert_eq!((&narrow["ceiling"], &asked(&home)["ceiling"]), (&names, &names));
    assert_eq!(asked(&home)["tools"], names, "only these are offered");
    let run = narrow["run"].as_str().expect("run");
    let shown = home.expect(0, &["runs", "show", run]);
    assert!(shown.contains("only health_check, list_dir"), "{shown}");
    let again = home.par(&["runs", "rerun", run]);
    assert!(text(&again.stdout).contains("not among the tools"), "{}", text(&again.stdout));
    assert_eq!(asked(&home)["ceiling"], names, "a run that is sent again has the same ceiling");

    let none: Value =
        serde_json::from_str(&home.expect(0, &["run", "--tools", "", &call, "--json"])).expect("JSON");
    assert_eq!((&none["ceiling"], &none["steps"][0]["decision"]), (&json!([]), &json!("deny")), "{none}");
    let mistyped = home.par(&["run", "--tools", "lst_dir", &call]);
    assert_eq!(mistyped.status.code(), Some(2), "{}", text(&mistyped.stderr));
    assert!(text(&mistyped.stderr).contains("did you mean `list_dir`?"), "{}", text(&mistyped.stderr));
    home.expect(0, &["audit", "verify"]);
    home.expect(0, &["policy", "replay"]);
}

fn post(server: &crate::support::Server, key: &str, body: &Value) -> Answer {
    server.post(key, body.to_string().as_bytes())
}

/// L4: neither the key nor the request widens what the other gives.
#[test]
fn a_key_and_a_request_only_narrow_each_other() {
    let home = TestHome::init();
    let key = home
        .expect(0, &["key", "create", "reader", "--role", "operator", "--tools", "list_dir,health_check"]);
    let key = key.trim();
    let server = home.serve();
    let offered = server.get(key, "/tools").json();
    let names: Vec<&str> =
        offered["items"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["health_check", "list_dir"]);
    let ceiling = |body: &Value| {
        let answer = post(&server, key, body);
        assert_eq!(answer.status, 200, "{}", text(&answer.body));
        answer.json()["ceiling"].clone()
    };
    let call = "read_file(path=\"/etc/hostname\")";
    assert_eq!(ceiling(&json!({ "message": call })), json!(["health_check", "list_dir"]));
    assert_eq!(ceiling(&json!({ "message": call, "tools": null })), json!(["health_check", "list_dir"]));
    assert_eq!(ceiling(&json!({ "message": call, "tools": ["read_file", "list_dir"] })), json!(["list_dir"]));
    assert_eq!(ceiling(&json!({ "message": call, "tools": ["read_file"] })), json!([]));
    for (tools, why) in [
        (json!("list_dir"), "`tools` must be an array of names of tools"),
        (json!([1]), "`tools` must be an array of names of tools"),
        (json!(["list_dri"]), "no tool is named `list_dri`: did you mean `list_dir`?"),
    ] {
        let answer = post(&server, key, &json!({ "message": call, "tools": tools }));
        assert_eq!(answer.status, 422, "{}", text(&answer.body));
        assert!(text(&answer.body).contains(why), "{}", text(&answer.body));
    }
    let listed = home.expect(0, &["key", "list"]);
    assert!(listed.contains("health_check list_dir"), "{listed}");
    let unknown = home.par(&["key", "create", "other", "--role", "operator", "--tools", "raed_file"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown.stderr));
    assert_eq!(server.stop(), Some(0));
    let unknown = home.par(&["key", "create", "other", "--role", "operator", "--tools", "raed_file"]);
    assert!(text(&unknown.stderr).contains("did you mean `read_file`?"), "{}", text(&unknown.stderr));
    home.expect(0, &["audit", "verify"]);
}

/// The ceiling is on the ledger, so it outlasts a wait and a restart.
#[test]
fn a_run_that_waited_keeps_its_ceiling() {
    let people = People::new();
    let message = format!("{}; {}", people.list(), people.read());
    let server = people.home.serve();
    let answer = post(&server, &people.asker, &json!({ "message": message, "tools": ["list_dir"] }));
    let run = answer.json();
    assert_eq!((answer.status, &run["status"]), (202, &json!("waiting")), "{run}");
    let id = run["steps"][0]["result"]["approval"].as_str().expect("approval");
    let approval = server.get(&people.ben, &format!("/approvals/{id}")).json();
    assert_eq!(server.stop(), Some(0));
    let server = people.home.serve();
    assert_eq!(crate::approval::grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &run);
    let outcome = |at: usize| ended["steps"][at]["decision"].clone();
    assert_eq!((outcome(0), outcome(1)), (json!("allow"), json!("deny")), "{ended}");
    assert_eq!(ended["ceiling"], json!(["list_dir"]));
    assert_eq!(server.stop(), Some(0));
    people.verify();
}
