//! The law of the rebuilt request: from the ledger alone, a reader puts together each request to a
//! model, byte for byte.

use crate::approval::os_user;
use crate::model::{House, Reply};
use crate::second::Second;
use crate::support::{TestHome, text, until};
use serde_json::{Value, json};

const POLICY: &str = r#"
@id("list-asks")
@require_approval("release")
forbid (principal, action == PAR::Action::"list_dir", resource)
unless { context.call.approved == "approved" };
"#;

fn call(tool: &str, arguments: &Value) -> (String, String) {
    (tool.to_owned(), arguments.to_string())
}

/// What the reader that is not PAR rebuilds: how many requests, and those that it could not, or
/// that came out otherwise.
fn rebuilt(second: &Second, home: &TestHome) -> (u64, u64, Vec<Value>) {
    let told = second.requests(home);
    let count = |name: &str| told[name].as_u64().expect("a number");
    (count("built"), count("not_built"), told["other"].as_array().expect("a list").clone())
}

/// After several tools at once, a refusal, a wait, a restart, and a reload of other tools while the
/// run waits.
#[test]
fn a_third_person_rebuilds_each_request_of_a_run_that_was_resumed_under_other_tools() {
    let Some(second) = Second::find() else { return };
    let house = House::start(|home| {
        home.add("policies/50-asks.cedar", POLICY);
        let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("text");
        home.configure(&format!("{toml}[groups]\nrelease = [\"{}\"]\n", os_user()));
    });
    let workspace = house.home.path("workspace");
    std::fs::write(workspace.join("notes"), "first \"line\"\n\u{e9}\t\u{1}\n").expect("file");
    house.model.play([
        Reply::Calls(vec![
            call("health_check", &json!({})),
            call("read_file", &json!({ "path": workspace.join("notes") })),
            call("read_file", &json!({ "path": "/etc/shadow" })),
            call("no_such_tool", &json!({ "a": [1, 0.5, null] })),
        ]),
        Reply::Calls(vec![call("list_dir", &json!({ "path": workspace }))]),
    ]);
    let reply = house.server.run(&house.key, "look \"around\"\n\u{1f600}");
    assert_eq!(reply.status, 202, "{}", text(&reply.body));
    // The run resumes after a restart, and with other tools than it began with.
    let House { home, model, server, .. } = house;
    let manifest = home.path("etc/tools.d/read_file.toml");
    let changed =
        std::fs::read_to_string(&manifest).expect("text").replace("summary = \"", "summary = \"Now: ");
    std::fs::write(&manifest, changed).expect("written");
    home.expect(0, &["reload"]);
    assert_eq!(server.stop(), Some(0));
    let server = home.serve();
    model
        .play([Reply::Calls(vec![call("list_dir", &json!({ "path": "/" }))]), Reply::Say("done".to_owned())]);
    // Under other rules the call is asked about again.
    until("it is asked again", || home.entries(&["kind:approval.request"]).len() == 2);
    let asked = home.entries(&["kind:approval.request"]).pop().expect("asked");
    let asked = home.entry(asked["seq"].as_u64().expect("seq"));
    let approved = home.approve(asked["payload"]["id"].as_str().expect("id"), &[]);
    let said = text(&approved.stderr) + &text(&approved.stdout);
    assert!(approved.status.success(), "{said}");
    until("the run ends", || {
        let last = home.entries(&["kind:run.reply"]).pop().expect("a reply");
        !["waiting", "running"].contains(&last["status"].as_str().expect("status"))
    });
    let sent = model.requests().len() as u64;
    assert!(sent >= 3, "{said}");
    assert_eq!(rebuilt(&second, &home), (sent, 0, Vec::new()), "{said}");
    assert!(!server.log().contains("cannot be built again"), "{}", server.log());
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}
