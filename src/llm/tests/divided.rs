//! A secret that a stream divides: in the text, in arguments and in what a model thinks, in each of
//! its forms, at each place, on each wire. No four bytes of it are shown, and none of it is kept.

use super::frames::{STREAMED, framed, frames};
use super::scripted::{KEY, LONG, ScriptedServer, ServerStep, ask_streamed};
use crate::llm::{ModelReply, ProviderKind, ReplyPart};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Value, json};

/// The key as programs write it. All of these are ASCII.
fn forms() -> Vec<String> {
    let each = |digits: &dyn Fn(&u8) -> String| KEY.as_bytes().iter().map(digits).collect::<String>();
    vec![
        KEY.to_owned(),
        STANDARD_NO_PAD.encode(KEY),
        each(&|byte| format!("{byte:02x}")),
        each(&|byte| format!("%{byte:02X}")),
    ]
}

/// Where the text is divided: at each place of the key itself, and of another form at some.
fn places(form: &str) -> impl Iterator<Item = usize> + use<> {
    (0..=form.len()).step_by(if form == KEY { 1 } else { 5 })
}

/// Asks a server that sends these frames, each on its own.
async fn asked(kind: ProviderKind, frames: &[String]) -> (ModelReply, String) {
    let head = b"HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec();
    let said = frames.iter().map(|frame| framed(kind, std::slice::from_ref(frame), "\n"));
    let pieces = [head].into_iter().chain(said).collect();
    let server = ScriptedServer::start(vec![ServerStep::SayInPieces(pieces)]).await;
    let (outcome, deltas) = ask_streamed(kind, &server.base_url, LONG).await;
    (outcome.unwrap_or_else(|error| panic!("{}: {error}", kind.as_str())), deltas)
}

/// What was shown and is kept has nothing of `form`, which the server sent as `head` and the rest.
fn check(kind: ProviderKind, form: &str, head: &str, (reply, deltas): &(ModelReply, String)) {
    let place = format!("{}, {form} after `{head}`", kind.as_str());
    let leaks =
        |text: &str| form.as_bytes().windows(4).any(|four| text.as_bytes().windows(4).any(|w| w == four));
    let shown = deltas.split("[secret:").map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    assert!(!leaks(&shown.collect::<Vec<_>>().join(" ")), "{place}: {deltas}");
    let streamed = reply.streamed.as_ref().expect("a stream");
    assert!(streamed.held_secret && reply.raw.is_empty() && !reply.found.is_none(), "{place}: {reply:?}");
    assert!(!format!("{reply:?}").contains(form), "{place}: {reply:?}");
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[tokio::test]
async fn a_secret_divided_in_the_text_is_never_shown() {
    for kind in STREAMED {
        for form in forms() {
            for at in places(&form) {
                let (head, tail) = form.split_at(at);
                let replaced = |frame: String| {
                    frame
                        .replace(&quoted("h\u{e9}llo"), &quoted(&format!("an {form} end")))
                        .replace(&quoted("h\u{e9}"), &quoted(&format!("an {head}")))
                        .replace(&quoted("llo"), &quoted(&format!("{tail} end")))
                };
                let said: Vec<String> = frames(kind, &[]).into_iter().map(replaced).collect();
                let seen = asked(kind, &said).await;
                check(kind, &form, head, &seen);
                assert_eq!(seen.0.text.as_deref(), Some(&*seen.1), "what was shown is what is kept");
                assert!(seen.1.starts_with("an [secret:") && seen.1.ends_with(" end"), "{}", seen.1);
            }
        }
    }
}

#[tokio::test]
async fn a_secret_divided_in_an_argument_is_never_shown() {
    for kind in STREAMED {
        for form in forms() {
            for at in [4, form.len() / 2, form.len() - 1] {
                let (head, tail) = form.split_at(at);
                let whole = format!("{{\"a\":\"{form}\"}}");
                let replaced = |frame: String| {
                    frame
                        .replace(&quoted("{\"a\":\"b\u{e9}\"}"), &quoted(&whole))
                        .replace("{\"a\":\"b\u{e9}\"}", &whole)
                        .replace(&quoted("{\"a\":"), &quoted(&format!("{{\"a\":\"{head}")))
                        .replace(&quoted("\"b\u{e9}\"}"), &quoted(&format!("{tail}\"}}")))
                };
                let said: Vec<String> = frames(kind, &[Some("c")]).into_iter().map(replaced).collect();
                let seen = asked(kind, &said).await;
                check(kind, &form, head, &seen);
                assert_eq!(seen.1, "h\u{e9}llo");
                assert!(seen.0.calls[0].arguments.contains("[secret:llm.api_key:"), "{:?}", seen.0.calls);
            }
        }
    }
}

/// Frames in which the model thinks these two pieces and wants them back, with a call after them.
fn thinking(kind: ProviderKind, head: &str, tail: &str) -> Vec<String> {
    let mut said = frames(kind, &[Some("c")]);
    let both = format!("{head}{tail}");
    let text = |value: Value| value.to_string();
    let anthropic = |delta: Value| text(json!({ "type": "content_block_delta", "index": 9, "delta": delta }));
    match kind {
        ProviderKind::OpenAi => {
            for piece in [head, tail] {
                said.insert(1, text(json!({ "choices": [{ "delta": { "reasoning_content": piece } }] })));
            }
            let state = format!("\"extra_content\":{},\"function\"", json!({ "google": both }));
            said[4] = said[4].replacen("\"function\"", &state, 1);
        }
        ProviderKind::OpenAiResponses => {
            let item = json!({ "type": "reasoning", "id": "r", "summary": [], "encrypted_content": both });
            let last = said.last_mut().expect("a frame");
            *last = last.replacen("\"output\":[", &format!("\"output\":[{item},"), 1);
            for delta in [head, tail] {
                said.insert(1, text(json!({ "type": "response.reasoning_text.delta", "delta": delta })));
            }
        }
        ProviderKind::Anthropic => {
            let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
            let began = json!({ "type": "content_block_start", "index": 9, "content_block": block });
            let deltas = [
                json!({ "type": "thinking_delta", "thinking": head }),
                json!({ "type": "thinking_delta", "thinking": tail }),
                json!({ "type": "signature_delta", "signature": "s" }),
            ];
            let frames = [text(began)].into_iter().chain(deltas.map(anthropic));
            said.splice(1..1, frames.collect::<Vec<_>>());
        }
        ProviderKind::Gemini => {
            for piece in [head, tail] {
                let part = json!({ "text": piece, "thought": true, "thoughtSignature": both });
                said.insert(1, text(json!({ "candidates": [{ "content": { "parts": [part] } }] })));
            }
        }
        _ => {
            let thought =
                |piece| text(json!({ "message": { "content": "", "thinking": piece }, "done": false }));
            said.splice(1..1, [thought(head), thought(tail)]);
        }
    }
    said
}

#[tokio::test]
async fn a_secret_divided_in_what_a_model_thinks_is_never_shown() {
    for kind in STREAMED {
        for form in forms() {
            for at in [4, form.len() / 2, form.len() - 1] {
                let (head, tail) = form.split_at(at);
                let seen = asked(kind, &thinking(kind, head, tail)).await;
                check(kind, &form, head, &seen);
                assert_eq!((seen.1.as_str(), seen.0.calls.len()), ("h\u{e9}llo", 1), "{}", kind.as_str());
                let states = seen.0.parts.iter().filter_map(|part| match part {
                    ReplyPart::Opaque(opaque) => Some(opaque.state.is_some()),
                    _ => None,
                });
                let states: Vec<bool> = states.collect();
                assert!(!states.is_empty() && !states.contains(&true), "{}: {:?}", kind.as_str(), seen.0);
            }
        }
    }
}
