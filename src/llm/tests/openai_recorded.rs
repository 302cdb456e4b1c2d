//! Recorded exchanges with servers of chat completions.

use super::recorded::{Expected, replay, word};
use crate::llm::wires::openai::ChatCompletions;
use crate::llm::{ModelReply, Stop};
use serde_json::Value;

fn expected(body: &Value) -> Expected {
    let message = &body["choices"][0]["message"];
    let text = match &message["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    };
    let call = |call: &Value| {
        (word(&call["id"]), word(&call["function"]["name"]), word(&call["function"]["arguments"]))
    };
    let tokens = |name: &str| body["usage"][name].as_u64().expect("a number");
    Expected {
        text,
        calls: message["tool_calls"].as_array().into_iter().flatten().map(call).collect(),
        input_tokens: tokens("prompt_tokens"),
        output_tokens: tokens("completion_tokens"),
    }
}

/// The replies in `folder`; with the refusals there must be more than `more_than`.
fn replies(folder: &str, more_than: usize) -> Vec<ModelReply> {
    let Some(replayed) = replay::<ChatCompletions>(folder, expected) else { return Vec::new() };
    let count = replayed.replies.len() + replayed.refusals;
    assert!(count > more_than, "{folder}: only {count} exchanges");
    for reply in &replayed.replies {
        assert!(!matches!(reply.stop, Stop::Other(_)), "{folder}: {:?}", reply.stop);
    }
    replayed.replies
}

#[test]
fn replies_of_openai_arrive_whole() {
    let replies = replies("openai", 20);
    let seen = |stop: fn(&Stop) -> bool| replies.iter().filter(|reply| stop(&reply.stop)).count();
    if !replies.is_empty() {
        assert!(seen(|stop| matches!(stop, Stop::EndTurn)) > 5);
        assert!(seen(|stop| matches!(stop, Stop::ToolCalls)) > 5);
        assert!(seen(|stop| matches!(stop, Stop::Length)) > 5);
        assert!(seen(|stop| matches!(stop, Stop::Refusal(_))) > 1);
        assert!(replies.iter().any(|reply| reply.calls.len() > 1));
    }
}

#[test]
fn replies_of_mistral_arrive_whole() {
    replies("mistral", 20);
}

#[test]
fn replies_of_llamacpp_arrive_whole() {
    replies("llamacpp", 20);
}
