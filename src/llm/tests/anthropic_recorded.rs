//! Recorded exchanges with Anthropic's server.

use super::recorded::{Expected, replay, word};
use crate::llm::Stop;
use crate::llm::wires::anthropic::Messages;
use serde_json::Value;

fn expected(body: &Value) -> Expected {
    let blocks = |kind: &'static str| {
        let content = body["content"].as_array().expect("a list");
        content.iter().filter(move |block| block["type"] == kind)
    };
    // The recordings are compact, so serializing an input again gives the same bytes.
    let call = |block: &Value| (word(&block["id"]), word(&block["name"]), block["input"].to_string());
    let tokens = |name: &str| body["usage"][name].as_u64().unwrap_or(0);
    let cached = tokens("cache_creation_input_tokens") + tokens("cache_read_input_tokens");
    Expected {
        text: blocks("text").map(|block| word(&block["text"])).collect(),
        calls: blocks("tool_use").map(call).collect(),
        input_tokens: tokens("input_tokens") + cached,
        output_tokens: tokens("output_tokens"),
    }
}

#[test]
fn replies_of_anthropic_arrive_whole() {
    let Some(replayed) = replay::<Messages>("anthropic", expected) else { return };
    assert_eq!((replayed.replies.len(), replayed.refusals), (94, 14));
    let seen = |stop: fn(&Stop) -> bool| replayed.replies.iter().filter(|reply| stop(&reply.stop)).count();
    assert_eq!(seen(|stop| matches!(stop, Stop::ToolCalls)), 47);
    assert_eq!(seen(|stop| matches!(stop, Stop::EndTurn)), 32);
    assert_eq!(seen(|stop| matches!(stop, Stop::Empty)), 2);
    assert_eq!(seen(|stop| matches!(stop, Stop::Length)), 4);
    assert_eq!(seen(|stop| matches!(stop, Stop::Other(name) if name == "stop_sequence")), 9);
    let calls = || replayed.replies.iter().flat_map(|reply| &reply.calls);
    assert_eq!(calls().count(), 48);
    assert!(calls().any(|call| call.arguments == "{}"));
}
