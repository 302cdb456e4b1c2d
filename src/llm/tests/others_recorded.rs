//! Recorded exchanges on the newer wires, and recorded streams on all of them.

use super::recorded::{Expected, replay, replay_streams, word};
use crate::llm::remote::wire::Wire;
use crate::llm::wires::anthropic::Messages;
use crate::llm::wires::gemini::GenerateContents;
use crate::llm::wires::ollama::OllamaChats;
use crate::llm::wires::openai::ChatCompletions;
use crate::llm::wires::responses::Responses;
use crate::llm::{ModelReply, ReplyPart, Stop};
use serde_json::Value;

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn of_responses(body: &Value) -> Expected {
    let items = |kind: &'static str| list(&body["output"]).iter().filter(move |item| item["type"] == kind);
    let texts = items("message").flat_map(|item| list(&item["content"]));
    let texts = texts.filter(|part| part["type"] == "output_text");
    let call = |item: &Value| (word(&item["call_id"]), word(&item["name"]), word(&item["arguments"]));
    Expected {
        text: texts.map(|part| word(&part["text"])).collect(),
        calls: items("function_call").map(call).collect(),
        input_tokens: body["usage"]["input_tokens"].as_u64().expect("a number"),
        output_tokens: body["usage"]["output_tokens"].as_u64().expect("a number"),
    }
}

/// The server gives its calls no identifiers, so they are derived.
fn of_gemini(body: &Value) -> Expected {
    let parts = || list(&body["candidates"][0]["content"]["parts"]).iter();
    let texts = parts().filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str());
    let calls = parts().filter(|part| part["functionCall"].is_object()).enumerate();
    let digest = crate::types::Digest::sha256(b"").short();
    let call = |(at, part): (usize, &Value)| {
        let call = &part["functionCall"];
        (format!("call_{digest}_{at}"), word(&call["name"]), call["args"].to_string())
    };
    let tokens = |name: &str| body["usageMetadata"][name].as_u64().unwrap_or(0);
    Expected {
        text: texts.collect(),
        calls: calls.map(call).collect(),
        input_tokens: tokens("promptTokenCount"),
        output_tokens: tokens("candidatesTokenCount") + tokens("thoughtsTokenCount"),
    }
}

fn of_ollama(body: &Value) -> Expected {
    let call = |call: &Value| {
        (word(&call["id"]), word(&call["function"]["name"]), call["function"]["arguments"].to_string())
    };
    Expected {
        text: word(&body["message"]["content"]),
        calls: list(&body["message"]["tool_calls"]).iter().map(call).collect(),
        input_tokens: body["prompt_eval_count"].as_u64().expect("a number"),
        output_tokens: body["eval_count"].as_u64().expect("a number"),
    }
}

fn states(reply: &ModelReply) -> usize {
    reply.parts.iter().filter(|part| matches!(part, ReplyPart::Opaque(_))).count()
}

/// The number of replies, of refusals, of calls and of opaque states; `None` if there are no
/// recordings.
fn whole<W: Wire>(folder: &str, expected: fn(&Value) -> Expected) -> Option<[usize; 4]> {
    let replayed = replay::<W>(folder, expected)?;
    let replies = &replayed.replies;
    for reply in replies {
        assert!(!matches!(reply.stop, Stop::Other(_)), "{folder}: {:?}", reply.stop);
    }
    let calls = replies.iter().map(|reply| reply.calls.len()).sum();
    let states = replies.iter().map(states).sum();
    Some([replies.len(), replayed.refusals, calls, states])
}

#[test]
fn replies_of_the_newer_wires_arrive_whole() {
    let found = [
        whole::<Responses>("openai", of_responses),
        whole::<GenerateContents>("gemini", of_gemini),
        whole::<OllamaChats>("ollama", of_ollama),
    ];
    if found[0].is_some() {
        assert_eq!(found, [Some([41, 5, 14, 6]), Some([68, 0, 33, 45]), Some([11, 0, 3, 5])]);
    }
}

/// The number of streams, of their calls, of their opaque states, and of replies that are complete.
fn streamed<W: Wire>(folder: &str) -> Option<[usize; 4]> {
    let streams = replay_streams::<W>(folder)?;
    for (deltas, reply) in &streams {
        assert_eq!(*deltas, reply.text.clone().unwrap_or_default(), "{folder}");
        for call in reply.calls.iter().filter(|_| reply.stop == Stop::ToolCalls) {
            let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
            assert!(arguments.is_object() && !call.tool.is_empty(), "{folder}: {call:?}");
        }
    }
    let sum = |of: fn(&ModelReply) -> usize| streams.iter().map(|(_, reply)| of(reply)).sum::<usize>();
    let whole = sum(|reply| usize::from(!matches!(reply.stop, Stop::Cut(_))));
    Some([streams.len(), sum(|reply| reply.calls.len()), sum(states), whole])
}

#[test]
fn streams_of_every_wire_arrive_whole_and_in_pieces() {
    let found = [
        streamed::<ChatCompletions>("openai"),
        streamed::<ChatCompletions>("mistral"),
        streamed::<ChatCompletions>("llamacpp"),
        streamed::<Responses>("openai"),
        streamed::<Messages>("anthropic"),
        streamed::<GenerateContents>("gemini"),
        streamed::<OllamaChats>("ollama"),
    ];
    if found[0].is_some() {
        let expect = [
            [47, 23, 0, 47],
            [33, 20, 0, 33],
            [6, 4, 0, 6],
            [29, 14, 3, 29],
            [59, 21, 11, 59],
            [52, 28, 33, 52],
            [3, 0, 0, 3],
        ];
        assert_eq!(found, expect.map(Some));
    }
}
