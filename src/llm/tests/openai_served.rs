//! Chat completions over a real socket. Tests of what all protocols share are in `served`.

use super::scripted::{
    KEY, LONG, ScriptedServer, ServerStep, answer, ask, chat, good, permit, provider, unnamed,
};
use crate::llm::{ModelErrorKind, ModelRequest, ProviderKind, Stop, ToolOffer};
use crate::types::Digest;
use serde_json::{Value, json};

fn completion(message: &Value, finish_reason: &str) -> Vec<u8> {
    good(&json!({
        "model": "served-1", "choices": [{"message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }))
}

#[tokio::test]
async fn the_request_is_complete_and_its_digest_is_kept() {
    let calls = json!([
        {"id": "a", "type": "function", "function": {"name": "read_file", "arguments": "{ \"path\":\"/x\"}"}},
        {"id": "b", "type": "function", "function": {"name": "list_dir", "arguments": "no JSON"}},
    ]);
    let proposing = completion(&json!({"content": null, "tool_calls": calls}), "tool_calls");
    let hello = completion(&json!({"role": "assistant", "content": "hello"}), "stop");
    let server = ScriptedServer::start(vec![ServerStep::Say(proposing), ServerStep::Say(hello)]).await;
    let tools = [ToolOffer {
        name: "read_file".to_owned(),
        summary: "Read a file.".to_owned(),
        input: json!({"type": "object", "additionalProperties": false}),
    }];
    let provider = provider(ProviderKind::OpenAi, &server.base_url);
    let mut conversation = chat("be careful");
    conversation.push_user(unnamed("read it".to_owned()));
    let permit = permit(&provider);
    let request =
        ModelRequest { conversation: &conversation, tools: &tools, deadline: LONG, permit: permit.as_ref() };
    let first = unnamed(provider.complete(&request).await.expect("a reply"));
    conversation.push_reply(&first);
    conversation.push_tool_text("a", "read_file", "{\"status\":\"ok\"}".to_owned());
    conversation.push_tool_text("b", "list_dir", "{\"status\":\"refused\"}".to_owned());
    let request =
        ModelRequest { conversation: &conversation, tools: &tools, deadline: LONG, permit: permit.as_ref() };
    let last = provider.complete(&request).await.expect("a reply");

    assert_eq!(
        (last.text.as_deref(), last.stop, last.model.as_str()),
        (Some("hello"), Stop::EndTurn, "served-1")
    );
    assert_eq!((last.usage.input_tokens, last.usage.output_tokens), (7, 3));
    let seen = server.seen.lock().expect("the log");
    assert_eq!(first.request_digest, Digest::sha256(&seen[0].body));
    assert_eq!(last.request_digest, Digest::sha256(&seen[1].body));
    assert!(seen[1].head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", seen[1].head);
    assert!(seen[1].head.contains(&format!("authorization: Bearer {KEY}")), "{}", seen[1].head);
    assert!(seen[1].head.contains("content-type: application/json"), "{}", seen[1].head);
    let body: Value = serde_json::from_slice(&seen[1].body).expect("JSON");
    let expect = json!({
        "model": "asked-1",
        "stream": false,
        "messages": [
            {"role": "system", "content": "be careful"},
            {"role": "user", "content": "read it"},
            {"role": "assistant", "content": null, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "a", "content": "{\"status\":\"ok\"}"},
            {"role": "tool", "tool_call_id": "b", "content": "{\"status\":\"refused\"}"},
        ],
        "tools": [{"type": "function", "function": {"name": "read_file", "description": "Read a file.",
            "parameters": {"type": "object", "additionalProperties": false}}}],
    });
    assert_eq!(body, expect);
}

#[tokio::test]
async fn an_answer_of_another_shape_is_refused() {
    for (body, told) in [
        (r#"{"choices":[]}"#, "no choice"),
        (r#"{"choices":7}"#, "invalid type"),
        (r#"{"choices":[{"message":{"tool_calls":[{}]}}]}"#, "`function`"),
        (r#"{"choices":[{"mess"#, "EOF"),
    ] {
        let server = ScriptedServer::start(vec![ServerStep::Say(answer(200, "", body.as_bytes()))]).await;
        let error = ask(ProviderKind::OpenAi, &server.base_url, LONG).await.expect_err(told);
        assert_eq!((error.kind, error.retryable), (ModelErrorKind::Malformed, false), "{error}");
        assert!(error.message.contains(told), "{error}");
        assert_eq!(error.raw.as_deref(), Some(body.as_bytes()));
        assert_eq!(server.tries(), 1);
    }
}
