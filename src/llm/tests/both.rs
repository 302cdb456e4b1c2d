//! Both protocols compared: a conversation means the same in each of them.

use super::scripted::{LONG, ScriptedServer, ServerStep, chat, good, permit, provider, unnamed};
use crate::llm::anthropic::Messages;
use crate::llm::openai::ChatCompletions;
use crate::llm::remote::wire::Wire;
use crate::llm::{Conversation, ModelReply, ModelRequest, ProviderKind, Stop, TokenUsage, ToolOffer};
use crate::secrets::SecretCounts;
use crate::tools::ProposedCall;
use crate::types::Digest;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The content of a request, whatever its protocol.
#[derive(Debug, PartialEq)]
enum Said {
    System(String),
    User(String),
    Assistant(String),
    Call(String, String, Value),
    Result(String, String),
    Tool(String, String, Value),
}

fn word(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn said_in_chat_completions(body: &Value) -> Vec<Said> {
    let mut said = Vec::new();
    for message in list(&body["messages"]) {
        let text = message["content"].as_str().map(str::to_owned);
        match message["role"].as_str() {
            Some("system") => said.extend(text.map(Said::System)),
            Some("user") => said.extend(text.map(Said::User)),
            Some("tool") => said.extend(text.map(|text| Said::Result(word(&message["tool_call_id"]), text))),
            // A message without calls requires a text, which may be empty.
            _ => said.extend(text.filter(|text| !text.is_empty()).map(Said::Assistant)),
        }
        for call in list(&message["tool_calls"]) {
            let arguments: Option<Value> = serde_json::from_str(&word(&call["function"]["arguments"])).ok();
            let arguments = arguments.filter(Value::is_object).unwrap_or_else(|| json!({}));
            said.push(Said::Call(word(&call["id"]), word(&call["function"]["name"]), arguments));
        }
    }
    let tools = list(&body["tools"]).iter().map(|tool| &tool["function"]);
    said.extend(
        tools.map(|tool| {
            Said::Tool(word(&tool["name"]), word(&tool["description"]), tool["parameters"].clone())
        }),
    );
    said
}

fn said_in_messages(body: &Value) -> Vec<Said> {
    let mut said: Vec<Said> =
        body["system"].as_str().map(|text| Said::System(text.to_owned())).into_iter().collect();
    for message in list(&body["messages"]) {
        for block in list(&message["content"]) {
            said.push(match (word(&block["type"]).as_str(), message["role"].as_str()) {
                ("text", Some("user")) => Said::User(word(&block["text"])),
                ("text", _) => Said::Assistant(word(&block["text"])),
                ("tool_use", _) => {
                    Said::Call(word(&block["id"]), word(&block["name"]), block["input"].clone())
                }
                _ => Said::Result(word(&block["tool_use_id"]), word(&block["content"])),
            });
        }
    }
    said.extend(list(&body["tools"]).iter().map(|tool| {
        Said::Tool(word(&tool["name"]), word(&tool["description"]), tool["input_schema"].clone())
    }));
    said
}

/// Roles alternate, no message is empty, and calls are followed by their results before anything
/// else.
fn keeps_the_order(body: &Value) -> bool {
    let messages = list(&body["messages"]);
    let of = |message: &Value, kind: &str, id: &str| -> Vec<Value> {
        let blocks = list(&message["content"]).iter();
        blocks
            .take_while(|block| kind != "tool_result" || block["type"] == kind)
            .filter(|block| block["type"] == kind)
            .map(|block| block[id].clone())
            .collect()
    };
    messages.iter().all(|message| !list(&message["content"]).is_empty())
        && messages.windows(2).all(|pair| {
            let results = of(&pair[1], "tool_result", "tool_use_id");
            pair[0]["role"] != pair[1]["role"] && results.starts_with(&of(&pair[0], "tool_use", "id"))
        })
}

fn request<W: Wire>(conversation: &Conversation, tools: &[ToolOffer]) -> Value {
    let request = ModelRequest { conversation, tools, deadline: LONG, permit: None };
    let body = W::write(&request, "m", Some(9)).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// A question and a reply: its text, and its calls with their results.
type Turn = (Option<String>, Option<String>, Vec<(String, String, String)>);

fn turn() -> impl Strategy<Value = Turn> {
    let text = || prop::option::of("\\PC{0,9}[a-z\"\\\\{\u{e9}]");
    let arguments = prop_oneof![
        Just(String::new()),
        "\\PC{0,12}",
        ("[a-z\"]{1,5}", any::<i64>()).prop_map(|(name, value)| format!(" {} ", json!({ name: [value] }))),
    ];
    (text(), text(), prop::collection::vec(("[a-z_]{1,9}", arguments, "\\PC{0,9}"), 0..4))
}

fn conversation(system: String, turns: Vec<Turn>) -> Conversation {
    let mut conversation = chat(&system);
    for (at, (question, text, calls)) in turns.into_iter().enumerate() {
        question.into_iter().for_each(|text| conversation.push_user(unnamed(text)));
        let proposed = calls.iter().enumerate().map(|(place, (tool, arguments, _))| ProposedCall {
            id: format!("call_{at}_{place}"),
            tool: tool.clone(),
            arguments: arguments.clone(),
        });
        let reply = ModelReply {
            text,
            calls: proposed.collect(),
            stop: Stop::EndTurn,
            usage: TokenUsage::default(),
            request_digest: Digest::sha256(b""),
            raw: Vec::new(),
            model: String::new(),
            found: SecretCounts::default(),
        };
        let reply = unnamed(reply);
        conversation.push_reply(&reply);
        for (call, (_, _, result)) in reply.calls.iter().zip(calls) {
            conversation.push_tool_text(&call.id, &call.tool, result);
        }
    }
    conversation
}

proptest! {
    #![proptest_config(crate::types::laws::cases(256))]

    #[test]
    fn a_conversation_is_the_same_on_each_wire(
        system in "\\PC{0,9}",
        turns in prop::collection::vec(turn(), 0..5),
        summary in "\\PC{0,9}",
    ) {
        let conversation = conversation(system, turns);
        let tools = [ToolOffer { name: "t".to_owned(), summary, input: json!({"type": "object"}) }];
        let messages = request::<Messages>(&conversation, &tools);
        let completions = request::<ChatCompletions>(&conversation, &tools);
        prop_assert_eq!(said_in_messages(&messages), said_in_chat_completions(&completions));
        prop_assert!(keeps_the_order(&messages), "{}", messages);
    }
}

/// Sends a question, answers the calls of the first reply, and returns both replies.
async fn two_rounds(kind: ProviderKind, answers: [Value; 2]) -> Vec<ModelReply> {
    let server =
        ScriptedServer::start(answers.iter().map(|body| ServerStep::Say(good(body))).collect()).await;
    let provider = provider(kind, &server.base_url);
    let mut conversation = chat("be careful");
    conversation.push_user(unnamed("how full is the disk?".to_owned()));
    let mut replies = Vec::new();
    for _ in 0..2 {
        let permit = permit(&provider);
        let request =
            ModelRequest { conversation: &conversation, tools: &[], deadline: LONG, permit: permit.as_ref() };
        let reply = unnamed(provider.complete(&request).await.expect("a reply"));
        conversation.push_reply(&reply);
        for call in &reply.calls {
            conversation.push_tool_text(&call.id, &call.tool, "{\"status\":\"ok\"}".to_owned());
        }
        replies.push(reply.into_parts().0.into_inner());
    }
    replies
}

#[tokio::test]
async fn a_question_has_the_same_reply_on_each_wire() {
    let completion = |message: Value, finish_reason: &str| {
        json!({"model": "m", "choices": [{"message": message, "finish_reason": finish_reason}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    };
    let message = |content: Value, stop_reason: &str| {
        json!({"model": "m", "content": content, "stop_reason": stop_reason,
            "usage": {"input_tokens": 5, "output_tokens": 2}})
    };
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let completions = [
        completion(
            json!({"content": "I look.", "tool_calls": [
                {"id": "a", "type": "function", "function": function("health_check", "{}")},
                {"id": "a", "type": "function", "function": function("list_dir", "{\"path\":\"/var\"}")},
            ]}),
            "tool_calls",
        ),
        completion(json!({"content": "Half full."}), "stop"),
    ];
    let messages = [
        message(
            json!([
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "health_check", "input": {}},
                {"type": "tool_use", "id": "a", "name": "list_dir", "input": {"path": "/var"}},
            ]),
            "tool_use",
        ),
        message(json!([{"type": "text", "text": "Half "}, {"type": "text", "text": "full."}]), "end_turn"),
    ];
    let left = two_rounds(ProviderKind::OpenAi, completions).await;
    let right = two_rounds(ProviderKind::Anthropic, messages).await;
    let meaning = |reply: &ModelReply| {
        (reply.text.clone(), reply.calls.clone(), reply.stop.clone(), reply.usage, reply.model.clone())
    };
    assert_eq!(left.iter().map(meaning).collect::<Vec<_>>(), right.iter().map(meaning).collect::<Vec<_>>());
    assert_eq!((left[0].calls.len(), left[1].text.as_deref()), (2, Some("Half full.")));
    assert_ne!(left[0].calls[0].id, left[0].calls[1].id);
}
