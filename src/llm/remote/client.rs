//! A provider over the network: retries, deadline, secrets.

use super::wire::{Wire, read};
use super::{answer, retry};
use crate::config::ModelKeys;
use crate::egress::{Client, EgressError, Endpoint, HttpRequest, Response};
use crate::gate::ModelPermit;
use crate::llm::error::ModelError;
use crate::llm::probe;
use crate::llm::proposer::Proposer;
use crate::llm::provider::{BoxFuture, ModelRequest, Provider};
use crate::llm::reply::ModelReply;
use crate::llm::settings::Settings;
use crate::secrets::{Clean, Finder, Secrets};
use crate::types::clock::mono_us;
use crate::types::{Digest, ModelSink, Secret, limits};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A server that speaks `W`.
#[derive(Debug)]
pub(in crate::llm) struct Remote<W> {
    client: Client,
    endpoint: Endpoint,
    sink: ModelSink,
    keys: ModelKeys,
    /// Whether the server requires a key: it is the protocol's own.
    needs_key: bool,
    total: Duration,
    reply_tokens_max: Option<u32>,
    secrets: Secrets,
    wire: PhantomData<W>,
}

/// What one request is sent with. The key may be exchanged meanwhile; what comes back is searched
/// for the secrets of both times.
struct Sending<'a> {
    body: &'a [u8],
    key: Option<&'a Secret>,
    began: &'a Arc<Finder>,
}

impl<W: Wire> Remote<W> {
    /// Accepts the settings if none is missing.
    pub(in crate::llm) fn new(settings: Settings) -> Result<Self, ModelError> {
        let Settings { name, table, base_url, model, keys, way, reply_tokens_max, secrets, .. } = settings;
        if model.trim().is_empty() {
            return Err(ModelError::not_configured(format!("`{table}.model` is not set")));
        }
        let needs_key = base_url.is_empty();
        if needs_key && !keys.now().contains_key(&name) {
            return Err(no_key::<W>(&name));
        }
        let base_url = if base_url.is_empty() { W::BASE_URL } else { &base_url };
        let endpoint = Endpoint::parse(base_url, W::PATH)?;
        let total = way.waits.total;
        let client = Client::along(&endpoint, way)?;
        let sink = ModelSink {
            name,
            provider: W::KIND.as_str().to_owned(),
            model,
            host: endpoint.host_port(),
            reply_tokens_max: reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
        };
        let wire = PhantomData;
        Ok(Self { client, endpoint, sink, keys, needs_key, total, reply_tokens_max, secrets, wire })
    }

    /// Sends a request that was permitted.
    async fn ask(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let allows = |permit: &ModelPermit| permit.allows(&self.sink, request.conversation.labels());
        self.send(request, || request.permit.is_some_and(allows)).await
    }

    /// Sends a request for as long as it `may` be sent.
    async fn send(
        &self,
        request: &ModelRequest<'_>,
        may: impl Fn() -> bool + Sync,
    ) -> Result<ModelReply, ModelError> {
        let body = W::write(request, &self.sink.model, self.reply_tokens_max)
            .map_err(|e| ModelError::not_configured(format!("cannot write the request as JSON: {e}")))?;
        // Before the key is taken: the finder always knows the key of its time.
        let began = self.secrets.now();
        let keys = self.keys.now();
        let key = keys.get(&self.sink.name);
        if self.needs_key && key.is_none() {
            return Err(no_key::<W>(&self.sink.name));
        }
        let sending = Sending { body: &body, key, began: &began };
        match self.tried(&sending, request.deadline.min(self.total), may).await {
            Ok(reply) => {
                // Text and arguments are assembled from pieces and escapes.
                let clean = self.secrets.clean_since(&began, reply);
                let found = clean.found().clone();
                Ok(ModelReply { found, ..clean.into_inner() })
            }
            Err(error) => Err(error.bounded(&self.secrets, &began)),
        }
    }

    /// Tries until there is a reply, or no further attempt may succeed.
    async fn tried(
        &self,
        sending: &Sending<'_>,
        deadline: Duration,
        may: impl Fn() -> bool + Sync,
    ) -> Result<ModelReply, ModelError> {
        let until_us = mono_us().saturating_add(micros(deadline));
        let left = || Duration::from_micros(until_us.saturating_sub(mono_us()));
        let mut tried = 0;
        loop {
            // Asked again before each attempt: what has stopped the run since then stops this too.
            if !may() {
                return Err(ModelError::not_permitted());
            }
            let error = match self.post(sending, left()).await {
                Ok(answer) => {
                    let (found, answer) = (answer.found().clone(), answer.into_inner());
                    if is_success(&answer) {
                        let digest = Digest::sha256(sending.body);
                        return match read::<W>(answer.body, digest, &self.sink.model) {
                            Ok(reply) => Ok(ModelReply { found, ..reply }),
                            Err(error) => Err(ModelError { found, ..error }),
                        };
                    }
                    let asked = answer.retry_after;
                    ModelError { found, retry_after: asked, ..answer::refusal(answer) }
                }
                Err(error) => error.into(),
            };
            tried += 1;
            match retry::pause(&error, tried, left()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    /// Posts the request and returns the answer without secrets: no later code sees what the server
    /// sent before that.
    async fn post(&self, sending: &Sending<'_>, deadline: Duration) -> Result<Clean<Response>, EgressError> {
        let ask = HttpRequest {
            endpoint: &self.endpoint,
            credential: sending.key.map(W::credential),
            headers: W::HEADERS,
            body: Some(sending.body),
            deadline,
        };
        Ok(self.secrets.clean_since(sending.began, self.client.exchange(ask).await?))
    }
}

fn no_key<W: Wire>(name: &str) -> ModelError {
    ModelError::not_configured(format!(
        "no API key for `{}`: run `par model login {name}`, then `par reload`",
        W::BASE_URL
    ))
}

impl<W: Wire> Provider for Remote<W> {
    fn proposer(&self) -> Proposer {
        Proposer::Model(W::KIND)
    }

    fn model(&self) -> &str {
        &self.sink.model
    }

    fn sink(&self) -> Option<&ModelSink> {
        Some(&self.sink)
    }

    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let conversation = probe::conversation();
            let request = ModelRequest { conversation: &conversation, tools: &[], deadline, permit: None };
            self.send(&request, || true).await
        })
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.ask(request))
    }
}

fn is_success(answer: &Response) -> bool {
    (200..300).contains(&answer.status)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
