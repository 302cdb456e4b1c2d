//! Requests to the model: decided and durable before they are sent.

use super::ending::WalkEnd;
use super::state::RunWalk;
use crate::gate::{AskOutcome, ModelAsk, ModelPermit};
use crate::ledger::{AppendError, Draft};
use crate::llm::Provider;
use crate::types::{ModelSink, limits};

/// Permission for the next request, if it needs one; or the end of the run.
pub(super) type Cleared = Result<Option<ModelPermit>, WalkEnd>;

impl RunWalk<'_> {
    /// The request to the model that follows the next commit, if nothing else ends the run before.
    /// `bytes` is the length of the conversation then, without the results in that commit.
    pub(super) fn next_ask(&self, bytes: usize) -> Option<ModelAsk<'_>> {
        let provider = self.ready();
        let sink = provider.sink().filter(|_| self.limit_reached().is_none())?;
        // A request that would not fit into the window is decided after results were left out.
        let fit = self.bytes_that_fit(&*provider).unwrap_or(usize::MAX);
        let results_bytes_max = limits::CONTEXT_BYTES_MAX.min(fit).checked_sub(bytes)?;
        let fallback_of = self.in_place_of(&*provider);
        Some(ModelAsk { results_bytes_max, fallback_of, ..self.model_ask(sink, bytes) })
    }

    /// Permission to ask `provider`. Has no commit of its own if one took it along.
    pub(super) async fn cleared(&mut self, provider: &dyn Provider) -> Result<Cleared, AppendError> {
        let Some(sink) = provider.sink() else { return Ok(Ok(None)) };
        let labels = self.conversation.labels();
        let allows = |outcome: &AskOutcome| match outcome {
            AskOutcome::Permit(permit) => permit.allows(sink, labels),
            AskOutcome::Refused(_) => true,
        };
        match self.cleared.take().filter(allows) {
            Some(outcome) => Ok(permitted(outcome)),
            None => self.clear(Vec::new(), Some(sink), self.in_place_of(provider)).await,
        }
    }

    /// Asks for permission to send the conversation to `sink`, with a commit of its own; `None`
    /// needs none. `before` are the entries that come first, such as that of another model's error,
    /// and `fallback_of` is the name of that model.
    pub(super) async fn clear(
        &self,
        before: Vec<Draft>,
        sink: Option<&ModelSink>,
        fallback_of: Option<&str>,
    ) -> Result<Cleared, AppendError> {
        let bytes = self.conversation.bytes();
        let ask = sink.map(|sink| ModelAsk { fallback_of, ..self.model_ask(sink, bytes) });
        let (_, outcome) = self.agent.gate().ask_model(before, ask).await?;
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
