//! Laws of the answers of a model's server, see [`crate::borders`].

#![expect(clippy::expect_used, reason = "a law that does not hold ends the target")]

use super::conversation::Conversation;
use super::error::{ModelError, ModelErrorKind};
use super::form::OpaqueOrigin;
use super::remote::answer::refusal;
use super::remote::partial::StreamReader;
use super::remote::wire::{Wire, WireRequest, read};
use super::reply::{ModelReply, ReplyPart, Stop};
use super::wires::anthropic::Messages;
use super::wires::gemini::GenerateContents;
use super::wires::ollama::OllamaChats;
use super::wires::openai::ChatCompletions;
use super::wires::responses::Responses;
use crate::borders::refuses_visibly;
use crate::egress::Response;
use crate::secrets::Secrets;
use crate::types::{Digest, Labelled, limits, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Holds no secret. Making one for each input would take longer than all the rest.
static SECRETS: LazyLock<Secrets> = LazyLock::new(Secrets::default);

/// A chat completions answer, see [`reply`].
pub fn provider_openai(bytes: &[u8]) {
    let Some(reply) = reply::<ChatCompletions>(bytes) else { return };
    let sent = sent::<ChatCompletions>(reply.clone());
    let calls = sent.pointer("/messages/0/tool_calls").and_then(Value::as_array);
    let calls: Vec<(&str, &str, &str)> = calls
        .into_iter()
        .flatten()
        .map(|call| (word(call, "/id"), word(call, "/function/name"), word(call, "/function/arguments")))
        .collect();
    let of_reply = reply.calls.iter().map(|call| (&*call.id, &*call.tool, &*call.arguments));
    // A request that is nested too deeply for this reader has no messages here.
    assert!(sent.is_null() || calls == of_reply.collect::<Vec<_>>(), "the calls are sent back as others");
}

/// A messages answer, see [`reply`].
pub fn provider_anthropic(bytes: &[u8]) {
    let Some(reply) = reply::<Messages>(bytes) else { return };
    let sent = sent::<Messages>(reply.clone());
    let blocks = sent.pointer("/messages/0/content").and_then(Value::as_array).into_iter().flatten();
    let calls = blocks.filter(|block| block["type"] == "tool_use");
    let calls: Vec<(&str, &str)> = calls.map(|call| (word(call, "/id"), word(call, "/name"))).collect();
    let of_reply = reply.calls.iter().map(|call| (&*call.id, &*call.tool));
    assert!(sent.is_null() || calls == of_reply.collect::<Vec<_>>(), "the calls are sent back as others");
}

/// An answer of any wire, whole and as a stream. The first byte says which wire, the next ones
/// where the stream is cut into pieces.
pub fn provider_stream(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 5 {
        0 => stream::<ChatCompletions>(bytes),
        1 => stream::<Responses>(bytes),
        2 => stream::<Messages>(bytes),
        3 => stream::<GenerateContents>(bytes),
        _ => stream::<OllamaChats>(bytes),
    }
}

/// What one read of a stream gives: its deltas, and its reply or its error.
type StreamRead = (String, Result<ModelReply, String>);

/// The laws of a stream. Pieces make no difference. Only a whole reply has calls or state.
fn stream<W: Wire>(bytes: &[u8]) {
    let _reply = reply::<W>(bytes);
    let (sizes, bytes) = bytes.split_at(bytes.len().min(4));
    let whole = read_stream::<W>([bytes]);
    let (mut rest, mut pieces) = (bytes, Vec::new());
    for size in sizes.iter().cycle().take(bytes.len()) {
        let (piece, after) = rest.split_at(usize::from(*size).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    assert_eq!(read_stream::<W>(pieces), whole, "the pieces make a difference");
    let (_, Ok(reply)) = whole else { return };
    if matches!(reply.stop, Stop::Cut(_)) {
        assert!(reply.calls.is_empty(), "a reply that was cut proposes calls");
        assert_eq!(states(&reply), 0, "a reply that was cut has state");
    }
    assert_eq!(*SECRETS.clean(reply.clone()), reply, "taken apart and put together it is another reply");
}

fn read_stream<'a, W: Wire>(pieces: impl IntoIterator<Item = &'a [u8]>) -> StreamRead {
    let (mut reader, mut deltas, mut raw) = (StreamReader::<W>::new(), String::new(), Vec::new());
    for piece in pieces {
        raw.extend_from_slice(piece);
        if let Err(why) = reader.push(piece, &mut deltas) {
            return (deltas, Err(why.to_string()));
        }
    }
    let answer = reader.finish(&raw, None);
    let reply =
        answer.map(|answer| answer.into_reply(Vec::new(), Digest::sha256(b""), &OpaqueOrigin::default()));
    (deltas, reply.map_err(|why| why.to_string()))
}

fn states(reply: &ModelReply) -> usize {
    reply.parts.iter().filter(|part| matches!(part, ReplyPart::Opaque(_))).count()
}

/// The laws of all. A reply keeps the raw bytes, each of its calls has an identifier of its own,
/// and names are visible and bounded. Any other answer becomes a bounded error.
fn reply<W: Wire>(bytes: &[u8]) -> Option<ModelReply> {
    let digest = Digest::sha256(b"request");
    is_bounded(refusal(Response {
        status: 429,
        retry_after: None,
        request_id: None,
        content_type: None,
        body: bytes.to_vec(),
    }));
    let reply = match read::<W>(bytes.to_vec(), digest, &OpaqueOrigin::default()) {
        Ok(reply) => reply,
        Err(why) => {
            assert!(matches!(why.kind, ModelErrorKind::Malformed | ModelErrorKind::Reported), "{why}");
            is_bounded(why);
            return None;
        }
    };
    assert_eq!(read::<W>(bytes.to_vec(), digest, &OpaqueOrigin::default()).as_ref(), Ok(&reply));
    assert_eq!((reply.raw.as_slice(), reply.request_digest), (bytes, digest));
    assert_ne!(reply.text.as_deref(), Some(""));
    let ids: BTreeSet<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), reply.calls.len(), "two calls have one name");
    let is_plain = |id: &&str| (1..200).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(ids.iter().all(is_plain), "{ids:?}");
    let stop = if let Stop::Other(name) = &reply.stop { name } else { "" };
    for shown in [reply.model.as_str(), stop] {
        assert_eq!(text::visible_line(shown), shown);
        assert!(shown.len() <= 10 * limits::SHOWN_BYTES_MAX);
    }
    let clean = SECRETS.clean(reply.clone());
    assert!(*clean == reply && clean.found().is_none(), "taken apart and put together it is another reply");
    Some(reply)
}

fn is_bounded(error: ModelError) {
    let error = error.bounded(&SECRETS, &SECRETS.now());
    refuses_visibly(&error.message);
    assert_eq!(text::visible_line(&error.message), error.message);
    assert!(error.message.len() <= 10 * limits::REASON_BYTES_MAX, "{} bytes", error.message.len());
    assert!(error.raw.is_none_or(|raw| raw.len() <= limits::MODEL_ERROR_BYTES_MAX));
}

/// The next request, which sends `reply` back.
fn sent<W: Wire>(reply: ModelReply) -> Value {
    let mut conversation = Conversation::new(Labelled::trusted(String::new()));
    conversation.push_reply(&Labelled::trusted(SECRETS.clean(reply)));
    let written = W::write(&WireRequest {
        conversation: &conversation,
        tools: &[],
        origin: &OpaqueOrigin::default(),
        reply_tokens_max: None,
        context_tokens: limits::CONTEXT_TOKENS,
        is_streamed: false,
        is_plain: false,
    });
    let written = written.expect("a request");
    // Arguments may be nested deeper than this reader goes; the calls are then not compared.
    serde_json::from_slice(&written).unwrap_or_default()
}

fn word<'a>(call: &'a Value, pointer: &str) -> &'a str {
    call.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
