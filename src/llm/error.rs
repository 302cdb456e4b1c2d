//! Why a request got no reply.

use crate::egress::EgressError;
use crate::secrets::{SecretCounts, Secrets};
use crate::types::{limits, text};

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
    /// The server's answer is not a valid reply.
    Malformed,
    /// The server reports inside its answer that it failed.
    Reported,
    /// The answer is larger than [`limits::MODEL_REPLY_BYTES_MAX`].
    TooLarge,
    /// A required setting of the provider is missing.
    NotConfigured,
}

impl ModelError {
    pub(super) fn not_configured(message: String) -> Self {
        Self {
            kind: ModelErrorKind::NotConfigured,
            message,
            retryable: false,
            raw: None,
            found: SecretCounts::default(),
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
        Self {
            kind: ModelErrorKind::Status(status),
            message,
            retryable,
            raw: Some(raw),
            found: SecretCounts::default(),
        }
    }

    /// The error as it may be shown: secrets that the server may have echoed are replaced first,
    /// then the text is made printable and truncated. In this order, because truncation could leave
    /// half a secret that is not recognised.
    pub(super) fn bounded(self, secrets: &Secrets) -> Self {
        let Self { kind, message, retryable, raw, found } = self;
        let clean = secrets.clean((message, raw, found));
        let found = clean.found().clone();
        let (message, mut raw, _) = clean.into_inner();
        if let Some(raw) = &mut raw {
            raw.truncate(limits::MODEL_ERROR_BYTES_MAX);
        }
        Self { kind, message: shown(&message), retryable, raw, found }
    }
}

impl From<EgressError> for ModelError {
    fn from(error: EgressError) -> Self {
        let (kind, retryable) = match &error {
            EgressError::Address(_) => (ModelErrorKind::NotConfigured, false),
            EgressError::Connect(_) | EgressError::Broken(_) => (ModelErrorKind::Transport, true),
            EgressError::Tls(_) => (ModelErrorKind::Transport, false),
            EgressError::Timeout => (ModelErrorKind::Timeout, true),
            EgressError::TooLarge(_) => (ModelErrorKind::TooLarge, false),
        };
        Self { kind, message: error.to_string(), retryable, raw: None, found: SecretCounts::default() }
    }
}

fn shown(message: &str) -> String {
    text::visible_line(text::prefix(message, limits::REASON_BYTES_MAX))
}
