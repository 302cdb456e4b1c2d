//! The answer, held to the schema of the request.
//!
//! An answer that does not match is recorded with the place and the keyword, and PAR asks the model
//! for it again, once. What PAR writes then is a message of its own: it contains nothing that the
//! model wrote.

use super::state::RunWalk;
use crate::agent::answer::{self, AnswerSchema, FORM_WORDS};
use crate::agent::api::{HeldResponse, HeldStatus, UnfitAnswer};
use crate::agent::news::RecordedReply;
use crate::ledger::AppendError;
use crate::llm::{ModelReply, Proposer, ProviderKind, Stop};
use crate::secrets::{Clean, Secrets};
use crate::types::{Labelled, limits};
use serde_json::Value;

/// The message of the request as the model reads it: with the schema, if there is one.
pub(in crate::agent) fn asked_for(
    message: &Clean<String>,
    schema: Option<&AnswerSchema>,
    secrets: &Secrets,
) -> Clean<String> {
    match schema {
        None => message.clone(),
        Some(schema) => with_schema(message, FORM_WORDS, schema.text(), secrets),
    }
}

/// The same, with the words that an entry has.
pub(in crate::agent) fn with_schema(
    message: &str,
    words: &str,
    schema: &str,
    secrets: &Secrets,
) -> Clean<String> {
    secrets.clean(format!("{message}\n\n{words}\n\n{schema}"))
}

impl RunWalk<'_> {
    /// Holds `reply` to the schema, if it is an answer and the request has a schema.
    pub(super) fn held(&self, reply: &ModelReply) -> Option<Result<Value, UnfitAnswer>> {
        let schema = self.schema.as_ref()?;
        if !reply.calls.is_empty() || reply.stop.failure().is_some() {
            return None;
        }
        if let Stop::Refusal(_) | Stop::ContentFilter(_) = reply.stop {
            let (at, keyword) = (String::new(), "refusal".to_owned());
            return Some(Err(UnfitAnswer { at, keyword, schema_at: None, repair: None }));
        }
        let text = reply.text.as_ref().filter(|text| !text.trim().is_empty())?;
        Some(schema.hold(text, self.agent.secrets()).map_err(|unfit| {
            let repair = self.may_repair().then(|| answer::repair(&unfit));
            UnfitAnswer { repair, ..unfit }
        }))
    }

    /// Whether the model may be asked for the answer again. Without a model, the message would be
    /// read as another question.
    fn may_repair(&self) -> bool {
        let is_model = self.asked.proposer() != Proposer::Model(ProviderKind::Offline);
        is_model && self.repairs < limits::RESPONSE_REPAIRS_MAX
    }

    /// Records an answer that does not match, and puts `repair` to the model. The request that
    /// follows is decided in the same commit.
    pub(super) async fn ask_again(
        &mut self,
        reply: &Labelled<Clean<ModelReply>>,
        unfit: UnfitAnswer,
        repair: &str,
    ) -> Result<(), AppendError> {
        self.unrecorded = Some(RecordedReply { unfit: Some(unfit.clone()), ..self.said(reply) });
        let before = vec![self.reply_draft(reply, Some(unfit))];
        // Names in the schema are the caller's own words, as the message is.
        let repair = self.agent.secrets().clean(repair.to_owned());
        let next = self.next_ask(self.conversation.bytes_after(reply, repair.len()));
        let (receipts, cleared) = self.agent.gate().ask_model(before, next).await?;
        self.report_reply(receipts.first());
        self.cleared = cleared;
        // Both are durable: the model may read them.
        self.conversation.push_reply(reply);
        self.conversation.push_user(Labelled::trusted(repair));
        self.repairs += 1;
        Ok(())
    }

    /// What became of the schema of the request.
    pub(super) fn response(&self, held: Option<&Result<Value, UnfitAnswer>>) -> Option<HeldResponse> {
        let schema = self.schema.as_ref()?;
        let mut labels = self.session.labels();
        labels.add(self.conversation.labels());
        let open = HeldResponse::open(schema.value().clone(), &labels);
        let (status, unfit) = match held {
            None => (HeldStatus::Open, None),
            Some(Ok(_)) => (HeldStatus::Held, None),
            Some(Err(unfit)) => (HeldStatus::Unfit, Some(unfit.clone())),
        };
        Some(HeldResponse { status, unfit, repairs: self.repairs, ..open })
    }
}
