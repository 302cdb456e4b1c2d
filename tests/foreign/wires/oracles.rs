//! The crates llm-dialect and llmwire as oracles. A server takes PAR's requests on three wires.
//! Both crates read each request, and must find the same conversation and the same tools in it,
//! whatever the wire. The answer is one chat completion, which llmwire converts to the wire that
//! was asked on, whole or as a stream cut into small pieces.

use crate::par::Home;
use llm_dialect::dialect::{anthropic, deflate, openai_chat, openai_responses};
use llmwire::{Converter, ProtocolId, converter, resolve};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const WIRES: [(&str, ProtocolId); 3] = [
    ("openai", ProtocolId::Chat),
    ("openai_responses", ProtocolId::Responses),
    ("anthropic", ProtocolId::Messages),
];

/// What a request says, one line for each message and each tool.
type Meaning = Vec<String>;

/// What the oracles found in a request.
struct Found {
    by_llmwire: Meaning,
    by_dialect: Meaning,
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The meaning of a chat completions request.
fn meaning(messages: &Value, tools: &Value) -> Meaning {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut said = Vec::new();
    for message in list(messages) {
        let role = message["role"].as_str().unwrap_or_default().replace("developer", "system");
        let content = text(&message["content"]);
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        // One of the oracles makes a message of each call.
        if role != "assistant" || !content.is_empty() {
            said.push(format!("{role} {id}: {content}"));
        }
        for call in list(&message["tool_calls"]) {
            let (id, function) = (&call["id"], &call["function"]);
            let arguments: Value =
                serde_json::from_str(function["arguments"].as_str().unwrap_or("{}")).expect("JSON");
            said.push(format!("call {id} {} {arguments}", function["name"]));
        }
    }
    for tool in list(tools) {
        let function = &tool["function"];
        said.push(format!(
            "tool {} {} {}",
            function["name"], function["description"], function["parameters"]
        ));
    }
    said
}

fn by_dialect(protocol: ProtocolId, body: &[u8]) -> Meaning {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let items = match protocol {
        ProtocolId::Messages => anthropic::req::from_anthropic(&body),
        ProtocolId::Responses => openai_responses::req::from_openai_responses(&body),
        _ => openai_chat::req::from_openai_chat(&body),
    };
    let chat = deflate::items_to_chat_request(&items.expect("a request")).expect("a chat request");
    let messages = serde_json::to_value(&chat.messages).expect("JSON");
    meaning(&messages, &chat.tools.unwrap_or_default())
}

/// The chat completion that answers: two calls, and the answer after their results.
fn answer(has_results: bool) -> Value {
    let call = |id: &str, name: &str, arguments: Value| {
        json!({"id": id, "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let message = if has_results {
        json!({"role": "assistant", "content": "All is well."})
    } else {
        json!({"role": "assistant", "content": "I look at it.", "tool_calls": [
            call("call_a", "health_check", json!({})),
            call("call_b", "list_dir", json!({"path": "/var/log"})),
        ]})
    };
    let reason = if has_results { "stop" } else { "tool_calls" };
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
}

/// The same as a stream.
fn streamed(has_results: bool) -> String {
    let whole = answer(has_results);
    let message = &whole["choices"][0]["message"];
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut out = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
    for word in message["content"].as_str().expect("text").split_inclusive(' ') {
        out += &chunk(json!({"content": word}), Value::Null);
    }
    for (at, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let arguments = call["function"]["arguments"].as_str().expect("text");
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        let first = json!({"index": at, "id": call["id"], "type": "function",
            "function": {"name": call["function"]["name"], "arguments": head}});
        out += &chunk(json!({"tool_calls": [first]}), Value::Null);
        let rest = json!({"index": at, "function": {"arguments": tail}});
        out += &chunk(json!({"tool_calls": [rest]}), Value::Null);
    }
    out += &chunk(json!({}), whole["choices"][0]["finish_reason"].clone());
    out + "data: [DONE]\n\n"
}

fn serve(listener: &TcpListener, protocol: ProtocolId, found: &Mutex<Vec<Found>>) {
    for stream in listener.incoming().map_while(Result::ok) {
        let _gone = one(stream, protocol, found);
    }
}

fn one(stream: TcpStream, protocol: ProtocolId, found: &Mutex<Vec<Found>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut oracle = converter(protocol, ProtocolId::Chat, resolve(protocol, ProtocolId::Chat, "m"));
    let oracle = oracle.as_mut().expect("a converter");
    let mut chat = Vec::new();
    oracle.request(&body, &mut chat).expect("llmwire reads the request");
    let chat: Value = serde_json::from_slice(&chat).expect("JSON");
    let by_llmwire = meaning(&chat["messages"], &chat["tools"]);
    let has_results = by_llmwire.iter().any(|line| line.starts_with("tool call_"));
    found.lock().expect("found").push(Found { by_llmwire, by_dialect: by_dialect(protocol, &body) });
    let is_streamed = chat["stream"] == true;
    let bytes = if is_streamed {
        converted_stream(&mut **oracle, has_results)
    } else {
        let mut out = Vec::new();
        oracle
            .response(answer(has_results).to_string().as_bytes(), &mut out)
            .expect("llmwire writes the answer");
        out
    };
    let kind = if is_streamed { "text/event-stream" } else { "application/json" };
    let head = format!(
        "HTTP/1.1 200 x\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        bytes.len()
    );
    let out = reader.get_mut();
    out.write_all(head.as_bytes())?;
    // In pieces that end anywhere.
    bytes.chunks(37).try_for_each(|piece| out.write_all(piece))
}

fn converted_stream(oracle: &mut dyn Converter, has_results: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in streamed(has_results).as_bytes().chunks(11) {
        oracle.feed(piece, &mut out).expect("llmwire converts the stream");
    }
    oracle.finish(&mut out).expect("llmwire ends the stream");
    out
}

fn same(which: &str, one: &Meaning, other: &Meaning) {
    let differs = one.iter().zip(other).find(|(one, other)| one != other);
    assert!(differs.is_none() && one.len() == other.len(), "{which}: {differs:#?}");
}

#[test]
fn two_other_readers_find_the_same_in_every_request_and_their_answers_are_understood() {
    let mut all: Vec<(String, Meaning)> = Vec::new();
    for (wire, protocol) in WIRES {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let found = Arc::<Mutex<Vec<Found>>>::default();
        let seen = found.clone();
        std::thread::spawn(move || serve(&listener, protocol, &seen));
        let mut home = Home::new(wire, &format!("http://{address}/v1"));
        home.check(wire);
        let found = found.lock().expect("found");
        assert_eq!(found.len(), 4, "two requests of each of two runs: {wire}");
        for (at, Found { by_llmwire, by_dialect }) in found.iter().enumerate() {
            same(&format!("{wire}, request {at}, by two oracles"), by_llmwire, by_dialect);
            // Results hold figures of the host at the time.
            let line = |line: &String| match line.split_once(": ") {
                Some((head, _)) if line.starts_with("tool call_") => head.to_owned(),
                _ => line.clone(),
            };
            all.push((format!("{wire}, request {at}"), by_llmwire.iter().map(line).collect()));
        }
    }
    for (which, said) in &all {
        let (expect_of, expect) = &all[usize::from(which.ends_with('1') || which.ends_with('3'))];
        same(&format!("{which} and {expect_of}"), said, expect);
    }
    let second = &all[1].1;
    let calls = second.iter().filter(|line| line.starts_with("call ")).count();
    let tools = second.iter().filter(|line| line.starts_with("tool \"")).count();
    assert!(calls == 2 && tools > 5, "{second:#?}");
}
