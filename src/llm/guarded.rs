//! A model of the configuration: a provider with its name, its breaker and the model after it.

use super::breaker::{Breaker, OpenCircuit};
use super::error::ModelError;
use super::proposer::Proposer;
use super::provider::{BoxFuture, ModelRequest, Provider};
use super::reply::{ModelReply, Stop};
use crate::types::ModelSink;
use crate::types::clock::mono_us;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A provider that is left alone while it is not in service, if there is another one to ask.
///
/// The last one is always asked: to refuse a run because of earlier ones would help no server,
/// whose pause each request keeps, and would outlast its recovery.
pub(super) struct Guarded {
    name: String,
    provider: Arc<dyn Provider>,
    next: Option<Arc<dyn Provider>>,
    breaker: Mutex<Breaker>,
}

impl Guarded {
    pub(super) fn new(name: String, provider: Arc<dyn Provider>, next: Option<Arc<dyn Provider>>) -> Self {
        Self { name, provider, next, breaker: Mutex::default() }
    }

    /// A panic elsewhere leaves the breaker consistent: each change is one assignment.
    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rests_for(&self, open: OpenCircuit) -> ModelError {
        let OpenCircuit { failures, left_ms } = open;
        let seconds = left_ms.div_ceil(1_000);
        let name = &self.name;
        ModelError::resting(format!(
            "the model `{name}` is not asked for another {seconds} s: it failed {failures} times in a row, or its \
             server asked for a pause"
        ))
    }

    async fn ask(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        if self.next.is_some() {
            let begun = self.breaker().begin(mono_us());
            begun.map_err(|open| self.rests_for(open))?;
        }
        let asked = match self.provider.complete(request).await {
            // With no other model to ask, what came is recorded as a reply.
            Ok(reply) if is_cut(&reply) && self.next.is_some() => Err(ModelError::cut(reply)),
            asked => asked,
        };
        match &asked {
            Err(error) if error.is_of_service() => {
                let pause_ms =
                    error.retry_after.map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
                self.breaker().fail(mono_us(), pause_ms);
            }
            // An answer of any kind comes from a server in service.
            Ok(reply) if is_cut(reply) => self.breaker().fail(mono_us(), None),
            Ok(_) | Err(_) => self.breaker().succeed(),
        }
        asked
    }
}

/// Whether the stream of the reply ended before the reply did.
fn is_cut(reply: &ModelReply) -> bool {
    matches!(reply.stop, Stop::Cut(_))
}

impl Provider for Guarded {
    fn proposer(&self) -> Proposer {
        self.provider.proposer()
    }

    fn model(&self) -> &str {
        self.provider.model()
    }

    fn named(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn sink(&self) -> Option<&ModelSink> {
        self.provider.sink()
    }

    fn window_tokens(&self) -> Option<u32> {
        self.provider.window_tokens()
    }

    fn next(&self) -> Option<Arc<dyn Provider>> {
        self.next.clone()
    }

    fn rests(&self) -> Option<ModelError> {
        self.next.as_ref()?;
        let open = self.breaker().obstacle(mono_us())?;
        Some(self.rests_for(open))
    }

    fn failures(&self) -> u32 {
        self.breaker().failures()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.ask(request))
    }
}
