//! A provider's own state: it goes back unchanged to where it came from, and to no other place.

use super::scripted::{
    KEY, LONG, ScriptedServer, ServerStep, answer, chat, good, origin, permit, settings, unnamed, written,
    written_text,
};
use crate::config::ModelKeys;
use crate::gate::ModelPermit;
use crate::llm::remote::wire::{Wire, read};
use crate::llm::wires::anthropic::Messages;
use crate::llm::wires::gemini::GenerateContents;
use crate::llm::wires::ollama::OllamaChats;
use crate::llm::wires::openai::ChatCompletions;
use crate::llm::wires::responses::Responses;
use crate::llm::{Conversation, DeltaSink, ModelReply, ModelRequest, ProviderKind, ReplyPart, Stop, build};
use crate::secrets::{Clean, Finder, Named, Secrets};
use crate::types::{Digest, Labelled, Secret};
use serde_json::{Value, json};

/// A reply with a state whose bytes no JSON writer would make, and a call.
fn with_state<W: Wire>() -> (Vec<u8>, &'static str) {
    let call = r#""id":"c","name":"t","#;
    let (body, state) = match W::KIND {
        ProviderKind::OpenAi => (
            r#"{"choices":[{"message":{"tool_calls":[{"id":"c","extra_content":STATE,"function":{"name":"t","arguments":"{}"}}]}}]}"#.to_owned(),
            r#"{ "google" : {"thought_signature":"a\/b"}}"#,
        ),
        ProviderKind::OpenAiResponses => (
            r#"{"output":[STATE,{"type":"function_call","call_id":"c","name":"t","arguments":"{}"}]}"#.to_owned(),
            r#"{"type" : "reasoning","id":"rs_1","summary":[],"encrypted_content":"a\/b"}"#,
        ),
        ProviderKind::Anthropic => (
            format!(r#"{{"content":[STATE,{{"type":"tool_use",{call}"input":{{}}}}]}}"#),
            r#"{"type" : "thinking","thinking":"x","signature":"a\/b"}"#,
        ),
        ProviderKind::Gemini => (
            format!(r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{{call}"args":{{}}}},"thoughtSignature":STATE}}]}}}}]}}"#),
            r#""a\/b""#,
        ),
        _ => (
            r#"{"message":{"content":"","thinking":"a/b","tool_calls":[{"id":"c","function":{"name":"t","arguments":{}}}]},"done":true}"#.to_owned(),
            r#""a/b""#,
        ),
    };
    (body.replace("STATE", state).into_bytes(), state)
}

fn asking<'a>(
    conversation: &'a Conversation,
    permit: Option<&'a ModelPermit>,
    listener: Option<DeltaSink<'a>>,
) -> ModelRequest<'a> {
    ModelRequest { conversation, tools: &[], deadline: LONG, permit, listener }
}

fn reply<W: Wire>(model: &str, secrets: &Secrets) -> (Clean<ModelReply>, &'static str) {
    let (body, state) = with_state::<W>();
    let reply = read::<W>(body, Digest::sha256(b""), &origin::<W>(model)).expect("a reply");
    (secrets.clean(reply), state)
}

fn sent<W: Wire>(reply: &Clean<ModelReply>) -> String {
    let mut conversation = chat("");
    conversation.push_user(unnamed("hello?".to_owned()));
    conversation.push_reply(&Labelled::trusted(reply.clone()));
    conversation.push_tool_text("c", "t", "{}".to_owned());
    written_text::<W>(&conversation, &[])
}

fn check<W: Wire>() {
    let none = Secrets::default();
    let (own, state) = reply::<W>("asked", &none);
    assert!(own.parts.iter().any(|part| matches!(part, ReplyPart::Opaque(_))), "{}", W::KIND.as_str());
    assert!(sent::<W>(&own).contains(state), "{}: {}", W::KIND.as_str(), sent::<W>(&own));
    let (of_other, _) = reply::<W>("another model", &none);
    assert!(!sent::<W>(&of_other).contains(state), "{}", W::KIND.as_str());
    // A secret in it: nothing is left, and the rest of the reply stays.
    let (mut body, _) = with_state::<W>();
    let text = String::from_utf8(body).expect("UTF-8");
    body = text.replace("a/b", &"a/b".repeat(3)).replace(r"a\/b", &r"a\/b".repeat(3)).into_bytes();
    let reply = read::<W>(body, Digest::sha256(b""), &origin::<W>("asked")).expect("a reply");
    let named = Named::new("s", b"a/ba/ba/b".to_vec().into()).expect("long enough");
    let secrets = Secrets::new(Finder::new(Vec::new().into(), vec![named], Vec::new()).expect("a finder"));
    let dropped = secrets.clean(reply);
    let states: Vec<Option<&String>> = dropped
        .parts
        .iter()
        .filter_map(
            |part| if let ReplyPart::Opaque(opaque) = part { Some(opaque.state.as_ref()) } else { None },
        )
        .collect();
    assert_eq!((states, dropped.calls.len()), (vec![None], 1), "{}", W::KIND.as_str());
    let sent = sent::<W>(&dropped);
    assert!(!sent.contains("a/b") && !sent.contains(r"a\/b") && !sent.contains("[secret"), "{sent}");
}

#[test]
fn a_state_goes_back_unchanged_and_only_to_where_it_came_from() {
    check::<ChatCompletions>();
    check::<Responses>();
    check::<Messages>();
    check::<GenerateContents>();
    check::<OllamaChats>();
}

/// Text, state and calls go back in the order in which they came.
#[test]
fn the_order_of_parts_is_kept() {
    let body = json!({"status": "completed", "output": [
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        {"type": "message", "content": [{"type": "output_text", "text": "one"}]},
        {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"},
        {"type": "reasoning", "id": "rs_2", "encrypted_content": "y"},
        {"type": "function_call", "call_id": "b", "name": "t", "arguments": "{}"},
        {"type": "message", "content": [{"type": "output_text", "text": "two"}]},
    ]});
    let reply = super::scripted::reply_of::<Responses>(body.to_string().as_bytes());
    let mut conversation = chat("");
    conversation.push_reply(&unnamed(reply));
    let sent = written::<Responses>(&conversation, &[]);
    let kinds: Vec<String> = sent["input"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| {
            let which = ["id", "call_id"].into_iter().find_map(|name| item[name].as_str());
            which.or(item["content"][0]["text"].as_str()).unwrap_or_default().to_owned()
        })
        .collect();
    assert_eq!(kinds, ["rs_1", "one", "a", "rs_2", "b", "two"]);
}

/// What a request leaves out is counted, for the record.
#[tokio::test]
async fn states_of_another_model_or_key_are_counted() {
    let body: Value = serde_json::from_slice(&with_state::<Messages>().0).expect("JSON");
    let server = ScriptedServer::start((0..3).map(|_| ServerStep::Say(good(&body))).collect()).await;
    let mut conversation = chat("");
    conversation.push_user(unnamed("hello?".to_owned()));
    let mut counts = Vec::new();
    for (model, key) in [("one", KEY), ("two", KEY), ("two", "sk-another-0123456789")] {
        let mut settings = settings(ProviderKind::Anthropic, &server.base_url);
        settings.model = model.to_owned();
        settings.keys = ModelKeys::of("default", Secret::new(key.to_owned()).expect("a key"));
        let provider = build(settings).expect("settings");
        let permit = permit(&provider);
        let request = asking(&conversation, permit.as_ref(), None);
        let reply = unnamed(provider.complete(&request).await.expect("a reply"));
        counts.push(reply.states_left_out);
        conversation.push_reply(&reply);
        conversation.push_tool_text("c", "t", "{}".to_owned());
    }
    assert_eq!(counts, [0, 1, 2], "the first one is another model's, and the second another key's");
}

/// A model that does not reason refuses to send its reasoning: it is asked again without.
#[tokio::test]
async fn what_a_server_does_not_know_is_left_out_from_then_on() {
    for (kind, refusal, body) in [
        (
            ProviderKind::OpenAiResponses,
            r#"{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}"#,
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
        ),
        (
            ProviderKind::OpenAi,
            r#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        ),
    ] {
        let refused = ServerStep::Say(answer(422, "", refusal.as_bytes()));
        let good = || ServerStep::Say(answer(200, "", body.as_bytes()));
        let server = ScriptedServer::start(vec![refused, good(), good()]).await;
        let provider = build(settings(kind, &server.base_url)).expect("settings");
        let mut conversation = chat("");
        conversation.push_user(unnamed("hello?".to_owned()));
        let listener = |_: Clean<String>| {};
        let listener = Some(DeltaSink::new(&listener));
        let permit = permit(&provider);
        let request = asking(&conversation, permit.as_ref(), listener);
        for _ in 0..2 {
            assert_eq!(provider.complete(&request).await.expect("a reply").stop, Stop::Empty);
        }
        let seen = server.seen.lock().expect("the log");
        let has = |at: usize| {
            let body: Value = serde_json::from_slice(&seen[at].body).expect("JSON");
            !body["include"].is_null() || !body["stream_options"].is_null()
        };
        assert_eq!([has(0), has(1), has(2)], [true, false, false], "{}", kind.as_str());
    }
}

/// Nothing is stored at the provider, whatever else a request says.
#[test]
fn responses_are_never_stored() {
    let sent = written::<Responses>(&chat(""), &[]);
    assert_eq!((&sent["store"], &sent["include"]), (&json!(false), &json!(["reasoning.encrypted_content"])));
    assert!(sent.get("previous_response_id").is_none() && !sent.to_string().contains(KEY));
}

/// Ollama drops what does not fit, without a word: the size is set, and a count at it is an
/// outcome.
#[tokio::test]
async fn a_prompt_at_the_bound_of_the_context_is_truncated() {
    let body = |read: u64| json!({"message": {"content": "a"}, "done": true, "prompt_eval_count": read});
    for (read, expect) in [(99, false), (100, true), (101, true)] {
        let server = ScriptedServer::start(vec![ServerStep::Say(good(&body(read)))]).await;
        let mut settings = settings(ProviderKind::Ollama, &server.base_url);
        settings.context_tokens = Some(100);
        let mut conversation = chat("be careful");
        conversation.push_user(unnamed("hello?".to_owned()));
        let provider = build(settings).expect("settings");
        let permit = permit(&provider);
        let request = asking(&conversation, permit.as_ref(), None);
        let reply = provider.complete(&request).await.expect("a reply");
        assert_eq!(matches!(reply.stop, Stop::Truncated(_)), expect, "{:?}", reply.stop);
        assert_eq!(reply.stop.failure().is_some(), expect);
        let seen = server.seen.lock().expect("the log");
        let sent: Value = serde_json::from_slice(&seen[0].body).expect("JSON");
        assert_eq!(
            (&sent["options"]["num_ctx"], &sent["truncate"], &sent["shift"]),
            (&json!(100), &json!(false), &json!(false))
        );
    }
}
