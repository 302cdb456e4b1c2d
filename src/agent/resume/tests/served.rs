//! A server that answers on every wire from one script.

use crate::llm::ProviderKind;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One reply of the model.
#[derive(Clone, Debug)]
pub(super) struct ModelRound {
    /// Whether the first model refuses, so that the spare one answers.
    fails: bool,
    text: Option<String>,
    /// Tools and arguments. Without one, the run ends.
    calls: Vec<(&'static str, &'static str)>,
    has_state: bool,
    refuses: bool,
    /// How often the server refuses the request as too long before it answers.
    too_long: u32,
}

const CALLS: [(&str, &str); 5] = [
    ("read_file", r#"{"path": "/var/log/syslog"}"#),
    ("health_check", "{}"),
    ("no_such_tool", r#"{"a": 1}"#),
    ("read_file", r#"{"path":7}"#),
    ("list_dir", r#"{"path":"/etc/\u00e9"}"#),
];

impl ModelRound {
    pub(super) fn with_state() -> Self {
        let text = Some("I look \"there\".\n".to_owned());
        Self {
            fails: false,
            text,
            calls: vec![CALLS[0], CALLS[1]],
            has_state: true,
            refuses: false,
            too_long: 0,
        }
    }

    /// The request is refused this often because of its length.
    pub(super) fn too_long(times: u32) -> Self {
        Self { too_long: times, ..Self::with_state() }
    }

    /// A reply without calls.
    pub(super) fn answering(text: &str) -> Self {
        Self { text: Some(text.to_owned()), calls: Vec::new(), ..Self::with_state() }
    }

    pub(super) fn refusing() -> Self {
        Self { refuses: true, text: None, has_state: false, ..Self::with_state() }
    }
}

pub(super) fn any_round() -> impl Strategy<Value = ModelRound> {
    let calls = prop::collection::vec(prop::sample::select(CALLS.to_vec()), 1..9);
    (prop::bool::weighted(0.2), prop::option::of("\\PC{1,9}"), calls, any::<bool>(), 0_u32..40).prop_map(
        |(fails, text, calls, has_state, too_long)| ModelRound {
            fails,
            text,
            calls,
            has_state,
            refuses: false,
            too_long: too_long.saturating_sub(37),
        },
    )
}

/// As [`any_round`], with replies that may be the answer.
pub(super) fn any_round_or_answer() -> impl Strategy<Value = ModelRound> {
    let text = prop::sample::select(vec!["{\"lines\": 3}", "```json\n{}\n```", "{\"lines\":\"3\"}", "three"]);
    let answer = (text, any::<bool>())
        .prop_map(|(text, has_state)| ModelRound { has_state, ..ModelRound::answering(text) });
    prop_oneof![2 => any_round(), 1 => answer]
}

#[derive(Default)]
struct WireScript {
    rounds: VecDeque<ModelRound>,
    kinds: [ProviderKind; 2],
    bodies: Vec<Vec<u8>>,
}

pub(super) struct WireServer {
    pub(super) base_url: String,
    script: Arc<Mutex<WireScript>>,
}

impl WireServer {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}", listener.local_addr().expect("address"));
        let script = Arc::<Mutex<WireScript>>::default();
        let plays = script.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &plays);
            }
        });
        Self { base_url, script }
    }

    /// The next replies, of the first model or of the spare one. After them the model is done.
    pub(super) fn play(&self, first: ProviderKind, spare: ProviderKind, rounds: Vec<ModelRound>) {
        let mut script = self.script.lock().expect("script");
        *script = WireScript { rounds: rounds.into(), kinds: [first, spare], bodies: Vec::new() };
    }

    pub(super) fn bodies(&self) -> Vec<Vec<u8>> {
        self.script.lock().expect("script").bodies.clone()
    }

    /// The bodies of the requests since then.
    pub(super) fn take_bodies(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.script.lock().expect("script").bodies)
    }
}

fn answer(stream: TcpStream, script: &Mutex<WireScript>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("length");
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let is_first = head.starts_with("POST /first/");
    let mut script = script.lock().expect("script");
    script.bodies.push(body);
    let fails = is_first && script.rounds.front().is_some_and(|round| round.fails);
    let too_long = script.rounds.front_mut().map(|round| &mut round.too_long).filter(|times| **times > 0);
    let (status, told) = match too_long {
        _ if fails => (401, json!({ "error": { "message": "no" } }).to_string()),
        Some(times) => {
            *times -= 1;
            (
                400,
                json!({ "error": { "message": "This model's maximum context length is 5 tokens." } })
                    .to_string(),
            )
        }
        None => {
            let round = script.rounds.pop_front();
            (200, said(script.kinds[usize::from(!is_first)], round.as_ref()))
        }
    };
    drop(script);
    let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", told.len());
    reader.get_mut().write_all((head + &told).as_bytes()).expect("written");
}

/// The reply as `kind` writes it. Its state has bytes that no writer of JSON would make.
fn said(kind: ProviderKind, round: Option<&ModelRound>) -> String {
    let done = ModelRound {
        text: Some("done".to_owned()),
        calls: Vec::new(),
        has_state: false,
        ..ModelRound::with_state()
    };
    let round = round.unwrap_or(&done);
    let body = match kind {
        ProviderKind::OpenAi => chat(round),
        ProviderKind::OpenAiResponses => responses(round),
        ProviderKind::Anthropic => messages(round),
        ProviderKind::Gemini => contents(round),
        _ => ollama(round),
    };
    let state = match kind {
        ProviderKind::OpenAi => r#"{ "google" : {"thought_signature":"a\/b"}}"#,
        ProviderKind::OpenAiResponses => {
            r#"{"type" : "reasoning","id":"rs_1","summary":[],"encrypted_content":"a\/b"}"#
        }
        ProviderKind::Anthropic => r#"{"type" : "thinking","thinking":"x","signature":"a\/b"}"#,
        _ => r#""a\/b""#,
    };
    body.to_string().replace("\"STATE\"", state)
}

fn arguments(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn chat(round: &ModelRound) -> Value {
    let call = |(at, (tool, text)): (usize, &(&str, &str))| {
        let mut call = json!({ "id": format!("c{at}"), "type": "function", "function": { "name": tool, "arguments": text } });
        if round.has_state && at == 0 {
            call["extra_content"] = json!("STATE");
        }
        call
    };
    let calls: Vec<Value> = round.calls.iter().enumerate().map(call).collect();
    let refusal = round.refuses.then_some("I would rather not");
    let message =
        json!({ "role": "assistant", "content": round.text, "tool_calls": calls, "refusal": refusal });
    json!({ "model": "served", "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] })
}

fn responses(round: &ModelRound) -> Value {
    let mut output: Vec<Value> = round.has_state.then(|| json!("STATE")).into_iter().collect();
    if let Some(text) = &round.text {
        output.push(json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] }));
    }
    if round.refuses {
        output.push(json!({ "type": "message", "role": "assistant", "content": [{ "type": "refusal", "refusal": "I would rather not" }] }));
    }
    output.extend(round.calls.iter().enumerate().map(|(at, (tool, text))| {
        json!({ "type": "function_call", "call_id": format!("c{at}"), "name": tool, "arguments": text })
    }));
    json!({ "status": "completed", "model": "served", "output": output })
}

fn messages(round: &ModelRound) -> Value {
    let mut content: Vec<Value> = round.has_state.then(|| json!("STATE")).into_iter().collect();
    content.extend(round.text.iter().map(|text| json!({ "type": "text", "text": text })));
    content.extend(round.calls.iter().enumerate().map(|(at, (tool, text))| {
        json!({ "type": "tool_use", "id": format!("c{at}"), "name": tool, "input": arguments(text) })
    }));
    let stop = if round.calls.is_empty() { "end_turn" } else { "tool_use" };
    json!({ "model": "served", "content": content, "stop_reason": stop })
}

fn contents(round: &ModelRound) -> Value {
    let mut parts: Vec<Value> = round.text.iter().map(|text| json!({ "text": text })).collect();
    parts.extend(round.calls.iter().enumerate().map(|(at, (tool, text))| {
        let mut part = json!({ "functionCall": { "name": tool, "args": arguments(text) } });
        if round.has_state && at == 0 {
            part["thoughtSignature"] = json!("STATE");
        }
        part
    }));
    json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }], "modelVersion": "served" })
}

fn ollama(round: &ModelRound) -> Value {
    let calls: Vec<Value> = round
        .calls
        .iter()
        .map(|(tool, text)| json!({ "function": { "name": tool, "arguments": arguments(text) } }))
        .collect();
    let thinking = round.has_state.then_some("a/b");
    let message = json!({ "role": "assistant", "content": round.text.as_deref().unwrap_or_default(), "thinking": thinking, "tool_calls": calls });
    json!({ "model": "served", "message": message, "done": true, "done_reason": "stop" })
}
