//! The trait of providers, and the request to one.

use super::conversation::Conversation;
use super::error::ModelError;
use super::probe;
use super::proposer::Proposer;
use super::reply::ModelReply;
use crate::gate::ModelPermit;
use crate::secrets::Clean;
use crate::types::ModelSink;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
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

    /// Where a request goes; `None` if it goes nowhere. Each request to a sink needs a permit.
    fn sink(&self) -> Option<&ModelSink> {
        None
    }

    /// The size of the model's window, in tokens, if it is known.
    fn window_tokens(&self) -> Option<u32> {
        None
    }

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

    /// How many of its requests have failed in a row, up to the newest.
    fn failures(&self) -> u32 {
        0
    }

    /// Sends one constant question, outside any run and without a permit: it contains nothing of
    /// this host. Shows whether the model answers.
    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let conversation = probe::conversation();
            self.complete(&ModelRequest {
                conversation: &conversation,
                tools: &[],
                deadline,
                permit: None,
                listener: None,
            })
            .await
        })
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
    /// Permission to send the conversation to [`Provider::sink`]. Without one, or with one for
    /// another sink or for fewer labels, nothing is sent.
    pub permit: Option<&'a ModelPermit>,
    /// Gets the text while it comes. With it, a server is asked to stream its reply.
    pub listener: Option<DeltaSink<'a>>,
}

/// Gets the text of a reply while it comes, searched for secrets. The text is provisional: the
/// reply may still fail, and only the whole reply is recorded and proposes calls.
#[derive(Clone, Copy)]
pub struct DeltaSink<'a> {
    listener: &'a (dyn Fn(Clean<String>) + Send + Sync),
    retries: Option<&'a (dyn Fn(RetriedAsk) + Send + Sync)>,
}

/// A request that failed and is sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetriedAsk {
    /// What the server did, in PAR's own words.
    pub why: String,
    /// The number of the next attempt, from 2.
    pub attempt: u32,
    /// How many attempts there are at most.
    pub attempts_max: u32,
    /// The delay before it, in milliseconds.
    pub pause_ms: u64,
}

impl<'a> DeltaSink<'a> {
    /// Calls `listener` with each new piece, which is never empty.
    #[must_use]
    pub fn new(listener: &'a (dyn Fn(Clean<String>) + Send + Sync)) -> Self {
        Self { listener, retries: None }
    }

    /// The same, which calls `retries` before a request is sent again.
    #[must_use]
    pub fn with_retries(self, retries: &'a (dyn Fn(RetriedAsk) + Send + Sync)) -> Self {
        Self { retries: Some(retries), ..self }
    }

    pub(super) fn pass(&self, delta: Clean<String>) {
        (self.listener)(delta);
    }

    pub(super) fn retry(&self, retried: RetriedAsk) {
        if let Some(retries) = self.retries {
            retries(retried);
        }
    }
}

impl fmt::Debug for DeltaSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeltaSink")
    }
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
