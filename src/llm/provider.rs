//! What is asked of a model, and by which trait.

use super::conversation::Conversation;
use super::error::ModelError;
use super::proposer::Proposer;
use super::reply::ModelReply;
use serde_json::Value;
use std::pin::Pin;
use std::time::Duration;

/// A boxed future, as a trait object needs it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A source of replies.
pub trait Provider: Send + Sync {
    /// Who proposes the calls.
    fn proposer(&self) -> Proposer;

    /// The word for it on the ledger, such as `openai`.
    fn name(&self) -> &'static str {
        self.proposer().as_str()
    }

    /// The configured model.
    fn model(&self) -> &str;

    /// Asks for the next reply, within the request's deadline. Tries again where that makes sense;
    /// dropping the future ends it.
    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>)
    -> BoxFuture<'a, Result<ModelReply, ModelError>>;
}

/// What a provider is asked.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// All that was said.
    pub conversation: &'a Conversation,
    /// The tools that the principal may be shown.
    pub tools: &'a [ToolOffer],
    /// For all tries together, from now.
    pub deadline: Duration,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does, in a sentence.
    pub summary: String,
    /// Its arguments: JSON Schema 2020-12.
    pub input: Value,
}
