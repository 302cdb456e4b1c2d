//! The law of the rebuilt request: from the ledger alone, a reader puts together each request to a
//! model, byte for byte.

use crate::approval::os_user;
use crate::model::{House, Reply, http};
use crate::second::Second;
use crate::support::{TestHome, text, until};
use serde_json::{Value, json};

pub(crate) const POLICY: &str = r#"
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
pub(crate) fn rebuilt(second: &Second, home: &TestHome) -> (u64, u64, Vec<Value>) {
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

/// A run with a runbook can be built again, and resumes: the digest in its request is that of the
/// system prompt alone, whose text is on record.
#[test]
fn a_run_with_a_runbook_resumes_and_is_rebuilt() {
    let Some(second) = Second::find() else { return };
    let house = House::start(|home| {
        home.add("policies/50-asks.cedar", POLICY);
        let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("text");
        home.configure(&format!("{toml}[groups]\nrelease = [\"{}\"]\n", os_user()));
    });
    house.model.play([
        Reply::Calls(vec![call("list_dir", &json!({ "path": house.home.path("workspace") }))]),
        Reply::Say("done".to_owned()),
    ]);
    let reply = house.server.run(&house.key, "disk is full");
    assert_eq!((reply.status, &reply.json()["runbook"]), (202, &json!("disk-full")), "{}", text(&reply.body));
    let asked = house.home.entries(&["kind:approval.request"]).pop().expect("asked");
    let asked = house.home.entry(asked["seq"].as_u64().expect("seq"));
    let approved = house.home.approve(asked["payload"]["id"].as_str().expect("id"), &[]);
    assert!(approved.status.success(), "{}", text(&approved.stderr));
    until("the run ends", || house.home.entries(&["kind:run.reply", "status:done"]).len() == 1);
    assert_eq!(house.model.requests().len(), 2);
    assert_eq!(rebuilt(&second, &house.home), (2, 0, Vec::new()));
}

/// A run in whose middle another model answered, on another wire: what that one said is part of the
/// requests after it, whose own are not built again but counted.
#[test]
fn a_run_that_went_by_two_wires_is_rebuilt_where_it_can_be() {
    let Some(second) = Second::find() else { return };
    let house = House::start(|home| {
        let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("text");
        let (model, rest) = toml.split_once("[paths]").expect("a table");
        let server = model.strip_prefix("[llm]\nprovider = \"openai\"\n").expect("a server");
        let table =
            |name: &str, wire: &str| format!("[models.{name}]\nkey = \"none\"\nwire = \"{wire}\"\n{server}");
        let (one, two) = (table("one", "openai"), table("two", "anthropic"));
        home.configure(&format!("[llm]\nuse = [\"one\", \"two\"]\n{one}{two}[paths]{rest}"));
    });
    let health = || call("health_check", &json!({}));
    let of_two = json!({ "model": "m", "stop_reason": "tool_use", "content": [
        { "type": "text", "text": "again" }, { "type": "tool_use", "id": "t", "name": "health_check", "input": {} },
    ] });
    let reply = house.run([
        Reply::Calls(vec![health()]),
        Reply::Raw(http(401, "", "{}")),
        Reply::Raw(http(200, "Content-Type: application/json\r\n", &of_two.to_string())),
        Reply::Say("done".to_owned()),
    ]);
    assert_eq!(reply["models"], json!(["one", "two", "one"]), "{reply}");
    assert_eq!(rebuilt(&second, &house.home), (3, 0, Vec::new()));
    assert_eq!(second.requests(&house.home)["other_wires"], 1);
}

/// Near the model's window the outputs of earlier calls are left out: on record first, and never
/// the calls, the question or the system prompt. The other reader knows it.
#[test]
fn a_long_run_leaves_out_old_outputs_and_says_so() {
    let Some(second) = Second::find() else { return };
    let house = House::start(|home| {
        let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("text");
        let window = "[llm]\nuse = [\"m\"]\n[models.m]\nwindow_tokens = 30000\nreply_tokens_max = 500\nwire";
        home.configure(&toml.replace("[llm]\nprovider", window));
        std::fs::write(home.path("workspace/notes"), "a line of text, \u{e9}\n".repeat(1_300)).expect("file");
    });
    let path = house.home.path("workspace/notes");
    let read = || Reply::Calls(vec![call("read_file", &json!({ "path": path }))]);
    let reply = house.run([read(), read(), read(), read(), read(), Reply::Say("done".to_owned())]);
    assert_eq!((&reply["status"], &reply["answer"]), (&json!("done"), &json!("done")), "{reply}");
    let requests = house.model.requests();
    assert_eq!(requests.len(), 6);
    for request in &requests {
        // Without what JSON escapes: the model does not read it.
        let escapes = request.matches(r"\\").count() + request.matches(r#"\""#).count();
        assert!((request.len() - escapes) / 3 <= 29_500, "{} bytes, {escapes} escapes", request.len());
        assert!(request.contains("You are PAR") && request.contains("\"content\":\"go\""));
    }
    let last = requests.last().expect("one");
    assert_eq!(last.matches("\"name\":\"read_file\",\"arguments\"").count(), 5, "every call stays");
    let trims = house.home.entries(&["kind:context.trim"]);
    assert!(!trims.is_empty() && trims.len() < 5, "{trims:?}");
    for header in &trims {
        let seq = header["seq"].as_u64().expect("seq");
        let trim = house.home.entry(seq);
        for entry in trim["payload"]["left_out"].as_array().expect("entries") {
            assert!(last.contains(&format!("output of entry {entry} left out")), "{trim}");
            assert_eq!(house.home.entry(entry.as_u64().expect("seq"))["header"]["kind"], "call.result");
        }
        // Before the request that it shapes.
        assert_eq!(house.home.entry(seq + 1)["header"]["kind"], "model.ask", "{trim}");
    }
    assert_eq!(rebuilt(&second, &house.home), (6, 0, Vec::new()));
    // One result that does not fit ends the run, and says why.
    std::fs::write(&path, "a line of text, \u{e9}\n".repeat(6_000)).expect("file");
    let long: Vec<Reply> = (0..5).map(|_| read()).collect();
    let reply = house.run(
        [Reply::Calls((0..6).map(|_| call("read_file", &json!({ "path": path }))).collect())]
            .into_iter()
            .chain(long),
    );
    assert_eq!((&reply["status"], &reply["limit"]), (&json!("limit"), &json!("window_tokens")), "{reply}");
    let answer = reply["answer"].as_str().expect("text");
    assert!(answer.contains("the window of 30000 tokens of the model `m`"), "{answer}");
    house.home.expect(0, &["audit", "verify"]);
}
