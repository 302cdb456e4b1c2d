//! The trait of providers, and the request to one.

use super::conversation::Conversation;
use super::error::ModelError;
use super::proposer::Proposer;
use super::reply::ModelReply;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A boxed future, as a trait object requires.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A source of replies.
pub trait Provider: Send + Sync {
    /// The source of the calls.
    fn proposer(&self) -> Proposer;

    /// The name on the ledger, such as `openai`.
    fn name(&self) -> &'static str {
        self.proposer().as_str()
    }

    /// The configured model.
    fn model(&self) -> &str;

    /// The name of the model in the configuration; `None` without one, for a substitute of a model.
    fn named(&self) -> Option<&str> {
        None
    }

    /// The provider to ask if this one is not in service.
    fn next(&self) -> Option<Arc<dyn Provider>> {
        None
    }

    /// Why it is not asked now: it failed too often just before.
    fn rests(&self) -> Option<ModelError> {
        None
    }

    /// Requests the next reply, within the request's deadline. Retries temporary failures; dropping
    /// the future cancels the request.
    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>)
    -> BoxFuture<'a, Result<ModelReply, ModelError>>;
}

/// A request to a provider.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// The conversation so far.
    pub conversation: &'a Conversation,
    /// The tools that may be shown to the principal.
    pub tools: &'a [ToolOffer],
    /// For all attempts together, from now.
    pub deadline: Duration,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does, in one sentence.
    pub summary: String,
    /// Its arguments: JSON Schema 2020-12.
    pub input: Value,
}
