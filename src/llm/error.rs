//! Why a request got no reply.

use super::form::RequestForm;
use super::reply::ModelReply;
use crate::egress::{EgressError, Wait};
use crate::secrets::{Finder, SecretCounts, Secrets};
use crate::types::{Digest, limits, text};
use std::sync::Arc;
use std::time::Duration;

/// A request to a model that got no reply.
///
/// It has no `source`: a cause may repeat what a server sent, and only the text here was searched
/// for secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What went wrong.
    pub kind: ModelErrorKind,
    /// The message for people: printable, bounded, without secrets.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What the server sent instead, without secrets, truncated at
    /// [`limits::MODEL_ERROR_BYTES_MAX`].
    pub raw: Option<Vec<u8>>,
    /// The secrets replaced in it.
    pub found: SecretCounts,
    /// How long the server asks to be left alone (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// The request, if one was sent.
    pub sent: Option<Box<SentRequest>>,
}

/// A request that was sent and got no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// What determined them, next to the conversation and the tools.
    pub form: RequestForm,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The connection failed, is not trusted, or broke.
    Transport,
    /// The deadline passed.
    Timeout,
    /// The server answered with this HTTP status.
    Status(u16),
    /// The server refused the request with this HTTP status because it is too long.
    TooLong(u16),
    /// The server's answer is not a valid reply.
    Malformed,
    /// The server reports inside its answer that it failed.
    Reported,
    /// The answer is larger than [`limits::MODEL_REPLY_BYTES_MAX`].
    TooLarge,
    /// A required setting of the provider is missing.
    NotConfigured,
    /// It failed too often just before, and was not asked.
    Resting,
    /// Nothing was sent: the rules were exchanged since they allowed it, or they did not decide
    /// about this conversation.
    NotPermitted,
    /// A person stopped the run.
    Stopped,
}

impl ModelError {
    pub(super) fn not_configured(message: String) -> Self {
        Self {
            kind: ModelErrorKind::NotConfigured,
            message,
            retryable: false,
            raw: None,
            found: SecretCounts::default(),
            retry_after: None,
            sent: None,
        }
    }

    pub(super) fn resting(message: String) -> Self {
        Self { kind: ModelErrorKind::Resting, retryable: true, ..Self::not_configured(message) }
    }

    /// A person stopped the run while the model was answering. What it would have said is unknown,
    /// and what was sent stays sent.
    #[must_use]
    pub fn stopped(message: String) -> Self {
        Self { kind: ModelErrorKind::Stopped, ..Self::not_configured(message) }
    }

    pub(super) fn not_permitted() -> Self {
        Self {
            kind: ModelErrorKind::NotPermitted,
            message: "the request was not sent: the rules in force have not allowed it".to_owned(),
            retryable: false,
            raw: None,
            found: SecretCounts::default(),
            retry_after: None,
            sent: None,
        }
    }

    /// An answer that is not a valid reply. Not yet [`bounded`](Self::bounded).
    pub(super) fn malformed(why: &str, raw: Vec<u8>) -> Self {
        let message = format!("the answer is not a valid reply: {why}");
        Self {
            kind: ModelErrorKind::Malformed,
            message,
            retryable: false,
            raw: Some(raw),
            found: SecretCounts::default(),
            retry_after: None,
            sent: None,
        }
    }

    /// The server failed after it had begun to answer, and says so. If nothing of the answer was
    /// shown, the same request may be made again. Not yet [`bounded`](Self::bounded).
    pub(super) fn reported(why: &str, raw: Vec<u8>) -> Self {
        let message = format!("the server failed while it answered: {why}");
        Self {
            kind: ModelErrorKind::Reported,
            message,
            retryable: true,
            raw: Some(raw),
            found: SecretCounts::default(),
            retry_after: None,
            sent: None,
        }
    }

    /// A stream that ended before the reply did. As with a whole answer whose connection breaks,
    /// another model may be asked. The request is not repeated: its server has written a part of
    /// the reply, and may charge for it.
    pub(super) fn cut(reply: ModelReply) -> Self {
        let message = reply.stop.failure().unwrap_or_default();
        let digest = reply.request_digest;
        let mut raw = reply.raw;
        raw.truncate(limits::MODEL_ERROR_BYTES_MAX);
        Self {
            kind: ModelErrorKind::Transport,
            message: shown(&message),
            retryable: false,
            raw: Some(raw).filter(|raw| !raw.is_empty()),
            found: reply.found,
            retry_after: None,
            sent: reply.form.map(|form| Box::new(SentRequest { digest, form })),
        }
    }

    /// The server refused; `why` is the part of its reason that could be read. Not yet
    /// [`bounded`](Self::bounded).
    pub(super) fn status(status: u16, why: &str, raw: Vec<u8>) -> Self {
        let message = match why {
            "" => format!("the server answered {status}"),
            why => format!("the server answered {status}: {why}"),
        };
        // Request timeout, conflict and too many requests are temporary; so may be any failure of
        // the server.
        let retryable = matches!(status, 408 | 409 | 429 | 500..=599);
        let kind = if is_too_long(status, &raw) { ModelErrorKind::TooLong } else { ModelErrorKind::Status };
        Self {
            kind: kind(status),
            message,
            retryable,
            raw: Some(raw),
            found: SecretCounts::default(),
            retry_after: None,
            sent: None,
        }
    }

    /// Whether another model may be asked the same: this one could not be reached, was not in
    /// service, or does not accept its key or its name. What the request itself brought about,
    /// such as a conversation that is too long or an answer that is not valid, is no reason: text
    /// that a model has read must not choose which server gets the conversation.
    #[must_use]
    pub fn is_of_service(&self) -> bool {
        match self.kind {
            ModelErrorKind::Transport
            | ModelErrorKind::Timeout
            | ModelErrorKind::Reported
            | ModelErrorKind::NotConfigured
            | ModelErrorKind::Resting => true,
            ModelErrorKind::Status(status) => matches!(status, 401..=404 | 408 | 409 | 429 | 500..=599),
            ModelErrorKind::TooLong(_)
            | ModelErrorKind::Malformed
            | ModelErrorKind::TooLarge
            | ModelErrorKind::NotPermitted
            | ModelErrorKind::Stopped => false,
        }
    }

    /// The error as it may be shown: secrets that the server may have echoed are replaced first,
    /// then the text is made printable and truncated. In this order, because truncation could leave
    /// half a secret that is not recognised.
    ///
    /// `began` is the finder under which the request began.
    pub(super) fn bounded(self, secrets: &Secrets, began: &Arc<Finder>) -> Self {
        let Self { kind, message, retryable, raw, found, retry_after, sent } = self;
        let (digest, form) = sent.map(|sent| (sent.digest, sent.form.apart())).unzip();
        let clean = secrets.clean_since(began, ((message, form), raw, found));
        let found = clean.found().clone();
        let ((message, form), mut raw, _) = clean.into_inner();
        let form = form.map(RequestForm::whole);
        let sent = digest.zip(form).map(|(digest, form)| Box::new(SentRequest { digest, form }));
        if let Some(raw) = &mut raw {
            raw.truncate(limits::MODEL_ERROR_BYTES_MAX);
        }
        Self { kind, message: shown(&message), retryable, raw, found, retry_after, sent }
    }
}

impl From<EgressError> for ModelError {
    fn from(error: EgressError) -> Self {
        let (kind, retryable) = match &error {
            EgressError::Address(_) | EgressError::Forbidden(_) => (ModelErrorKind::NotConfigured, false),
            EgressError::Late(Wait::Connect) => (ModelErrorKind::Transport, true),
            EgressError::Late(Wait::FirstByte | Wait::Idle) => (ModelErrorKind::Timeout, true),
            EgressError::Connect(_) | EgressError::Broken(_) => (ModelErrorKind::Transport, true),
            EgressError::Tls(_) => (ModelErrorKind::Transport, false),
            EgressError::Timeout => (ModelErrorKind::Timeout, true),
            EgressError::TooLarge(_) => (ModelErrorKind::TooLarge, false),
        };
        let message = match &error {
            EgressError::Forbidden(why) if !why.is_final() => {
                format!("{error}: to permit it, name it in `addresses` of the model")
            }
            EgressError::Tls(_) => {
                format!("{error}; `ca_file` of the model names certificates to trust in addition")
            }
            other => other.to_string(),
        };
        Self {
            kind,
            message,
            retryable,
            raw: None,
            found: SecretCounts::default(),
            retry_after: None,
            sent: None,
        }
    }
}

/// How servers say that a request does not fit into the model's window, in lower case. All words of
/// a row are there.
const TOO_LONG: [&[&str]; 9] = [
    &["context_length_exceeded"],
    &["maximum context length"],
    &["exceed_context_size"],
    &["exceeds the available context size"],
    &["context length", "exceed"],
    &["context window", "exceed"],
    &["prompt is too long"],
    &["input is too long"],
    &["input token count", "exceeds"],
];

/// Whether a server refused a request because of its length. Only what a run leaves out depends on
/// this, never which server is asked.
fn is_too_long(status: u16, body: &[u8]) -> bool {
    let said = String::from_utf8_lossy(body).to_ascii_lowercase();
    let says = |words: &&[&str]| words.iter().all(|word| said.contains(word));
    match status {
        413 => true,
        400 | 422 => TOO_LONG.iter().any(says),
        _ => false,
    }
}

fn shown(message: &str) -> String {
    text::visible_line(text::prefix(message, limits::REASON_BYTES_MAX))
}
