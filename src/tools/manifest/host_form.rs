//! How an argument names a host.

use crate::types::{HostError, HostPort, WebUrl, text};

/// How an argument names a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostForm {
    /// `host:port`.
    Host,
    /// A whole URL.
    Url,
    /// A name without a port, to be looked up. As a host it has the port of DNS, 53.
    Name,
}

/// The port that stands for the look-up of a name.
const DNS_PORT: u16 = 53;

/// Why a value is not a host in canonical form. The message follows the argument's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpellingError {
    /// It does not name a host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It must be written in this form.
    #[error("must be written `{0}`")]
    Other(String),
}

impl HostForm {
    /// The word in manifests.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Url => "url",
            Self::Name => "name",
        }
    }

    /// The host that `words` name. They must be in canonical form: what is decided on, recorded and
    /// run is the same text. No name is looked up.
    pub fn read(self, words: &str) -> Result<HostPort, SpellingError> {
        let (spelled, host) = match self {
            Self::Host => {
                let host = HostPort::parse(words)?;
                (host.as_str().to_owned(), host)
            }
            Self::Url => {
                let url = WebUrl::parse(words)?;
                (url.as_str().to_owned(), url.host_port())
            }
            Self::Name => {
                let host = HostPort::parse(&format!("{words}:{DNS_PORT}"))?;
                if host.ip().is_some() {
                    return Err(HostError::Form("is an address, and only a name is looked up").into());
                }
                (host.host().to_owned(), host)
            }
        };
        if spelled == words { Ok(host) } else { Err(SpellingError::Other(text::visible_line(&spelled))) }
    }

    /// `host` in this form.
    #[must_use]
    pub fn spell(self, host: &HostPort) -> String {
        match self {
            Self::Host => host.as_str().to_owned(),
            Self::Name => host.host().to_owned(),
            Self::Url => {
                let url = format!("https://{}/", host.as_str());
                WebUrl::parse(&url).map_or(url, |url| url.as_str().to_owned())
            }
        }
    }
}
