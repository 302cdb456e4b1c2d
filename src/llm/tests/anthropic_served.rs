//! Messages over a real socket. Tests of what all protocols share are in `served`.

use super::scripted::{
    KEY, LONG, ScriptedServer, ServerStep, answer, ask, chat, good, permit, provider, settings, unnamed,
};
use crate::llm::{ModelErrorKind, ModelReply, ModelRequest, ProviderKind, Stop, ToolOffer, build};
use crate::types::{Digest, limits};
use serde_json::{Value, json};

fn message(content: &Value, stop_reason: &str) -> Vec<u8> {
    good(&json!({
        "type": "message", "role": "assistant", "model": "served-1",
        "content": content, "stop_reason": stop_reason,
        "usage": {"input_tokens": 4, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 1,
            "output_tokens": 3},
    }))
}

async fn said(body: Vec<u8>) -> ModelReply {
    let server = ScriptedServer::start(vec![ServerStep::Say(body)]).await;
    ask(ProviderKind::Anthropic, &server.base_url, LONG).await.expect("a reply")
}

fn read_file() -> ToolOffer {
    ToolOffer {
        name: "read_file".to_owned(),
        summary: "Read a file.".to_owned(),
        input: json!({"type": "object", "additionalProperties": false}),
    }
}

/// Parallel calls without a text, their results, and the text at the end.
#[tokio::test]
async fn the_request_is_complete_and_its_digest_is_kept() {
    let calls = r#"{"content":[{"type":"tool_use","id":"a","name":"read_file","input":{ "path":"/x"}},
        {"type":"tool_use","id":"b","name":"health_check","input":{}}],"stop_reason":"tool_use"}"#;
    let hello = message(&json!([{"type": "text", "text": "hello"}]), "end_turn");
    let server = ScriptedServer::start(vec![
        ServerStep::Say(answer(200, "", calls.as_bytes())),
        ServerStep::Say(hello),
    ])
    .await;
    let tools = [read_file()];
    let provider = provider(ProviderKind::Anthropic, &server.base_url);
    let mut conversation = chat("be careful");
    conversation.push_user(unnamed("read it".to_owned()));
    let permit = permit(&provider);
    let request = ModelRequest {
        conversation: &conversation,
        tools: &tools,
        deadline: LONG,
        permit: permit.as_ref(),
        listener: None,
    };
    let first = unnamed(provider.complete(&request).await.expect("a reply"));
    assert_eq!((first.text.as_deref(), &first.stop), (None, &Stop::ToolCalls));
    let arguments: Vec<&str> = first.calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{ "path":"/x"}"#, "{}"]);
    conversation.push_reply(&first);
    conversation.push_tool_text("a", "read_file", "{\"status\":\"ok\"}".to_owned());
    conversation.push_tool_text("b", "health_check", "{\"status\":\"refused\"}".to_owned());
    let request = ModelRequest {
        conversation: &conversation,
        tools: &tools,
        deadline: LONG,
        permit: permit.as_ref(),
        listener: None,
    };
    let last = provider.complete(&request).await.expect("a reply");

    assert_eq!((last.text.as_deref(), last.stop), (Some("hello"), Stop::EndTurn));
    assert_eq!((last.model.as_str(), last.usage.input_tokens, last.usage.output_tokens), ("served-1", 7, 3));
    let seen = server.seen.lock().expect("the log");
    assert_eq!(first.request_digest, Digest::sha256(&seen[0].body));
    assert_eq!(last.request_digest, Digest::sha256(&seen[1].body));
    assert!(seen[1].head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{}", seen[1].head);
    for header in
        [&*format!("x-api-key: {KEY}"), "anthropic-version: 2023-06-01", "content-type: application/json"]
    {
        assert!(seen[1].head.contains(&format!("\r\n{header}\r\n")), "{}", seen[1].head);
    }
    assert!(!seen[1].head.contains("authorization"), "{}", seen[1].head);
    let body: Value = serde_json::from_slice(&seen[1].body).expect("JSON");
    let expect = json!({
        "model": "asked-1",
        "max_tokens": limits::REPLY_TOKENS_MAX,
        "system": "be careful",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "read it"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "read_file", "input": {"path": "/x"}},
                {"type": "tool_use", "id": "b", "name": "health_check", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "{\"status\":\"ok\"}"},
                {"type": "tool_result", "tool_use_id": "b", "content": "{\"status\":\"refused\"}"},
            ]},
        ],
        "tools": [{"name": "read_file", "description": "Read a file.",
            "input_schema": {"type": "object", "additionalProperties": false}}],
    });
    assert_eq!(body, expect);
    assert!(seen[1].body.windows(14).any(|bytes| bytes == br#"{ "path":"/x"}"#), "the model's own bytes");
}

#[tokio::test]
async fn the_configured_limit_is_sent_and_empty_parts_are_not() {
    let server = ScriptedServer::start(vec![ServerStep::Say(message(&json!([]), "end_turn"))]).await;
    let mut settings = settings(ProviderKind::Anthropic, &server.base_url);
    settings.reply_tokens_max = Some(77);
    let mut conversation = chat("");
    conversation.push_user(unnamed("hello?".to_owned()));
    let provider = build(settings).expect("settings");
    let permit = permit(&provider);
    let request = ModelRequest {
        conversation: &conversation,
        tools: &[],
        deadline: LONG,
        permit: permit.as_ref(),
        listener: None,
    };
    let reply = provider.complete(&request).await.expect("a reply");
    assert_eq!((reply.text, reply.stop), (None, Stop::Empty));
    let seen = server.seen.lock().expect("the log");
    let body: Value = serde_json::from_slice(&seen[0].body).expect("JSON");
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "hello?"}]}]);
    assert_eq!(body, json!({"model": "asked-1", "max_tokens": 77, "messages": messages}));
}

#[tokio::test]
async fn a_refusal_is_reported_with_its_reason() {
    let explained = json!({
        "content": [{"type": "text", "text": "I"}], "stop_reason": "refusal",
        "stop_details": {"type": "refusal", "category": "cyber", "explanation": "not this"},
    });
    let reply = said(good(&explained)).await;
    assert_eq!((reply.stop, reply.text.as_deref()), (Stop::Refusal("not this".to_owned()), Some("I")));
    let worded = said(message(&json!([{"type": "text", "text": "I will not"}]), "refusal")).await;
    assert_eq!(worded.stop, Stop::Refusal("I will not".to_owned()));
    let silent = said(message(&json!([]), "refusal")).await;
    assert_eq!(silent.stop, Stop::Refusal("the model refused without giving a reason".to_owned()));
}

#[tokio::test]
async fn an_answer_of_another_shape_is_refused() {
    for (body, told) in [
        (r#"{"type":"message"}"#, "`content`"),
        (r#"{"content":7}"#, "invalid type"),
        (r#"{"content":[7]}"#, "a block of its content: invalid type"),
        (r#"{"content":[{"text":"a"}]}"#, "`type`"),
        (r#"{"content":[{"type":"text","text":7}]}"#, "invalid type"),
        (r#"{"content":[{"type":"tool_use","id":"a","input":{}}]}"#, "`name`"),
        (r#"{"content":[{"type":"tool_use","name":"a","name":"b"}]}"#, "duplicate field `name`"),
        (r#"{"content":[{"type":"tool_use","input":{"#, "EOF"),
    ] {
        let server = ScriptedServer::start(vec![ServerStep::Say(answer(200, "", body.as_bytes()))]).await;
        let error = ask(ProviderKind::Anthropic, &server.base_url, LONG).await.expect_err(told);
        assert_eq!((error.kind, error.retryable), (ModelErrorKind::Malformed, false), "{error}");
        assert!(error.message.contains(told), "{error}");
        assert_eq!(error.raw.as_deref(), Some(body.as_bytes()));
        assert_eq!(server.tries(), 1);
    }
}
