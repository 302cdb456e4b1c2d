//! A provider over the network: retries, deadline, secrets.

use super::streaming::Streaming;
use super::wire::{Wire, WireRequest, read};
use super::{answer, retry};
use crate::config::ModelKeys;
use crate::egress::{Client, Endpoint, HttpRequest, Response};
use crate::gate::ModelPermit;
use crate::llm::conversation::Message;
use crate::llm::error::{ModelError, ModelErrorKind, SentRequest};
use crate::llm::form::{OpaqueOrigin, RequestForm};
use crate::llm::probe;
use crate::llm::proposer::Proposer;
use crate::llm::provider::{BoxFuture, ModelRequest, Provider};
use crate::llm::reply::{ModelReply, ReplyPiece};
use crate::llm::settings::Settings;
use crate::secrets::{Finder, SecretCounts, Secrets};
use crate::types::clock::mono_us;
use crate::types::{Digest, ModelSink, Secret, limits};
use std::marker::PhantomData;
use std::sync::Arc;
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
    keys: ModelKeys,
    /// Whether the server requires a key: it is the protocol's own.
    needs_key: bool,
    total: Duration,
    reply_tokens_max: Option<u32>,
    context_tokens: u32,
    /// Whether that is the size of the model's window, and not only a default for servers that set
    /// it by request.
    knows_window: bool,
    secrets: Secrets,
    /// Whether the server has refused what not every server of the protocol accepts.
    is_plain: AtomicBool,
    wire: PhantomData<W>,
}

/// What one request is sent with. The key may be exchanged meanwhile; what comes back is searched
/// for the secrets of both times.
struct Sending<'a> {
    request: &'a ModelRequest<'a>,
    key: Option<&'a Secret>,
    /// The model, where it is, and what tells the key from another.
    origin: &'a OpaqueOrigin,
    began: &'a Arc<Finder>,
}

impl<W: Wire> Remote<W> {
    /// Accepts the settings if none is missing.
    pub(in crate::llm) fn new(settings: Settings) -> Result<Self, ModelError> {
        let Settings {
            name,
            table,
            base_url,
            model,
            keys,
            way,
            reply_tokens_max,
            context_tokens,
            secrets,
            ..
        } = settings;
        if model.trim().is_empty() {
            return Err(ModelError::not_configured(format!("`{table}.model` is not set")));
        }
        let needs_key = base_url.is_empty() && W::NEEDS_KEY;
        if needs_key && !keys.now().contains_key(&name) {
            return Err(no_key::<W>(&name));
        }
        let base_url = if base_url.is_empty() { W::BASE_URL } else { base_url.trim_end_matches('/') };
        let endpoint = Endpoint::parse(base_url, &W::path(&model, false))?;
        let total = way.waits.total;
        let client = Client::along(&endpoint, way)?;
        let sink = ModelSink {
            name,
            provider: W::KIND.as_str().to_owned(),
            model: model.clone(),
            host: endpoint.host_port(),
            reply_tokens_max: reply_tokens_max.unwrap_or(limits::REPLY_TOKENS_MAX),
        };
        Ok(Self {
            client,
            endpoint,
            sink,
            streamed: Endpoint::parse(base_url, &W::path(&model, true))?,
            origin: OpaqueOrigin {
                wire: W::KIND.as_str().to_owned(),
                base_url: base_url.to_owned(),
                model,
                key: OpaqueOrigin::NO_KEY.to_owned(),
            },
            keys,
            needs_key,
            total,
            reply_tokens_max,
            knows_window: W::SETS_CONTEXT || context_tokens.is_some(),
            context_tokens: context_tokens.unwrap_or(limits::CONTEXT_TOKENS),
            secrets,
            is_plain: AtomicBool::new(false),
            wire: PhantomData,
        })
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
        // Before the key is taken: the finder always knows the key of its time.
        let began = self.secrets.now();
        let keys = self.keys.now();
        let key = keys.get(&self.sink.name).map(Arc::as_ref);
        if self.needs_key && key.is_none() {
            return Err(no_key::<W>(&self.sink.name));
        }
        let identity = |key: &Secret| began.key_identity(key.expose().as_bytes());
        let mut origin = self.origin.clone();
        if let Some(key) = key.map(identity) {
            origin.key = key;
        }
        let sending = Sending { request, key, origin: &origin, began: &began };
        match self.tried(&sending, request.deadline.min(self.total), may).await {
            Ok(reply) => Ok(self.searched(&began, reply)),
            Err(error) => Err(error.bounded(&self.secrets, &began)),
        }
    }

    /// The reply without secrets: text and arguments are assembled from pieces and escapes.
    ///
    /// The bytes of a whole answer were searched before they were parsed, and a second search by
    /// the same finder changes nothing. They are searched again only if the finder was exchanged
    /// since.
    fn searched(&self, began: &Arc<Finder>, mut reply: ModelReply) -> ModelReply {
        let raw = reply.streamed.is_none().then(|| std::mem::take(&mut reply.raw));
        let clean = self.secrets.clean_since(began, reply);
        let found = clean.found().clone();
        let reply = ModelReply { found, ..clean.into_inner() };
        match raw {
            None => reply,
            Some(raw) if Arc::ptr_eq(began, &self.secrets.now()) => ModelReply { raw, ..reply },
            Some(raw) => {
                let raw = self.secrets.clean_since(began, raw);
                let mut found = reply.found.clone();
                found.add_all(raw.found());
                ModelReply { raw: raw.into_inner(), found, ..reply }
            }
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
            let is_plain = self.is_plain.load(Ordering::Relaxed);
            let form = self.form(sending, is_plain);
            let asked = WireRequest::of(&form, sending.request.conversation, sending.request.tools);
            let body = asked
                .body::<W>()
                .map_err(|e| ModelError::not_configured(format!("cannot write the request as JSON: {e}")))?;
            let error = match self.attempt(sending, &body, left()).await {
                Ok(reply) => {
                    let states_left_out = states_left_out(&asked);
                    let reply = ModelReply { states_left_out, form: Some(form), ..reply };
                    return Ok(W::check(reply, self.context_tokens));
                }
                Err(error) => error,
            };
            // Remembered, so that it costs one request and not one in each round.
            if !is_plain && refuses_extras::<W>(&error) {
                self.is_plain.store(true, Ordering::Relaxed);
                continue;
            }
            tried += 1;
            match retry::pause(&error, tried, left()) {
                Some(pause) => {
                    if let Some(listener) = sending.request.listener {
                        listener.retry(retry::told(&error, tried, pause));
                    }
                    tokio::time::sleep(pause).await;
                }
                None => {
                    let sent = SentRequest { digest: Digest::sha256(&body), form };
                    return Err(ModelError { sent: Some(Box::new(sent)), ..error });
                }
            }
        }
    }

    fn form(&self, sending: &Sending<'_>, is_plain: bool) -> RequestForm {
        RequestForm {
            origin: sending.origin.clone(),
            reply_tokens_max: self.reply_tokens_max,
            context_tokens: self.context_tokens,
            is_streamed: sending.request.listener.is_some(),
            is_plain,
        }
    }

    /// One request.
    async fn attempt(
        &self,
        sending: &Sending<'_>,
        body: &[u8],
        deadline: Duration,
    ) -> Result<ModelReply, ModelError> {
        let Sending { request, key, origin, began } = *sending;
        let digest = Digest::sha256(body);
        let endpoint = if request.listener.is_some() { &self.streamed } else { &self.endpoint };
        let credential = key.map(W::credential);
        let ask = HttpRequest { endpoint, credential, headers: W::HEADERS, body: Some(body), deadline };
        let Some(sink) = request.listener else {
            // No later code sees what the server sent before secrets were replaced.
            let answer = self.secrets.clean_since(began, self.client.exchange(ask).await?);
            let (found, answer) = (answer.found().clone(), answer.into_inner());
            if !is_success(&answer) {
                return Err(refused(found, answer));
            }
            return match read::<W>(answer.body, digest, origin) {
                Ok(reply) => Ok(ModelReply { found, ..reply }),
                Err(error) => {
                    Err(ModelError { found, ..answer::typed(error, answer.content_type.as_deref()) })
                }
            };
        };
        let mut streaming = Streaming::<W>::new(&self.secrets, sink);
        let ended = match self.client.exchange_in_pieces(ask, |piece| streaming.take(piece)).await {
            Ok(answer) if !is_success(&answer) => {
                let answer = self.secrets.clean_since(began, answer);
                return Err(refused(answer.found().clone(), answer.into_inner()));
            }
            Ok(answer) => {
                let finished = streaming.finish(None, digest, origin);
                return finished.map_err(|error| answer::typed(error, answer.content_type.as_deref()));
            }
            Err(error) => error,
        };
        streaming.finish(Some(ended), digest, origin)
    }
}

fn refused(found: SecretCounts, answer: Response) -> ModelError {
    let retry_after = answer.retry_after;
    ModelError { found, retry_after, ..answer::refusal(answer) }
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

    fn window_tokens(&self) -> Option<u32> {
        self.knows_window.then_some(self.context_tokens)
    }

    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let conversation = probe::conversation();
            let request = ModelRequest {
                conversation: &conversation,
                tools: &[],
                deadline,
                permit: None,
                listener: None,
            };
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
