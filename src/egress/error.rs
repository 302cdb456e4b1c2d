//! Why a request got no answer.

use crate::types::{limits, text};
use std::error::Error;

/// Why a request got no whole answer. An answer with any status is no error.
///
/// The texts are visible, bounded, and hold neither URL nor credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The address, a certificate file or the key cannot be used.
    #[error("{0}")]
    Address(String),
    /// No connection: the name does not resolve, or nobody answers there.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection is not to be trusted, such as for its certificate.
    #[error("connection refused as not secure: {0}")]
    Tls(String),
    /// The deadline passed.
    #[error("no whole answer before the deadline")]
    Timeout,
    /// The body is over this many bytes; the rest was not read.
    #[error("the answer is over {0} bytes")]
    TooLarge(usize),
    /// The connection ended early, or what came is no HTTP.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl EgressError {
    /// Sorts an error of the HTTP client.
    pub(super) fn sort(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_builder() {
            Self::Address(bounded(root_cause(&error)))
        } else if let Some(tls) = tls_cause(&error) {
            Self::Tls(bounded(tls))
        } else if error.is_connect() {
            Self::Connect(bounded(root_cause(&error)))
        } else if error.is_timeout() {
            Self::Timeout
        } else {
            Self::Broken(bounded(root_cause(&error)))
        }
    }
}

fn bounded(cause: &dyn Error) -> String {
    text::visible_line(text::prefix(&cause.to_string(), limits::REASON_BYTES_MAX))
}

/// The error of the TLS library below `error`, where there is one.
fn tls_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

/// `error` and what is below it. An I/O error that wraps another one skips it in `source`, so this
/// looks into it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause: &&'a (dyn Error + 'static)| {
        let cause = *cause;
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source())
    })
}
