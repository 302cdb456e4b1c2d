//! Why a request got no answer.

use super::address::Forbidden;
use super::connect::ConnectError;
use crate::types::{limits, text};
use rustls::CertificateError;
use std::error::Error;

/// Why a request got no complete answer. An answer with any status is not an error.
///
/// The texts are printable and bounded, and contain neither URL nor credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The address, a certificate file or the key is not usable.
    #[error("{0}")]
    Address(String),
    /// No connection: the name does not resolve, or no server answers there.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection cannot be trusted, for example because of its certificate.
    #[error("cannot establish a secure connection: {0}")]
    Tls(String),
    /// The client may not connect to an address of the server.
    #[error("not permitted: {0}")]
    Forbidden(#[source] Forbidden),
    /// The deadline of one part of the exchange passed.
    #[error("{0}")]
    Late(Wait),
    /// The deadline passed.
    #[error("no complete answer before the deadline")]
    Timeout,
    /// The body is larger than this many bytes; the rest was not read.
    #[error("the answer is over {0} bytes")]
    TooLarge(usize),
    /// The connection ended early, or the answer is not HTTP.
    #[error("the connection broke: {0}")]
    Broken(String),
}

/// A part of an exchange that has a deadline of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wait {
    /// Look-up, TCP and TLS.
    #[error("no connection before the deadline")]
    Connect,
    /// From the connection to the head of the answer.
    #[error("connected, and no answer began before the deadline")]
    FirstByte,
    /// Between two pieces of the answer.
    #[error("the answer began, and no further byte came before the deadline")]
    Idle,
}

impl EgressError {
    /// Classifies an error of the HTTP client.
    pub(super) fn sort(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if let Some(refused) = causes(&error).find_map(|cause| cause.downcast_ref::<ConnectError>()) {
            match refused {
                ConnectError::Forbidden(why) => Self::Forbidden(*why),
                ConnectError::Resolve(why) | ConnectError::Closed(why) | ConnectError::Connect(why) => {
                    Self::Connect(why.clone())
                }
                ConnectError::Timeout => Self::Late(Wait::Connect),
            }
        } else if error.is_builder() {
            Self::Address(bounded(root_cause(&error)))
        } else if let Some(tls) = tls_cause(&error) {
            Self::Tls(untrusted(tls))
        } else if error.is_connect() && error.is_timeout() {
            Self::Late(Wait::Connect)
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

/// Why a connection with TLS is not trusted, in words.
fn untrusted(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(why) = error else { return bounded(error) };
    let words = match why {
        CertificateError::UnknownIssuer => "is signed by no authority that is trusted here",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for another name"
        }
        CertificateError::Revoked => "has been revoked",
        CertificateError::BadSignature => "has a signature that is wrong",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not one of a server"
        }
        // webpki has a word of its own for it.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "is one of an authority and not of a server"
        }
        _ => return bounded(error),
    };
    format!("the server's certificate {words}")
}

/// The error of the TLS library in the causes of `error`, if any.
fn tls_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

/// `error` and its causes. An I/O error that wraps another error skips it in `source`, so this
/// unwraps it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause: &&'a (dyn Error + 'static)| {
        let cause = *cause;
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source())
    })
}
