//! Laws of the answers of a model's server, see [`crate::borders`].

#![expect(clippy::expect_used, reason = "a law that does not hold ends the target")]

use super::anthropic::Messages;
use super::conversation::Conversation;
use super::error::{ModelError, ModelErrorKind};
use super::openai::ChatCompletions;
use super::provider::ModelRequest;
use super::remote::answer::refusal;
use super::remote::wire::{Wire, read};
use super::reply::{ModelReply, Stop};
use crate::borders::refuses_visibly;
use crate::egress::Response;
use crate::secrets::Secrets;
use crate::types::{Digest, Labelled, limits, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

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
    assert_eq!(calls, of_reply.collect::<Vec<_>>(), "the calls are sent back as others");
}

/// A messages answer, see [`reply`].
pub fn provider_anthropic(bytes: &[u8]) {
    let Some(reply) = reply::<Messages>(bytes) else { return };
    let sent = sent::<Messages>(reply.clone());
    let blocks = sent.pointer("/messages/0/content").and_then(Value::as_array).into_iter().flatten();
    let calls = blocks.filter(|block| block["type"] == "tool_use");
    let calls: Vec<(&str, &str)> = calls.map(|call| (word(call, "/id"), word(call, "/name"))).collect();
    let of_reply = reply.calls.iter().map(|call| (&*call.id, &*call.tool));
    assert_eq!(calls, of_reply.collect::<Vec<_>>(), "the calls are sent back as others");
}

/// The laws of both. A reply keeps the raw bytes, each of its calls has an identifier of its own,
/// and names are visible and bounded. Any other answer becomes a bounded error.
fn reply<W: Wire>(bytes: &[u8]) -> Option<ModelReply> {
    let digest = Digest::sha256(b"request");
    is_bounded(refusal(Response { status: 429, retry_after: None, request_id: None, body: bytes.to_vec() }));
    let reply = match read::<W>(bytes.to_vec(), digest, "asked") {
        Ok(reply) => reply,
        Err(why) => {
            assert_eq!(why.kind, ModelErrorKind::Malformed);
            is_bounded(why);
            return None;
        }
    };
    assert_eq!(read::<W>(bytes.to_vec(), digest, "asked").as_ref(), Ok(&reply));
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
    let request = ModelRequest {
        conversation: &conversation,
        tools: &[],
        deadline: Duration::from_secs(1),
        permit: None,
    };
    let written = W::write(&request, "asked", None).expect("a request");
    // Arguments may be nested deeper than this reader goes; the calls are then not compared.
    serde_json::from_slice(&written).unwrap_or_default()
}

fn word<'a>(call: &'a Value, pointer: &str) -> &'a str {
    call.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
