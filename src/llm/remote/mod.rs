//! A model behind a server: all that does not depend on what the server speaks.
//!
//! A [`Wire`] knows the bytes of one protocol, both ways, and nothing else: no socket, no clock, no key.
//! Here are the settings, the tries, the deadline, the identifiers of calls, and what is told of a
//! failure, the same for every wire.

mod answer;
mod retry;

pub(super) use answer::{Answer, Call};

use super::{BoxFuture, ModelError, ModelReply, ModelRequest, Provider, Settings};
use crate::egress::{Ask, Client, Credential, EgressError, Endpoint, Response};
use crate::secrets::{Clean, Secrets};
use crate::types::clock::mono_us;
use crate::types::{Digest, Secret};
use std::marker::PhantomData;
use std::time::Duration;

/// One protocol: a request is one `POST` of JSON, its answer one JSON text.
pub(super) trait Wire: Send + Sync + 'static {
    /// Its name in the configuration.
    const NAME: &'static str;
    /// Where it is spoken if no address is configured. A key is demanded there.
    const BASE_URL: &'static str;
    /// What follows the address.
    const PATH: &'static str;
    /// Headers of every request, see [`Ask::headers`].
    const HEADERS: &'static [(&'static str, &'static str)];

    /// How its servers take a key.
    fn credential(key: &Secret) -> Credential<'_>;

    /// The body of a request.
    fn write(
        request: &ModelRequest<'_>,
        model: &str,
        reply_tokens_max: Option<u32>,
    ) -> serde_json::Result<Vec<u8>>;

    /// Reads the body of a successful answer, or says what is wrong with it. Tolerant where servers
    /// differ; takes nothing on trust.
    fn read(body: &[u8]) -> Result<Answer, String>;
}

/// A server that speaks `W`.
#[derive(Debug)]
pub(super) struct Remote<W> {
    client: Client,
    endpoint: Endpoint,
    model: String,
    api_key: Option<Secret>,
    reply_tokens_max: Option<u32>,
    secrets: Secrets,
    wire: PhantomData<W>,
}

impl<W: Wire> Remote<W> {
    /// Takes the settings where nothing is missing in them.
    pub(super) fn new(settings: Settings) -> Result<Self, ModelError> {
        let Settings { base_url, model, api_key, ca_file, reply_tokens_max, secrets, .. } = settings;
        if model.trim().is_empty() {
            return Err(ModelError::not_configured("`llm.model` is not set".to_owned()));
        }
        if base_url.is_empty() && api_key.is_none() {
            return Err(ModelError::not_configured(format!("there is no API key for `{}`", W::BASE_URL)));
        }
        let base_url = if base_url.is_empty() { W::BASE_URL } else { &base_url };
        let endpoint = Endpoint::parse(base_url, W::PATH)?;
        let client = Client::new(ca_file);
        Ok(Self { client, endpoint, model, api_key, reply_tokens_max, secrets, wire: PhantomData })
    }

    async fn ask(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let body = W::write(request, &self.model, self.reply_tokens_max)
            .map_err(|e| ModelError::not_configured(format!("the request cannot be written as JSON: {e}")))?;
        let until_us = mono_us().saturating_add(micros(request.deadline));
        let left = || Duration::from_micros(until_us.saturating_sub(mono_us()));
        let mut tried = 0;
        loop {
            let (error, asked) = match self.post(&body, left()).await {
                Ok(answer) => {
                    let (found, answer) = (answer.found().clone(), answer.into_inner());
                    if is_success(&answer) {
                        return match read::<W>(answer.body, Digest::of(&body), &self.model) {
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

    /// The answer without secrets: nothing behind this reads, keeps or shows what the server wrote before.
    async fn post(&self, body: &[u8], deadline: Duration) -> Result<Clean<Response>, EgressError> {
        let credential = self.api_key.as_ref().map(W::credential);
        let ask =
            Ask { endpoint: &self.endpoint, credential, headers: W::HEADERS, body: Some(body), deadline };
        Ok(self.secrets.clean(self.client.exchange(ask).await?))
    }
}

impl<W: Wire> Provider for Remote<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move { self.ask(request).await.map_err(|error| error.bounded(&self.secrets)) })
    }
}

/// Reads the body of a successful answer.
pub(super) fn read<W: Wire>(
    raw: Vec<u8>,
    request_digest: Digest,
    model: &str,
) -> Result<ModelReply, ModelError> {
    let answer = if raw.is_empty() { Err("it is empty".to_owned()) } else { W::read(&raw) };
    match answer {
        Ok(answer) => Ok(answer.into_reply(raw, request_digest, model)),
        Err(why) => Err(ModelError::malformed(&why, raw)),
    }
}

fn is_success(answer: &Response) -> bool {
    (200..300).contains(&answer.status)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod both;
#[cfg(test)]
pub(super) mod recorded;
#[cfg(test)]
pub(super) mod scripted;
#[cfg(test)]
mod served;
