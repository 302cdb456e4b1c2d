//! A run on each wire: the same steps, and a record from which it resumes exactly.

use super::{House, Reply, http, until};
use crate::approval::os_user;
use serde_json::{Value, json};

const CALLS: [(&str, &str); 2] = [("health_check", "{}"), ("list_dir", r#"{"path":"/var/log"}"#)];

/// Two parallel calls with a text, as each wire has them, and the answer after their results.
fn replies(wire: &str) -> [Value; 2] {
    let arguments = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let each = |call: &dyn Fn(&str, &str, &str) -> Value| -> Vec<Value> {
        CALLS.iter().zip(["a", "b"]).map(|((tool, arguments), id)| call(id, tool, arguments)).collect()
    };
    match wire {
        "openai" => {
            let call = |id: &str, tool: &str, text: &str| json!({"id": id, "type": "function", "function": {"name": tool, "arguments": text}});
            let reply = |message: Value| json!({"model": "m", "choices": [{"message": message}]});
            [
                reply(json!({"content": "I look.", "tool_calls": each(&call)})),
                reply(json!({"content": "All is well."})),
            ]
        }
        "openai_responses" => {
            let call = |id: &str, tool: &str, text: &str| json!({"type": "function_call", "call_id": id, "name": tool, "arguments": text});
            let said =
                |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
            let reply = |output: Vec<Value>| json!({"model": "m", "status": "completed", "output": output});
            [reply([vec![said("I look.")], each(&call)].concat()), reply(vec![said("All is well.")])]
        }
        "anthropic" => {
            let call = |id: &str, tool: &str, text: &str| json!({"type": "tool_use", "id": id, "name": tool, "input": arguments(text)});
            let said = |text: &str| json!({"type": "text", "text": text});
            let reply = |content: Vec<Value>| json!({"model": "m", "content": content});
            [reply([vec![said("I look.")], each(&call)].concat()), reply(vec![said("All is well.")])]
        }
        "gemini" => {
            let call = |_: &str, tool: &str, text: &str| json!({"functionCall": {"name": tool, "args": arguments(text)}, "thoughtSignature": "s"});
            let said = |text: &str| json!({"text": text});
            let reply = |parts: Vec<Value>| json!({"modelVersion": "m", "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]});
            [reply([vec![said("I look.")], each(&call)].concat()), reply(vec![said("All is well.")])]
        }
        _ => {
            let call = |id: &str, tool: &str, text: &str| json!({"id": id, "function": {"name": tool, "arguments": arguments(text)}});
            let reply = |message: Value| json!({"model": "m", "message": message, "done": true});
            [
                reply(json!({"content": "I look.", "tool_calls": each(&call)})),
                reply(json!({"content": "All is well."})),
            ]
        }
    }
}

fn raw(body: &Value) -> Reply {
    Reply::Raw(http(200, "", &body.to_string()))
}

#[test]
fn one_question_has_the_same_steps_on_every_wire() {
    let mut seen: Vec<Value> = Vec::new();
    for wire in ["openai", "openai_responses", "anthropic", "gemini", "ollama"] {
        let house = House::start_in(&[("PAR_LLM__PROVIDER", wire)], |_| {});
        let reply = house.run(replies(wire).iter().map(raw));
        let step = |step: &Value| json!([step["tool"], step["args"], step["decision"], step["status"]]);
        let steps: Vec<Value> = reply["steps"].as_array().expect("steps").iter().map(step).collect();
        seen.push(json!([reply["status"], reply["answer"], steps]));
        assert_eq!(reply["answer"], "All is well.", "{wire}: {reply}");
        let requests = house.model.requests();
        let sent = requests.last().expect("a request");
        assert!(sent.contains("I look.") && sent.contains("health_check"), "{wire}: {sent}");
        assert_eq!(sent.matches(r#""thoughtSignature":"s""#).count(), if wire == "gemini" { 2 } else { 0 });
        house.check_ledger();
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
}

/// A reply with a state whose bytes no JSON writer would make, a text and a call that needs an
/// approval, as each wire has them; and the state.
fn with_state(wire: &str) -> (String, &'static str) {
    let arguments = json!({"project": "demo", "version": "1.0.1"});
    match wire {
        "openai_responses" => {
            let state = r#"{"id":"rs_1" , "type":"reasoning","summary":[],"encrypted_content":"a\/b"}"#;
            let call = json!({"type": "function_call", "call_id": "a", "name": "deploy", "arguments": arguments.to_string()});
            let said = json!({"type": "message", "content": [{"type": "output_text", "text": "I deploy."}]});
            (format!(r#"{{"model":"m","status":"completed","output":[{state},{said},{call}]}}"#), state)
        }
        "anthropic" => {
            let state = r#"{"type" : "thinking","thinking":"x","signature":"a\/b"}"#;
            let said = json!({"type": "text", "text": "I deploy."});
            let call = json!({"type": "tool_use", "id": "a", "name": "deploy", "input": arguments});
            (format!(r#"{{"model":"m","content":[{state},{said},{call}],"stop_reason":"tool_use"}}"#), state)
        }
        _ => {
            let state = r#""a\/b""#;
            let call = json!({"id": "a", "name": "deploy", "args": arguments});
            let parts =
                format!(r#"[{{"text":"I deploy."}},{{"functionCall":{call},"thoughtSignature":{state}}}]"#);
            (
                format!(
                    r#"{{"candidates":[{{"content":{{"parts":{parts}}},"finishReason":"STOP"}}],"modelVersion":"m"}}"#
                ),
                state,
            )
        }
    }
}

/// Approves the call of a waiting run. Returns the request that the model then gets.
fn gone_on(house: &House, waits: &Value, wire: &str) -> String {
    let id = waits["steps"][0]["result"]["approval"].as_str().expect("approval").to_owned();
    house.model.play([raw(&replies(wire)[1])]);
    let approved = house.home.approve(&id, &[]);
    assert!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
    let run = waits["run"].as_str().expect("run");
    let query = [format!("run:{run}"), "kind:run.reply".to_owned()];
    let query: Vec<&str> = query.iter().map(String::as_str).collect();
    until("the run goes on", || {
        house.home.entries(&query).last().is_some_and(|reply| reply["status"] == "done")
    });
    house.model.requests().last().expect("a request").clone()
}

/// A run that waited is rebuilt from the ledger, and its next request has the provider's state byte
/// for byte where it was. With another key, it is another account's: it is left out, and the record
/// says so. No record has anything with which a guess of the key could be tested.
#[test]
fn a_state_survives_an_approval_and_not_another_key() {
    for wire in ["openai_responses", "anthropic", "gemini"] {
        let own = tempfile::tempdir().expect("folder");
        let file = own.path().join("key");
        crate::secrets::private(&file, "sk-test-first-0123456789");
        let mut house = House::start_in(&[("PAR_LLM__PROVIDER", wire)], |home| {
            let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
            let key = format!("model = \"m\"\napi_key_file = \"{}\"\n", file.display());
            let toml = toml.replace("model = \"m\"\n", &key);
            home.configure(&format!("{toml}[groups]\nrelease = [\"{}\"]\n", os_user()));
        });
        let (body, state) = with_state(wire);
        let ask = |house: &House| {
            house.model.play([Reply::Raw(http(200, "", &body))]);
            let answer = house.server.run(&house.key, "go");
            let waits = answer.json();
            assert_eq!((answer.status, &waits["status"]), (202, &json!("waiting")), "{wire}: {waits}");
            waits
        };
        let waits = ask(&house);
        let replied = house.home.entries(&["kind:model.reply"]);
        let payload = house.home.entry(replied[0]["seq"].as_u64().expect("number"))["payload"].clone();
        let parts = payload["parts"].as_array().expect("parts");
        let opaque = parts.iter().find_map(|part| part.get("opaque")).expect("a state");
        let digest = opaque["key"].as_str().expect("what tells the key from another").to_owned();
        let expect = json!({"wire": wire, "base_url": format!("http://{}/v1", house.model.address),
            "model": "m", "key": digest, "state": state});
        assert_eq!((opaque, parts.len(), digest.len()), (&expect, 3, 32), "{wire}");
        // What anybody can compute of the key is not what is recorded.
        let plain = par::types::Digest::sha256(b"sk-test-first-0123456789").hex();
        assert!(!payload.to_string().contains(&plain[..16]), "{wire}");
        let sent = gone_on(&house, &waits, wire);
        let place = |text: &str| sent.find(text).unwrap_or_else(|| panic!("{wire}: {text} is not in {sent}"));
        assert_eq!(place(state) < place("I deploy."), wire != "gemini", "{sent}");

        // The same with a new key.
        let waits = ask(&house);
        crate::secrets::private(&file, "sk-test-second-0123456789");
        house.home.expect(0, &["reload"]);
        let sent = gone_on(&house, &waits, wire);
        assert!(!sent.contains(state) && sent.contains("I deploy."), "{wire}: {sent}");
        let last = house.home.entries(&["kind:model.reply"]).pop().expect("a reply");
        let payload = house.home.entry(last["seq"].as_u64().expect("number"))["payload"].clone();
        assert_eq!(payload["states_left_out"], 1, "{wire}: {payload}");
        house.check_ledger();
        assert_eq!(house.server.end(), Some(0));
    }
}

/// A reply to a part of the request: the model may not have read its instructions, so nothing that
/// it proposes is decided.
#[test]
fn a_reply_to_a_truncated_request_runs_nothing() {
    let house = House::start_in(&[("PAR_LLM__PROVIDER", "ollama")], |_| {});
    let mut body = replies("ollama")[0].clone();
    body["prompt_eval_count"] = json!(16_384);
    let reply = house.run([raw(&body)]);
    assert_eq!((&reply["status"], &reply["said_by"]), (&json!("failed"), &json!("par")), "{reply}");
    let answer = reply["answer"].as_str().expect("an answer");
    assert!(answer.starts_with("the model did not get the whole request: "), "{answer}");
    assert_eq!(reply["steps"], json!([]));
    assert!(house.home.entries(&["kind:call.decision"]).is_empty());
    let replied = house.home.entries(&["kind:model.reply"]);
    let payload = house.home.entry(replied[0]["seq"].as_u64().expect("number"))["payload"].clone();
    assert_eq!((&payload["stop"], payload["calls"].as_array().map(Vec::len)), (&json!("truncated"), Some(2)));
    house.check_ledger();
}
