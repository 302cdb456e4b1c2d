//! Requests to the model: decided and durable before they are sent.

use super::ending::WalkEnd;
use super::state::RunWalk;
use crate::gate::{AskOutcome, ModelAsk, ModelPermit};
use crate::ledger::{AppendError, Draft};
use crate::types::{ModelSink, limits};

/// Permission for the next request, if it needs one; or the end of the run.
pub(super) type Cleared = Result<Option<ModelPermit>, WalkEnd>;

impl RunWalk<'_> {
    /// The request to the model that follows the next commit, if nothing else ends the run before.
    /// `bytes` is the length of the conversation then, without the results in that commit.
    pub(super) fn next_ask(&self, bytes: usize) -> Option<ModelAsk<'_>> {
        let sink = self.provider.sink().filter(|_| self.limit_reached().is_none())?;
        let results_bytes_max = limits::CONTEXT_BYTES_MAX.checked_sub(bytes)?;
        Some(ModelAsk { results_bytes_max, ..self.model_ask(sink, bytes) })
    }

    /// Permission to ask the model of this run. Has no commit of its own if one took it along.
    pub(super) async fn cleared(&mut self) -> Result<Cleared, AppendError> {
        let Some(sink) = self.provider.sink().cloned() else { return Ok(Ok(None)) };
        let labels = self.conversation.labels();
        let allows = |outcome: &AskOutcome| match outcome {
            AskOutcome::Permit(permit) => permit.allows(&sink, labels),
            AskOutcome::Refused(_) => true,
        };
        match self.cleared.take().filter(allows) {
            Some(outcome) => Ok(permitted(outcome)),
            None => self.clear(Vec::new(), &sink, None).await,
        }
    }

    /// Asks for permission to send the conversation to `sink`, with a commit of its own. `before`
    /// are the entries that come first, such as that of another model's error, and `fallback_of` is
    /// the name of that model.
    pub(super) async fn clear(
        &self,
        before: Vec<Draft>,
        sink: &ModelSink,
        fallback_of: Option<&str>,
    ) -> Result<Cleared, AppendError> {
        let ask = ModelAsk { fallback_of, ..self.model_ask(sink, self.conversation.bytes()) };
        let (_, outcome) = self.agent.gate().ask_model(before, Some(ask)).await?;
        Ok(outcome.map_or(Ok(None), permitted))
    }

    fn model_ask(&self, sink: &ModelSink, bytes: usize) -> ModelAsk<'_> {
        ModelAsk {
            context: self.asking(),
            sink: sink.clone(),
            labels: self.conversation.labels().clone(),
            bytes: bytes.saturating_add(self.offers_bytes),
            results_bytes_max: usize::MAX,
            fallback_of: None,
        }
    }
}

fn permitted(outcome: AskOutcome) -> Cleared {
    match outcome {
        AskOutcome::Permit(permit) => Ok(Some(permit)),
        AskOutcome::Refused(refusal) => Err(WalkEnd::not_permitted(&refusal)),
    }
}
