//! A provider over the network: retries, deadline, secrets.

use super::wire::{Wire, read};
use super::{answer, retry};
use crate::egress::{Client, EgressError, Endpoint, HttpRequest, Response};
use crate::gate::ModelPermit;
use crate::llm::error::ModelError;
use crate::llm::proposer::Proposer;
use crate::llm::provider::{BoxFuture, ModelRequest, Provider};
use crate::llm::reply::ModelReply;
use crate::llm::settings::Settings;
use crate::secrets::{Clean, Secrets};
use crate::types::clock::mono_us;
use crate::types::{Digest, ModelSink, Secret, limits};
use std::marker::PhantomData;
use std::time::Duration;

/// A server that speaks `W`.
#[derive(Debug)]
pub(in crate::llm) struct Remote<W> {
    client: Client,
    endpoint: Endpoint,
    sink: ModelSink,
    api_key: Option<Secret>,
    reply_tokens_max: Option<u32>,
    secrets: Secrets,
    wire: PhantomData<W>,
}

impl<W: Wire> Remote<W> {
    /// Accepts the settings if none is missing.
    pub(in crate::llm) fn new(settings: Settings) -> Result<Self, ModelError> {
        let Settings { name, base_url, model, api_key, ca_file, reply_tokens_max, secrets, .. } = settings;
        if model.trim().is_empty() {
            return Err(ModelError::not_configured("`llm.model` is not set".to_owned()));
        }
        if base_url.is_empty() && api_key.is_none() {
            return Err(ModelError::not_configured(format!(
                "no API key for `{}`: set `llm.api_key_file` or the provider's variable",
                W::BASE_URL
            )));
        }
        let base_url = if base_url.is_empty() { W::BASE_URL } else { &base_url };
        let endpoint = Endpoint::parse(base_url, W::PATH)?;
        let client = Client::new(ca_file);
        let sink = ModelSink {
            name: if name.is_empty() { ModelSink::DEFAULT.to_owned() } else { name },
            provider: W::KIND.as_str().to_owned(),
            model,
            host: endpoint.host_port(),
            reply_tokens_max: reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
        };
        Ok(Self { client, endpoint, sink, api_key, reply_tokens_max, secrets, wire: PhantomData })
    }

    async fn ask(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let allows = |permit: &ModelPermit| permit.allows(&self.sink, request.conversation.labels());
        let body = W::write(request, &self.sink.model, self.reply_tokens_max)
            .map_err(|e| ModelError::not_configured(format!("cannot write the request as JSON: {e}")))?;
        let until_us = mono_us().saturating_add(micros(request.deadline));
        let left = || Duration::from_micros(until_us.saturating_sub(mono_us()));
        let mut tried = 0;
        loop {
            // Asked again before each attempt: what has stopped the run since then stops this too.
            if !request.permit.is_some_and(allows) {
                return Err(ModelError::not_permitted());
            }
            let (error, asked) = match self.post(&body, left()).await {
                Ok(answer) => {
                    let (found, answer) = (answer.found().clone(), answer.into_inner());
                    if is_success(&answer) {
                        return match read::<W>(answer.body, Digest::sha256(&body), &self.sink.model) {
                            Ok(reply) => Ok(ModelReply { found, ..reply }),
                            Err(error) => Err(ModelError { found, ..error }),
                        };
                    }
                    let asked = answer.retry_after;
                    (ModelError { found, ..answer::refusal(answer) }, asked)
                }
                Err(error) => (error.into(), None),
            };
            tried += 1;
            match retry::pause(&error, tried, asked, left()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    /// Posts the request and returns the answer without secrets: no later code sees what the server
    /// sent before that.
    async fn post(&self, body: &[u8], deadline: Duration) -> Result<Clean<Response>, EgressError> {
        let credential = self.api_key.as_ref().map(W::credential);
        let ask = HttpRequest {
            endpoint: &self.endpoint,
            credential,
            headers: W::HEADERS,
            body: Some(body),
            deadline,
        };
        Ok(self.secrets.clean(self.client.exchange(ask).await?))
    }
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

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move { self.ask(request).await.map_err(|error| error.bounded(&self.secrets)) })
    }
}

fn is_success(answer: &Response) -> bool {
    (200..300).contains(&answer.status)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
