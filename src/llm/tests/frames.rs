//! A streamed reply on each wire: the text `héllo` in two pieces, then calls.

use crate::llm::ProviderKind;
use serde_json::{Value, json};

/// Every wire, in the order of the tables.
pub(in crate::llm) const STREAMED: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

/// The frames of a reply with a call for each of `ids`.
pub(in crate::llm) fn frames(kind: ProviderKind, ids: &[Option<&str>]) -> Vec<String> {
    let of = match kind {
        ProviderKind::OpenAi => openai,
        ProviderKind::OpenAiResponses => responses,
        ProviderKind::Anthropic => anthropic,
        ProviderKind::Gemini => gemini,
        _ => ollama,
    };
    let mut frames: Vec<String> = of(ids).iter().map(Value::to_string).collect();
    if kind == ProviderKind::OpenAi {
        frames.push("[DONE]".to_owned());
    }
    frames
}

/// The frames as the body of a stream, each line ended by `end`.
pub(in crate::llm) fn framed(kind: ProviderKind, frames: &[String], end: &str) -> Vec<u8> {
    let frame = |frame: &String| match kind {
        ProviderKind::Ollama => format!("{frame}{end}"),
        _ => format!("event: message{end}data: {frame}{end}{end}"),
    };
    frames.iter().map(frame).collect::<String>().into_bytes()
}

const HALVES: [&str; 2] = ["{\"a\":", "\"b\u{e9}\"}"];

fn openai(ids: &[Option<&str>]) -> Vec<Value> {
    let delta = |delta: Value| json!({"model": "m", "choices": [{"delta": delta}]});
    let mut frames = vec![delta(json!({"content": "h\u{e9}"})), delta(json!({"content": "llo"}))];
    for (index, id) in ids.iter().enumerate() {
        let call = json!({"index": index, "id": id, "function": {"name": "t", "arguments": HALVES[0]}});
        frames.push(delta(json!({"tool_calls": [call]})));
        let rest = json!({"index": index, "function": {"arguments": HALVES[1]}});
        frames.push(delta(json!({"tool_calls": [rest]})));
    }
    let reason = if ids.is_empty() { "stop" } else { "tool_calls" };
    frames.push(json!({"choices": [{"delta": {}, "finish_reason": reason}]}));
    frames.push(json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}));
    frames
}

fn responses(ids: &[Option<&str>]) -> Vec<Value> {
    let delta = |text| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text});
    let mut frames =
        vec![json!({"type": "response.created", "response": {}}), delta("h\u{e9}"), delta("llo")];
    let text = json!({"type": "output_text", "text": "h\u{e9}llo"});
    let mut output = vec![json!({"type": "message", "content": [text]})];
    for (index, id) in ids.iter().enumerate() {
        for half in HALVES {
            frames.push(json!({"type": "response.function_call_arguments.delta",
                "output_index": index + 1, "delta": half}));
        }
        output.push(json!({"type": "function_call", "call_id": id, "name": "t",
            "arguments": HALVES.concat()}));
    }
    frames.push(json!({"type": "response.completed", "response": {"model": "m", "status": "completed",
        "output": output, "usage": {"input_tokens": 7, "output_tokens": 3}}}));
    frames
}

fn anthropic(ids: &[Option<&str>]) -> Vec<Value> {
    let start = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let mut frames = vec![
        json!({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7}}}),
        start(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "h\u{e9}"})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "text_delta", "text": "llo"})),
    ];
    for (at, id) in ids.iter().enumerate() {
        frames.push(start(at + 1, json!({"type": "tool_use", "id": id, "name": "t", "input": {}})));
        for half in HALVES {
            frames.push(delta(at + 1, json!({"type": "input_json_delta", "partial_json": half})));
        }
    }
    let reason = if ids.is_empty() { "end_turn" } else { "tool_use" };
    frames.push(json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 3}}));
    frames.push(json!({"type": "message_stop"}));
    frames
}

fn gemini(ids: &[Option<&str>]) -> Vec<Value> {
    let part = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}], "modelVersion": "m"});
    let mut frames = vec![part(json!({"text": "h\u{e9}"})), part(json!({"text": "llo"}))];
    for id in ids {
        let call = json!({"id": id, "name": "t", "args": {"a": "b\u{e9}"}});
        frames.push(part(json!({"functionCall": call})));
    }
    frames.push(json!({"candidates": [{"finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3}}));
    frames
}

fn ollama(ids: &[Option<&str>]) -> Vec<Value> {
    let message = |message: Value| json!({"model": "m", "message": message, "done": false});
    let mut frames = vec![message(json!({"content": "h\u{e9}"})), message(json!({"content": "llo"}))];
    for id in ids {
        let call = json!({"id": id, "function": {"name": "t", "arguments": {"a": "b\u{e9}"}}});
        frames.push(message(json!({"content": "", "tool_calls": [call]})));
    }
    frames.push(json!({"model": "m", "message": {"content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 7, "eval_count": 3}));
    frames
}
