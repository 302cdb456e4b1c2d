//! Turns an answer, as a protocol parsed it, into a reply or an error for other rooms.

use crate::egress::Response;
use crate::llm::error::ModelError;
use crate::llm::form::OpaqueOrigin;
use crate::llm::reply::{ModelReply, OpaqueState, ReplyPart, Stop, TokenUsage};
use crate::tools::ProposedCall;
use crate::types::{Digest, limits, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// An answer as a protocol parses it. All of it is as the server wrote it.
#[derive(Debug, Default)]
pub(in crate::llm) struct WireAnswer {
    /// In order.
    pub(in crate::llm) parts: Vec<WirePart>,
    pub(in crate::llm) stop: Stop,
    pub(in crate::llm) usage: TokenUsage,
    /// The model as the server names it.
    pub(in crate::llm) model: Option<String>,
}

/// A part of an answer.
#[derive(Debug)]
pub(in crate::llm) enum WirePart {
    Text(String),
    Call(WireCall),
    /// What the server wants back: JSON text, of which only its wire knows the place.
    Opaque(String),
}

/// A call, with the identifier from the server, if there is one.
#[derive(Debug, Default)]
pub(in crate::llm) struct WireCall {
    pub(in crate::llm) id: Option<String>,
    pub(in crate::llm) tool: String,
    pub(in crate::llm) arguments: String,
}

impl WireAnswer {
    pub(in crate::llm) fn into_reply(
        self,
        raw: Vec<u8>,
        request_digest: Digest,
        origin: &OpaqueOrigin,
    ) -> ModelReply {
        let (mut text, mut calls, mut parts) = (String::new(), Vec::new(), Vec::new());
        for part in self.parts {
            match part {
                WirePart::Text(more) => {
                    text.push_str(&more);
                    match parts.last_mut() {
                        Some(ReplyPart::Text(bytes)) => *bytes += more.len(),
                        _ => parts.extend(Some(ReplyPart::Text(more.len())).filter(|_| !more.is_empty())),
                    }
                }
                WirePart::Call(call) => {
                    calls.push(call);
                    parts.push(ReplyPart::Call);
                }
                WirePart::Opaque(state) => {
                    let digest = Digest::sha256(state.as_bytes());
                    let (origin, state) = (origin.clone(), Some(state));
                    parts.push(ReplyPart::Opaque(OpaqueState { origin, state, digest }));
                }
            }
        }
        let text = Some(text).filter(|text| !text.is_empty());
        let stop = match self.stop {
            Stop::Other(name) => Stop::Other(shown(&name)),
            Stop::ContentFilter(name) => Stop::ContentFilter(shown(&name)),
            Stop::EndTurn if text.is_none() && calls.is_empty() => Stop::Empty,
            known => known,
        };
        let calls = proposed(calls, request_digest);
        ModelReply {
            parts,
            usage: self.usage,
            request_digest,
            raw,
            model: self.model.as_deref().map_or_else(|| origin.model.clone(), shown),
            ..ModelReply::new(text, calls, stop)
        }
    }
}

/// Reads the answer of a server that refused.
pub(in crate::llm) fn refusal(answer: Response) -> ModelError {
    let body = String::from_utf8_lossy(&answer.body);
    let parsed: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let why = parsed.as_ref().and_then(reason).unwrap_or_else(|| body.trim());
    let why = match &answer.request_id {
        Some(id) => format!("{why} (request `{id}`)"),
        None => why.to_owned(),
    };
    ModelError::status(answer.status, &why, answer.body)
}

/// The reason in an error body: `error.message`, or `message`, `detail` or `error` if it is a text.
fn reason(body: &Value) -> Option<&str> {
    ["/error/message", "/message", "/error", "/detail", "/detail/0/msg"]
        .into_iter()
        .find_map(|pointer| body.pointer(pointer)?.as_str().filter(|text| !text.is_empty()))
}

/// The calls, each with an identifier that is unique in the reply. A missing or malformed
/// identifier is replaced by one derived from the request's digest, so that a reader of the ledger
/// derives the same.
fn proposed(calls: Vec<WireCall>, request_digest: Digest) -> Vec<ProposedCall> {
    let mut taken = BTreeMap::new();
    let name = |(at, call): (usize, WireCall)| {
        let given = call.id.filter(|id| is_plain(id));
        let wanted = given.unwrap_or_else(|| format!("call_{}_{at}", request_digest.short()));
        ProposedCall { id: unique(wanted, &mut taken), tool: call.tool, arguments: call.arguments }
    };
    calls.into_iter().enumerate().map(name).collect()
}

const CALL_ID_BYTES_MAX: usize = 128;

fn is_plain(id: &str) -> bool {
    (1..=CALL_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
}

/// `wanted`, or the first of `wanted_2`, `wanted_3`, … that is free. For each identifier `taken`
/// remembers the next number to try, so that a reply full of equal ones takes linear time.
fn unique(wanted: String, taken: &mut BTreeMap<String, u64>) -> String {
    let Some(mut next) = taken.get(&wanted).copied() else {
        taken.insert(wanted.clone(), 2);
        return wanted;
    };
    let other = loop {
        let other = format!("{wanted}_{next}");
        next += 1;
        if !taken.contains_key(&other) {
            break other;
        }
    };
    taken.insert(wanted, next);
    taken.insert(other.clone(), 2);
    other
}

/// A name from the server, printable and bounded.
fn shown(name: &str) -> String {
    text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::{WireCall, proposed};
    use crate::tools::ProposedCall;
    use crate::types::Digest;

    fn calls(ids: &[Option<&str>]) -> Vec<ProposedCall> {
        let call = |id: &Option<&str>| WireCall {
            id: id.map(str::to_owned),
            tool: "t".to_owned(),
            arguments: String::new(),
        };
        proposed(ids.iter().map(call).collect(), Digest::sha256(b"request"))
    }

    #[test]
    fn each_call_has_a_unique_identifier() {
        let check = |ids: &[Option<&str>], expect: &[&str]| {
            let calls = calls(ids);
            assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), expect);
        };
        check(&[Some("a"), Some("b")], &["a", "b"]);
        check(&[Some("a"), Some("a"), Some("a_2"), Some("a")], &["a", "a_2", "a_2_2", "a_3"]);
        let made = format!("call_{}_0", Digest::sha256(b"request").short());
        for absent in [None, Some(""), Some("a b"), Some("\u{1b}"), Some(&*"x".repeat(129))] {
            check(&[absent, Some("a")], &[&made, "a"]);
        }
    }

    #[test]
    fn a_reply_full_of_equal_identifiers_takes_linear_time() {
        let calls = calls(&[Some("a"); 100_000]);
        assert_eq!(calls.last().map(|call| call.id.as_str()), Some("a_100000"));
    }
}
