//! Asks the models of the configuration, in order, until one answers.

use super::ending::WalkEnd;
use super::state::RunWalk;
use crate::agent::news::{ModelChange, RunNews, VoidReason};
use crate::gate::{ModelPermit, StopInForce};
use crate::ledger::AppendError;
use crate::llm::{DeltaSink, ModelError, ModelErrorKind, ModelReply, ModelRequest, Provider};
use crate::secrets::Clean;
use crate::types::{Labelled, ModelSink, clock, limits};
use std::sync::Arc;

/// A reply with the labels of all that the model has read, or the end of the run.
pub(super) type Answered = Result<Labelled<Clean<ModelReply>>, WalkEnd>;

impl RunWalk<'_> {
    /// The first model that is in service, as far as is known.
    pub(super) fn ready(&self) -> Arc<dyn Provider> {
        in_service(self.provider.clone())
    }

    /// The name of the model that `provider` is asked in the place of, if it is not the first.
    pub(super) fn in_place_of(&self, provider: &dyn Provider) -> Option<&str> {
        self.provider.named().filter(|first| provider.named() != Some(*first))
    }

    /// Sends the conversation to a model and waits for its reply, unless a person stops the run.
    async fn complete(
        &self,
        provider: &dyn Provider,
        permit: Option<&ModelPermit>,
    ) -> Result<Result<ModelReply, ModelError>, StopInForce> {
        self.agent.report(|| RunNews::Asking);
        let words = self.agent.listening();
        let pass = |delta| {
            if let Some(words) = &words {
                words.pass(delta);
            }
        };
        let retries = |retried| self.agent.report(|| RunNews::Retrying(retried));
        let asked = ModelRequest {
            conversation: &self.conversation,
            tools: &self.offers,
            deadline: self.model_deadline(),
            permit,
            // A server is asked to stream only if something listens.
            listener: words.is_some().then(|| DeltaSink::new(&pass).with_retries(&retries)),
        };
        let named = self.named();
        let stopped = named.with_tool(None);
        tokio::select! {
            biased;
            answered = provider.complete(&asked) => Ok(answered),
            stop = self.agent.gate().ended_by(&stopped, true) => Err(stop),
        }
    }

    fn model_stopped(&mut self, stop: &StopInForce) -> WalkEnd {
        self.agent.report(|| RunNews::Void(VoidReason::Failed));
        let before = vec![self.error_draft(&ModelError::stopped(stop.to_string()))];
        WalkEnd::by_a_person(stop, before)
    }

    /// Asks the first model that is in service. If it turns out not to be, the next one is asked,
    /// which is another decision of the rules with a commit of its own.
    ///
    /// A model that failed too often just before is passed over. Only a failure of the service
    /// leads to another model, never what the request or the reply says.
    pub(super) async fn reply(&mut self) -> Result<Answered, AppendError> {
        let (mut provider, mut tried) = (self.ready(), 0);
        if let Err(ended) = self.fit(Vec::new(), &*provider).await? {
            return Ok(Err(ended));
        }
        let mut cleared = self.cleared(&*provider).await?;
        loop {
            let permit = match cleared {
                Ok(permit) => permit,
                Err(ended) => return Ok(Err(ended)),
            };
            self.asked = provider.clone();
            let answered = match self.complete(&*provider, permit.as_ref()).await {
                Ok(answered) => answered,
                Err(stop) => return Ok(Err(self.model_stopped(&stop))),
            };
            let error = match answered {
                // Text and arguments are assembled from pieces and escapes: secrets are searched
                // for in the final form.
                Ok(reply) => {
                    let name = provider.named().filter(|name| *name != ModelSink::DEFAULT);
                    self.answered_by.extend(name.map(str::to_owned));
                    let reply = self.agent.secrets().clean(reply);
                    return Ok(Ok(Labelled::new(reply, self.conversation.labels().clone())));
                }
                Err(error) => error,
            };
            self.agent.report(|| RunNews::Void(VoidReason::Failed));
            tried += 1;
            if error.kind == ModelErrorKind::NotPermitted && tried < limits::MODEL_TRIES_MAX {
                // The rules were exchanged since they allowed it: those of now are asked.
                cleared = self.cleared(&*provider).await?;
                continue;
            }
            if matches!(error.kind, ModelErrorKind::TooLong(_)) {
                let before = vec![self.error_draft(&error)];
                if let Some(ended) = self.fit_refused(before, &*provider).await? {
                    return Ok(Err(ended));
                }
                cleared = self.cleared(&*provider).await?;
                continue;
            }
            let Some(next) =
                provider.next().filter(|_| error.is_of_service() && clock::mono_us() < self.end_us)
            else {
                return Ok(Err(self.model_failed(&error)));
            };
            let (failed, next) = (provider.named(), in_service(next));
            tracing::info!(run = %self.run, model = failed, next = next.named(), %error, "a model is not in service");
            let before = vec![self.error_draft(&error)];
            let before = match self.fit(before, &*next).await? {
                Ok(before) => before,
                Err(ended) => return Ok(Err(ended)),
            };
            cleared = self.clear(before, next.sink(), failed).await?;
            if cleared.is_ok() {
                self.agent.report(|| changed(failed, &error, &*next));
            }
            (provider, tried) = (next, 0);
        }
    }
}

fn changed(failed: Option<&str>, error: &ModelError, next: &dyn Provider) -> RunNews {
    RunNews::NextModel(ModelChange {
        failed: failed.unwrap_or_default().to_owned(),
        why: error.to_string(),
        next: next.named().unwrap_or_default().to_owned(),
    })
}

/// `provider`, or the first one after it that does not rest. The last one never does.
fn in_service(mut provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
    while let (Some(next), Some(_)) = (provider.next(), provider.rests()) {
        provider = next;
    }
    provider
}
