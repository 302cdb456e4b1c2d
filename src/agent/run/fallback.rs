//! Asks the models of the configuration, in order, until one answers.

use super::ending::WalkEnd;
use super::state::RunWalk;
use crate::ledger::Draft;
use crate::llm::{ModelReply, ModelRequest};
use crate::secrets::Clean;
use crate::types::UNNAMED_MODEL;
use crate::types::clock;

impl RunWalk<'_> {
    /// Asks the first model that is in service. If one turns out not to be, the next one is asked.
    /// Returns the reply and the entries of the models that failed before.
    ///
    /// A model that failed too often just before is passed over without an entry. Only a failure of
    /// the service leads to another model, never what the request or the reply says.
    pub(super) async fn reply(&mut self) -> Result<(Clean<ModelReply>, Vec<Draft>), WalkEnd> {
        let mut failed = Vec::new();
        let mut provider = self.provider.clone();
        loop {
            let next = provider.next();
            if let (Some(next), Some(_)) = (&next, provider.rests()) {
                provider = next.clone();
                continue;
            }
            self.asked = provider.clone();
            let asked = ModelRequest {
                conversation: &self.conversation,
                tools: &self.offers,
                deadline: self.model_deadline(),
            };
            // Text and arguments are assembled from pieces and escapes: secrets are searched for in
            // the final form.
            let error = match provider.complete(&asked).await {
                Ok(reply) => {
                    let name = provider.named().filter(|name| *name != UNNAMED_MODEL);
                    self.answered_by.extend(name.map(str::to_owned));
                    return Ok((self.agent.secrets().clean(reply), failed));
                }
                Err(error) => error,
            };
            match next {
                Some(next) if error.is_of_service() && clock::mono_us() < self.end_us => {
                    let (name, then) = (provider.named(), next.named());
                    tracing::warn!(run = %self.run, model = name, next = then, %error, "a model is not in service");
                    failed.push(self.error_draft(&error));
                    provider = next;
                }
                _ => {
                    let ended = self.model_failed(&error);
                    failed.extend(ended.before);
                    return Err(WalkEnd { before: failed, ..ended });
                }
            }
        }
    }
}
