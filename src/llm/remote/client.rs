//! A provider over the network: retries, deadline, secrets.

use super::streaming::Streaming;
use super::wire::{Wire, WireRequest, read};
use super::{answer, retry};
use crate::egress::{Client, Endpoint, HttpRequest, Response};
use crate::gate::ModelPermit;
use crate::llm::conversation::Message;
use crate::llm::error::{ModelError, ModelErrorKind};
use crate::llm::proposer::Proposer;
use crate::llm::provider::{BoxFuture, ModelRequest, Provider};
use crate::llm::reply::{ModelReply, OpaqueOrigin, ReplyPiece};
use crate::llm::settings::Settings;
use crate::secrets::{SecretCounts, Secrets};
use crate::types::clock::mono_us;
use crate::types::{Digest, ModelSink, Secret, limits};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server that speaks `W`.
#[derive(Debug)]
pub(in crate::llm) struct Remote<W> {
    client: Client,
    endpoint: Endpoint,
    sink: ModelSink,
    /// Where a reply is asked for that comes as a stream.
    streamed: Endpoint,
    /// The model, and where it is.
    origin: OpaqueOrigin,
    api_key: Option<Secret>,
    reply_tokens_max: Option<u32>,
    context_tokens: u32,
    secrets: Secrets,
    /// Whether the server has refused what not every server of the protocol accepts.
    is_plain: AtomicBool,
    wire: PhantomData<W>,
}

impl<W: Wire> Remote<W> {
    /// Accepts the settings if none is missing.
    pub(in crate::llm) fn new(settings: Settings) -> Result<Self, ModelError> {
        let Settings { name, base_url, model, api_key, ca_file, reply_tokens_max, secrets, .. } = settings;
        if model.trim().is_empty() {
            return Err(ModelError::not_configured("`llm.model` is not set".to_owned()));
        }
        if base_url.is_empty() && api_key.is_none() && W::NEEDS_KEY {
            return Err(ModelError::not_configured(format!(
                "no API key for `{}`: set `llm.api_key_file` or the provider's variable",
                W::BASE_URL
            )));
        }
        let base_url = if base_url.is_empty() { W::BASE_URL } else { base_url.trim_end_matches('/') };
        let endpoint = Endpoint::parse(base_url, &W::path(&model, false))?;
        let sink = ModelSink {
            name: if name.is_empty() { ModelSink::DEFAULT.to_owned() } else { name },
            provider: W::KIND.as_str().to_owned(),
            model: model.clone(),
            host: endpoint.host_port(),
            reply_tokens_max: reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
        };
        Ok(Self {
            sink,
            client: Client::new(ca_file),
            endpoint,
            streamed: Endpoint::parse(base_url, &W::path(&model, true))?,
            origin: OpaqueOrigin { wire: W::KIND.as_str().to_owned(), base_url: base_url.to_owned(), model },
            api_key,
            reply_tokens_max,
            context_tokens: settings.context_tokens.unwrap_or(limits::CONTEXT_TOKENS),
            secrets,
            is_plain: AtomicBool::new(false),
            wire: PhantomData,
        })
    }

    async fn ask(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let allows = |permit: &ModelPermit| permit.allows(&self.sink, request.conversation.labels());
        let until_us = mono_us().saturating_add(micros(request.deadline));
        let left = || Duration::from_micros(until_us.saturating_sub(mono_us()));
        let mut tried = 0;
        loop {
            // Asked again before each attempt: what has stopped the run since then stops this too.
            if !request.permit.is_some_and(allows) {
                return Err(ModelError::not_permitted());
            }
            let is_plain = self.is_plain.load(Ordering::Relaxed);
            let asked = self.written(request, is_plain);
            let body = W::write(&asked)
                .map_err(|e| ModelError::not_configured(format!("cannot write the request as JSON: {e}")))?;
            let (error, wait) = match self.attempt(request, &body, left()).await {
                Ok(reply) => {
                    let states_left_out = states_left_out(&asked);
                    return Ok(W::check(ModelReply { states_left_out, ..reply }, self.context_tokens));
                }
                Err(failed) => failed,
            };
            // Remembered, so that it costs one request and not one in each round.
            if !is_plain && refuses_extras::<W>(&error) {
                self.is_plain.store(true, Ordering::Relaxed);
                continue;
            }
            tried += 1;
            match retry::pause(&error, tried, wait, left()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    fn written<'a>(&'a self, request: &ModelRequest<'a>, is_plain: bool) -> WireRequest<'a> {
        WireRequest {
            conversation: request.conversation,
            tools: request.tools,
            origin: &self.origin,
            reply_tokens_max: self.reply_tokens_max,
            context_tokens: self.context_tokens,
            is_streamed: request.listener.is_some(),
            is_plain,
        }
    }

    /// One request. A failure comes with the delay that the server asks for.
    async fn attempt(
        &self,
        request: &ModelRequest<'_>,
        body: &[u8],
        deadline: Duration,
    ) -> Result<ModelReply, (ModelError, Option<Duration>)> {
        let digest = Digest::sha256(body);
        let endpoint = if request.listener.is_some() { &self.streamed } else { &self.endpoint };
        let credential = self.api_key.as_ref().map(W::credential);
        let ask = HttpRequest { endpoint, credential, headers: W::HEADERS, body: Some(body), deadline };
        let Some(sink) = request.listener else {
            // No later code sees what the server sent before secrets were replaced.
            let answer = self.client.exchange(ask).await.map_err(|error| (error.into(), None))?;
            let answer = self.secrets.clean(answer);
            let (found, answer) = (answer.found().clone(), answer.into_inner());
            return if is_success(&answer) {
                match read::<W>(answer.body, digest, &self.origin) {
                    Ok(reply) => Ok(ModelReply { found, ..reply }),
                    Err(error) => Err((ModelError { found, ..error }, None)),
                }
            } else {
                Err(refused(found, answer))
            };
        };
        let mut streaming = Streaming::<W>::new(&self.secrets, sink);
        let ended = match self.client.exchange_in_pieces(ask, |piece| streaming.take(piece)).await {
            Ok(answer) if !is_success(&answer) => {
                let answer = self.secrets.clean(answer);
                return Err(refused(answer.found().clone(), answer.into_inner()));
            }
            ended => ended.err(),
        };
        streaming.finish(ended, digest, &self.origin).map_err(|error| (error, None))
    }
}

fn refused(found: SecretCounts, answer: Response) -> (ModelError, Option<Duration>) {
    let wait = answer.retry_after;
    (ModelError { found, ..answer::refusal(answer) }, wait)
}

fn refuses_extras<W: Wire>(error: &ModelError) -> bool {
    matches!(error.kind, ModelErrorKind::Status(400 | 422))
        && error.raw.as_deref().is_some_and(W::refuses_extras)
}

/// The number of states in the conversation that this request does not send back.
fn states_left_out(request: &WireRequest<'_>) -> u64 {
    let pieces = request.conversation.messages().iter().flat_map(Message::pieces);
    let left_out = |piece: &ReplyPiece<'_>| match piece {
        ReplyPiece::Opaque(state) => request.state(state).is_none(),
        ReplyPiece::Text(_) | ReplyPiece::Call(_) => false,
    };
    pieces.filter(left_out).count() as u64
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
