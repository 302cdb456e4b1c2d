//! The entries of a run: its request, the model's replies and its errors.

use super::prompt::SYSTEM;
use super::state::RunWalk;
use crate::agent::answer::{AnswerSchema, FORM_WORDS};
use crate::ledger::payload::{
    CallProposed, ModelErrorPayload, ModelReplyPayload, RepliedPart, RepliedState, RequestedRunbook,
    RequestedSchema, RunRequestPayload, SentForm, StopReason, UnfitAnswer,
};
use crate::ledger::{Draft, Payload};
use crate::llm::{ModelError, ModelReply, OpaqueOrigin, OpaqueState, ReplyPart, RequestForm, Stop};
use crate::runbooks::GivenRunbook;
use crate::secrets::{Clean, SecretCounts};
use crate::tools::ProposedCall;
use crate::types::{DataLabels, Digest, limits};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

impl RunWalk<'_> {
    pub(super) fn request_draft(&self, message: &Clean<String>) -> Draft {
        let runbook = self.conversation.runbook();
        let draft = self.draft(RunRequestPayload {
            message: String::clone(message),
            calls_max: self.session.budget.unsigned_abs(),
            tools: self.shown_tools(),
            ceiling: self.ceiling.clone(),
            provider: self.provider.name().to_owned(),
            model: self.provider.model().to_owned(),
            // Without the runbook, which has its own member.
            system_sha256: Some(Digest::sha256(SYSTEM.as_bytes())),
            source_ip: self.door.source_ip.map(|ip| ip.to_string()),
            via: Some(self.door.via.as_str().to_owned()),
            channel: Some(self.channel),
            runbook: runbook.map(recorded_runbook),
            response_schema: self.schema.as_ref().map(recorded_schema),
            secrets: self.found_in_request(message).counts(),
        });
        // What the person wrote, whatever the session has seen before.
        let labels = Some(DataLabels::default());
        Draft { runbook: runbook.map(|runbook| runbook.name.clone()), labels, ..draft }
    }

    /// The secrets that were replaced in the message and in the schema.
    fn found_in_request(&self, message: &Clean<String>) -> SecretCounts {
        let mut found = message.found().clone();
        if let Some(schema) = &self.schema {
            found.add_all(schema.text().found());
        }
        found
    }

    /// The names of the tools offered to the model.
    pub(super) fn shown_tools(&self) -> Vec<String> {
        self.offers.iter().map(|offer| offer.name.clone()).collect()
    }

    /// The names of the tools last offered, if they differ from those recorded before.
    fn tools_changed(&mut self) -> Option<Vec<String>> {
        let shown = self.shown_tools();
        if shown == self.tools_recorded {
            return None;
        }
        self.tools_recorded.clone_from(&shown);
        Some(shown)
    }

    /// What the request was made of, next to the conversation.
    fn sent(&self, form: &RequestForm) -> SentForm {
        let OpaqueOrigin { wire, base_url, model, key } = form.origin.clone();
        SentForm {
            wire,
            base_url,
            model,
            key: Some(key),
            reply_tokens_max: form.reply_tokens_max.map(u64::from),
            context_tokens: u64::from(form.context_tokens),
            streamed: form.is_streamed,
            plain: form.is_plain,
            tools_policy: self.offers_policy,
        }
    }

    /// The reply with the exact bytes of the model, except for secrets. The request is recorded as
    /// the digest of its bytes; its messages are already on the ledger.
    pub(super) fn reply_draft(&mut self, reply: &Clean<ModelReply>, unfit: Option<UnfitAnswer>) -> Draft {
        let tools = self.tools_changed();
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
            named: self.asked.named().map(str::to_owned),
            model: reply.model.clone(),
            request_sha256: reply.request_digest,
            request_messages: self.conversation.messages().len() as u64,
            sent: reply.form.as_ref().map(|form| self.sent(form)),
            calls: reply.calls.iter().map(call).collect(),
            stop,
            stop_text,
            input_tokens: exact(reply.usage.input_tokens),
            output_tokens: exact(reply.usage.output_tokens),
            text: reply.text.clone(),
            parts: recorded_parts(reply),
            unfit,
            states_left_out: Some(reply.states_left_out).filter(|count| *count > 0),
            tools,
            raw,
            raw_base64,
            raw_bytes: streamed.map(|one| exact(one.bytes)),
            raw_sha256: streamed.and_then(|one| one.digest),
            raw_left_out: held_secret.then(|| "secret".to_owned()),
            secrets: reply.found().counts(),
        }))
    }

    /// Why the model gave no reply, with what its server sent instead.
    pub(super) fn error_draft(&mut self, error: &ModelError) -> Draft {
        let tools = error.sent.as_ref().and_then(|_| self.tools_changed());
        let (raw, raw_base64) = error.raw.as_deref().map(text_or_base64).unwrap_or_default();
        self.draft(ModelErrorPayload {
            named: self.asked.named().map(str::to_owned),
            provider: self.asked.name().to_owned(),
            error: error.to_string(),
            request_sha256: error.sent.as_ref().map(|sent| sent.digest),
            sent: error.sent.as_ref().map(|sent| self.sent(&sent.form)),
            tools,
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

fn recorded_schema(schema: &AnswerSchema) -> RequestedSchema {
    RequestedSchema { words: FORM_WORDS.to_owned(), schema: String::clone(schema.text()) }
}

fn recorded_runbook(given: &GivenRunbook) -> RequestedRunbook {
    let GivenRunbook { name, sha256, service, words, text, steps: _ } = given.clone();
    RequestedRunbook { name, sha256, service, words, text }
}

/// The runbook of a recorded request. Its steps are among the replies.
pub(in crate::agent) fn recalled_runbook(recorded: RequestedRunbook) -> GivenRunbook {
    let RequestedRunbook { name, sha256, service, words, text } = recorded;
    GivenRunbook { name, sha256, service, words, text, steps: Vec::new() }
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
        ReplyPart::Opaque(OpaqueState { origin, state, .. }) => {
            let OpaqueOrigin { wire, base_url, model, key } = origin.clone();
            let opaque = RepliedState {
                wire,
                base_url,
                model,
                key: Some(key).filter(|key| !key.is_empty()),
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
        (None, None, Some(RepliedState { wire, base_url, model, key, state, .. })) => {
            let digest = Digest::sha256(state.as_deref().unwrap_or_default().as_bytes());
            let origin = OpaqueOrigin { wire, base_url, model, key: key.unwrap_or_default() };
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

#[cfg(test)]
mod tests {
    use super::{fitted, recalled_parts, recorded_parts, stop_reason};
    use crate::ledger::payload::{CallProposed, ModelReplyPayload};
    use crate::llm::{ModelReply, OpaqueOrigin, OpaqueState, ReplyPart, Stop};
    use crate::tools::ProposedCall;
    use crate::types::{Digest, limits};

    fn calls() -> Vec<ProposedCall> {
        let call = |id: &str| ProposedCall { id: id.into(), tool: "t".into(), arguments: "{}".into() };
        vec![call("a"), call("b")]
    }

    fn opaque(state: Option<&str>) -> ReplyPart {
        let digest = Digest::sha256(state.unwrap_or_default().as_bytes());
        let state = state.map(str::to_owned);
        ReplyPart::Opaque(OpaqueState { origin: OpaqueOrigin::default(), state, digest })
    }

    fn proposed() -> Vec<CallProposed> {
        let call = |ProposedCall { id, tool, arguments }| CallProposed { id, tool, arguments };
        calls().into_iter().map(call).collect()
    }

    #[test]
    fn parts_are_recorded_and_recalled() {
        let plain = ModelReply::new(Some("text".into()), calls(), Stop::ToolCalls);
        assert_eq!(recorded_parts(&plain), None, "the order that an entry without parts has");
        let parts = vec![
            opaque(Some("{\"s\": 1}")),
            ReplyPart::Call,
            ReplyPart::Text(3),
            opaque(None),
            ReplyPart::Call,
            ReplyPart::Text(1),
        ];
        let reply = ModelReply { parts: parts.clone(), ..plain };
        let recorded = recorded_parts(&reply).expect("parts");
        assert_eq!(recorded[3].opaque.as_ref().and_then(|one| one.dropped.as_deref()), Some("secret"));
        assert_eq!(recalled_parts(recorded.clone(), &proposed()), Some(parts));
        let mut swapped = proposed();
        swapped.swap(0, 1);
        assert_eq!(recalled_parts(recorded, &swapped), None, "parts of other calls");
    }

    /// An entry that is too large is stored cut, and no run resumes from it: the bytes go first.
    #[test]
    fn the_bytes_of_a_server_are_left_out_if_they_do_not_fit() {
        let payload = |raw: &str| ModelReplyPayload {
            named: None,
            model: String::new(),
            request_sha256: Digest::sha256(b""),
            request_messages: 1,
            sent: None,
            calls: Vec::new(),
            stop: stop_reason(&Stop::EndTurn).0,
            stop_text: None,
            input_tokens: 0,
            output_tokens: 0,
            text: Some("text".into()),
            parts: None,
            unfit: None,
            states_left_out: None,
            tools: None,
            raw: Some(raw.to_owned()),
            raw_base64: None,
            raw_bytes: None,
            raw_sha256: None,
            raw_left_out: None,
            secrets: None,
        };
        let small = payload("{}");
        assert_eq!(fitted(small.clone()), small);
        let escaped = "\u{1}".repeat(limits::PAYLOAD_BYTES_MAX / 6);
        let large = fitted(payload(&escaped));
        assert_eq!((large.raw, large.raw_left_out.as_deref()), (None, Some("size")));
        assert_eq!(large.raw_sha256, Some(Digest::sha256(escaped.as_bytes())));
        assert_eq!((large.raw_bytes, large.text.as_deref()), (Some(escaped.len() as u64), Some("text")));
    }
}
