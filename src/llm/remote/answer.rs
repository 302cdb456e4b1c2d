//! Turns an answer, as a protocol parsed it, into a reply or an error for other rooms.

use crate::egress::Response;
use crate::llm::error::{ModelError, ModelErrorKind};
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
    let why = match answer.status {
        // The body is a page for browsers.
        300..=399 => "redirects are not followed; set `base_url` of the model to where its server is",
        _ => parsed.as_ref().and_then(reason).unwrap_or_else(|| body.trim()),
    };
    let why = match &answer.request_id {
        Some(id) => format!("{why} (request `{id}`)"),
        None => why.to_owned(),
    };
    let error = ModelError::status(answer.status, &why, answer.body);
    let status = format!("the server answered {}", answer.status);
    match (answer.retry_after.map(|pause| pause.as_secs()), error.message.strip_prefix(&status)) {
        (Some(seconds @ 1..), Some(why)) => {
            let message = format!("{status} and asks for a pause of {seconds} s{why}");
            ModelError { message, ..error }
        }
        _ => error,
    }
}

/// The error of a successful answer, with the type of a body that is not JSON at all: it comes
/// from something else than the model's server.
pub(in crate::llm) fn typed(error: ModelError, content_type: Option<&str>) -> ModelError {
    let raw = error.raw.as_deref().unwrap_or_default();
    let body = raw.strip_prefix("\u{feff}".as_bytes()).unwrap_or(raw).trim_ascii_start();
    let is_other = !body.is_empty() && !body.starts_with(b"{") && !body.starts_with(b"[");
    if error.kind != ModelErrorKind::Malformed || !is_other {
        return error;
    }
    let what = match (body.starts_with(GZIP), content_type) {
        (true, _) => "it is compressed, which PAR does not ask for".to_owned(),
        (false, Some(content_type)) => format!("it is not JSON, its type is `{content_type}`"),
        (false, None) => "it is not JSON, and it has no content type".to_owned(),
    };
    let message = format!("the answer is not a valid reply: {what}; check `base_url` of the model");
    ModelError { message, ..error }
}

/// How a body begins that is compressed with gzip (RFC 1952, section 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];

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
    use super::{WireCall, proposed, refusal, typed};
    use crate::egress::Response;
    use crate::llm::error::ModelError;
    use crate::tools::ProposedCall;
    use crate::types::Digest;
    use std::time::Duration;

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
    fn a_body_that_is_not_json_is_named_by_its_type() {
        let check = |body: &[u8], content_type: Option<&str>, expect: &str| {
            let error = typed(ModelError::malformed("expected value", body.to_vec()), content_type);
            assert!(error.message.contains(expect), "{error}");
        };
        check(b"<html>", Some("text/html"), "it is not JSON, its type is `text/html`; check `base_url`");
        check(b"<html>", None, "it is not JSON, and it has no content type");
        check(b"\x1f\x8b\x08", Some("application/json"), "it is compressed");
        check(b" {\"a\"", Some("application/json"), "valid reply: expected value");
        check(b"", None, "valid reply: expected value");
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let check = |status, pause: Option<u64>, body: &[u8], expect: &str| {
            let retry_after = pause.map(Duration::from_secs);
            let body = body.to_vec();
            let answer = Response { status, retry_after, request_id: None, content_type: None, body };
            assert_eq!(refusal(answer).message, expect);
        };
        check(429, None, b"slow", "the server answered 429: slow");
        check(429, Some(60), b"slow", "the server answered 429 and asks for a pause of 60 s: slow");
        check(503, Some(0), b"", "the server answered 503");
        let redirect = "the server answered 302: redirects are not followed; set `base_url` of the model to where \
                        its server is";
        check(302, None, b"<a href='https://elsewhere'>", redirect);
    }

    #[test]
    fn a_reply_full_of_equal_identifiers_takes_linear_time() {
        let calls = calls(&[Some("a"); 100_000]);
        assert_eq!(calls.last().map(|call| call.id.as_str()), Some("a_100000"));
    }
}
