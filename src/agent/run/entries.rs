//! The entries of a run: its request, the model's replies and its errors.

use super::state::RunWalk;
use crate::ledger::payload::{
    CallProposed, ModelErrorPayload, ModelReplyPayload, RunRequestPayload, StopReason,
};
use crate::ledger::{Draft, Payload};
use crate::llm::{ModelError, ModelReply, Stop};
use crate::secrets::Clean;
use crate::tools::ProposedCall;
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
        let (raw, raw_base64) = text_or_base64(&reply.raw);
        self.draft(ModelReplyPayload {
            named: self.asked.named().map(str::to_owned),
            model: reply.model.clone(),
            request_sha256: reply.request_digest,
            request_messages: self.conversation.messages().len() as u64,
            calls: reply.calls.iter().map(call).collect(),
            stop,
            stop_text,
            input_tokens: exact(reply.usage.input_tokens),
            output_tokens: exact(reply.usage.output_tokens),
            text: reply.text.clone(),
            tools: are_tools_others.then(|| self.shown_tools()),
            raw,
            raw_base64,
            secrets: reply.found().counts(),
        })
    }

    /// Why the model gave no reply, with what its server sent instead.
    pub(super) fn error_draft(&self, error: &ModelError) -> Draft {
        let (raw, raw_base64) = error.raw.as_deref().map(text_or_base64).unwrap_or_default();
        self.draft(ModelErrorPayload {
            named: self.asked.named().map(str::to_owned),
            provider: self.asked.name().to_owned(),
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

/// Why a model stopped, in the terms of the ledger.
fn stop_reason(stop: &Stop) -> (StopReason, Option<String>) {
    match stop {
        Stop::EndTurn => (StopReason::EndTurn, None),
        Stop::ToolCalls => (StopReason::ToolCalls, None),
        Stop::Length => (StopReason::Length, None),
        Stop::Refusal(why) => (StopReason::Refusal, Some(why.clone())),
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
