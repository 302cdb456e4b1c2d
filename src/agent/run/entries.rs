//! The entries of a run: its request, the model's replies and its errors.

use super::state::RunWalk;
use crate::ledger::payload::{
    CallProposed, ModelErrorPayload, ModelReplyPayload, RepliedPart, RepliedState, RunRequestPayload,
    StopReason,
};
use crate::ledger::{Draft, Payload};
use crate::llm::{ModelError, ModelReply, OpaqueOrigin, OpaqueState, ReplyPart, Stop};
use crate::secrets::Clean;
use crate::tools::ProposedCall;
use crate::types::{Digest, limits};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

impl RunWalk<'_> {
    pub(super) fn request_draft(&self, message: &Clean<String>) -> Draft {
        self.draft(RunRequestPayload {
            message: String::clone(message),
            calls_max: self.session.budget.unsigned_abs(),
            tools: self.shown_tools(),
            provider: self.provider.name().to_owned(),
            model: self.provider.model().to_owned(),
            source_ip: self.door.source_ip.map(|ip| ip.to_string()),
            via: Some(self.door.via.as_str().to_owned()),
            channel: Some(self.channel),
            secrets: message.found().counts(),
        })
    }

    /// The names of the tools offered to the model.
    fn shown_tools(&self) -> Vec<String> {
        self.offers.iter().map(|offer| offer.name.clone()).collect()
    }

    /// The reply with the exact bytes of the model, except for secrets. The request is recorded as
    /// the digest of its bytes; its messages are already on the ledger.
    pub(super) fn reply_draft(&self, reply: &Clean<ModelReply>, are_tools_others: bool) -> Draft {
        let call = |call: &ProposedCall| CallProposed {
            id: call.id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        };
        let (stop, stop_text) = stop_reason(&reply.stop);
        let streamed = reply.streamed.as_ref();
        let held_secret = streamed.is_some_and(|one| one.held_secret);
        let (raw, raw_base64) = if held_secret { (None, None) } else { text_or_base64(&reply.raw) };
        self.draft(fitted(ModelReplyPayload {
            model: reply.model.clone(),
            request_sha256: reply.request_digest,
            request_messages: self.conversation.messages().len() as u64,
            calls: reply.calls.iter().map(call).collect(),
            stop,
            stop_text,
            input_tokens: exact(reply.usage.input_tokens),
            output_tokens: exact(reply.usage.output_tokens),
            text: reply.text.clone(),
            parts: recorded_parts(reply),
            states_left_out: Some(reply.states_left_out).filter(|count| *count > 0),
            tools: are_tools_others.then(|| self.shown_tools()),
            raw,
            raw_base64,
            raw_bytes: streamed.map(|one| exact(one.bytes)),
            raw_sha256: streamed.and_then(|one| one.digest),
            raw_left_out: held_secret.then(|| "secret".to_owned()),
            secrets: reply.found().counts(),
        }))
    }

    /// Why the model gave no reply, with what its server sent instead.
    pub(super) fn error_draft(&self, error: &ModelError) -> Draft {
        let (raw, raw_base64) = error.raw.as_deref().map(text_or_base64).unwrap_or_default();
        self.draft(ModelErrorPayload {
            provider: self.provider.name().to_owned(),
            error: error.to_string(),
            raw,
            raw_base64,
            secrets: error.found.counts(),
        })
    }

    pub(super) fn draft(&self, payload: impl Payload) -> Draft {
        Draft {
            run: Some(self.run.clone()),
            session: Some(self.session_id.clone()),
            principal: Some(self.principal.id()),
            policy: Some(self.agent.gate().rules().bundle.digest()),
            labels: Some(self.session.labels()),
            ..Draft::new(payload)
        }
    }
}

/// A server's own count, limited to the integers that every JSON reader reads exactly.
fn exact(count: u64) -> u64 {
    count.min(crate::types::json::INTEGER_MAX.unsigned_abs())
}

/// The parts, unless they are the text and then the calls, as without them.
fn recorded_parts(reply: &ModelReply) -> Option<Vec<RepliedPart>> {
    if ModelReply::new(reply.text.clone(), reply.calls.clone(), Stop::EndTurn).parts == reply.parts {
        return None;
    }
    let mut calls = reply.calls.iter();
    let recorded = |part: &ReplyPart| match part {
        ReplyPart::Text(bytes) => RepliedPart { text_bytes: Some(*bytes as u64), ..RepliedPart::default() },
        ReplyPart::Call => {
            RepliedPart { call: calls.next().map(|call| call.id.clone()), ..RepliedPart::default() }
        }
        ReplyPart::Opaque(OpaqueState { origin: OpaqueOrigin { wire, base_url, model }, state, .. }) => {
            let opaque = RepliedState {
                wire: wire.clone(),
                base_url: base_url.clone(),
                model: model.clone(),
                dropped: state.is_none().then(|| "secret".to_owned()),
                state: state.clone(),
            };
            RepliedPart { opaque: Some(opaque), ..RepliedPart::default() }
        }
    };
    Some(reply.parts.iter().map(recorded).collect())
}

/// The parts of a recorded reply. Parts that do not match its calls are damaged.
pub(in crate::agent) fn recalled_parts(
    recorded: Vec<RepliedPart>,
    calls: &[CallProposed],
) -> Option<Vec<ReplyPart>> {
    let mut calls = calls.iter();
    let part = |part: RepliedPart| match (part.text_bytes, part.call, part.opaque) {
        (Some(bytes), None, None) => usize::try_from(bytes).ok().map(ReplyPart::Text),
        (None, Some(id), None) => calls.next().filter(|call| call.id == id).map(|_| ReplyPart::Call),
        (None, None, Some(RepliedState { wire, base_url, model, state, .. })) => {
            let digest = Digest::sha256(state.as_deref().unwrap_or_default().as_bytes());
            let origin = OpaqueOrigin { wire, base_url, model };
            Some(ReplyPart::Opaque(OpaqueState { origin, state, digest }))
        }
        _ => None,
    };
    recorded.into_iter().map(part).collect()
}

/// The payload, without the server's bytes if they do not fit: an entry that is not stored
/// completely could not be resumed from, and the parsed members say the same.
fn fitted(payload: ModelReplyPayload) -> ModelReplyPayload {
    let bytes = payload.raw.as_deref().or(payload.raw_base64.as_deref()).unwrap_or_default();
    // Each byte may be escaped as six.
    let is_small = bytes.len() < limits::PAYLOAD_BYTES_MAX / 16;
    if is_small || serde_json::to_vec(&payload).is_ok_and(|json| json.len() < limits::PAYLOAD_BYTES_MAX - 64)
    {
        return payload;
    }
    let raw = match (&payload.raw, &payload.raw_base64) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, encoded) => STANDARD.decode(encoded.as_deref().unwrap_or_default()).unwrap_or_default(),
    };
    ModelReplyPayload {
        raw_bytes: payload.raw_bytes.or(Some(raw.len() as u64)),
        raw_sha256: payload.raw_sha256.or(Some(Digest::sha256(&raw))),
        raw_left_out: Some("size".to_owned()),
        raw: None,
        raw_base64: None,
        ..payload
    }
}

/// Why a model stopped, in the terms of the ledger.
fn stop_reason(stop: &Stop) -> (StopReason, Option<String>) {
    match stop {
        Stop::EndTurn => (StopReason::EndTurn, None),
        Stop::ToolCalls => (StopReason::ToolCalls, None),
        Stop::Length => (StopReason::Length, None),
        Stop::Refusal(why) => (StopReason::Refusal, Some(why.clone())),
        Stop::ContentFilter(why) => (StopReason::ContentFilter, Some(why.clone())),
        Stop::Empty => (StopReason::Empty, None),
        Stop::Truncated(why) => (StopReason::Truncated, Some(why.clone())),
        Stop::Cut(why) => (StopReason::Cut, Some(why.clone())),
        Stop::Other(word) => (StopReason::Other, Some(word.clone())),
    }
}

/// A server's bytes: as text if they are UTF-8, otherwise in base64.
fn text_or_base64(raw: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(raw) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(raw))),
    }
}
