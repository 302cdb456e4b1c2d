//! Hosts and URLs in one canonical spelling, so that the host a rule names is the host connected
//! to.

use std::fmt;
use std::net::IpAddr;
use url::{Host, Position, Url};

use super::limits;

/// Why a text is not a valid host or URL. The message is a predicate: callers put the name first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Longer than [`limits::URL_BYTES_MAX`].
    #[error("is over {} bytes", limits::URL_BYTES_MAX)]
    TooLong,
    /// Malformed; the text says how.
    #[error("{0}")]
    Form(&'static str),
    /// The URL standard's host parser refused it.
    #[error("has no host: {0}")]
    Host(#[source] url::ParseError),
    /// The URL standard's parser refused it.
    #[error("is not a valid URL: {0}")]
    Url(#[source] url::ParseError),
}

/// A host and a port in canonical form: `git.example.com:443`, `192.0.2.1:80`, `[2001:db8::1]:443`.
///
/// Two spellings of the same name or address become equal values. Parsing resolves no name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    text: String,
    port: u16,
    ip: Option<IpAddr>,
}

impl HostPort {
    /// Parses a host with an explicit port, using the URL standard's host parser: lower case, IDNA
    /// (UTS 46), trailing dot removed; IPv4 in decimal, octal, hexadecimal or short form;
    /// IPv4-mapped IPv6 as IPv4.
    ///
    /// Stricter than that standard: a name contains only ASCII letters, digits, `-`, `_` and dots,
    /// is at most 253 bytes long, has no empty label and none over 63 bytes, and does not begin
    /// with `-`. The error gives the reason and does not quote the text.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.len() > limits::URL_BYTES_MAX {
            return Err(HostError::TooLong);
        }
        let (host, port) = text.rsplit_once(':').ok_or(HostError::Form("has no port"))?;
        let port =
            read_port(port).ok_or(HostError::Form("has a port that is not a number from 1 to 65535"))?;
        let (host, ip) = read_host(host)?;
        Ok(Self { text: format!("{host}:{port}"), port, ip })
    }

    /// The canonical form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The port, never 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, if the host is an IP literal.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// The host without the port; an IPv6 literal has no brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.bracketed().trim_matches(['[', ']'])
    }

    fn bracketed(&self) -> &str {
        self.text.rsplit_once(':').map_or("", |(host, _)| host)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An `http` or `https` URL without credentials or fragment, in canonical form.
///
/// Contains only printable ASCII without spaces, so it can be written into a request line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebUrl {
    url: Url,
    host_port: HostPort,
}

impl WebUrl {
    /// Parses `text` by the URL standard, and its host as [`HostPort`] does. A default port is left
    /// out.
    ///
    /// Refuses what that standard would repair: other than two slashes after the scheme,
    /// backslashes, spaces and control characters. The error gives the reason and does not quote
    /// the text.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.len() > limits::URL_BYTES_MAX {
            return Err(HostError::TooLong);
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(HostError::Form("contains a space, a backslash or a control character"));
        }
        if text.contains('#') {
            return Err(HostError::Form("has a fragment"));
        }
        let (scheme, rest) =
            text.split_once("://").ok_or(HostError::Form("is neither `https` nor `http`"))?;
        let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "https" => ("https", 443),
            "http" => ("http", 80),
            _ => return Err(HostError::Form("is neither `https` nor `http`")),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(HostError::Form("contains credentials"));
        }
        let has_port = authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let host_port = if has_port {
            HostPort::parse(authority)?
        } else {
            HostPort::parse(&format!("{authority}:{default_port}"))?
        };
        let url = Url::parse(&format!("{scheme}://{host_port}{path}")).map_err(HostError::Url)?;
        if url.as_str().len() > limits::URL_BYTES_MAX {
            return Err(HostError::TooLong);
        }
        Ok(Self { url, host_port })
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The host and port to connect to; the scheme's default port if the URL has none.
    #[must_use]
    pub fn host_port(&self) -> HostPort {
        self.host_port.clone()
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The request target, `/path?query`; at least `/`.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        self.url.as_str().get(self.authority_end()..).unwrap_or("/")
    }

    /// The value of the `Host` header: the host, and the port unless it is the scheme's default.
    #[must_use]
    pub fn host_header(&self) -> &str {
        let start = self.url[..Position::BeforeHost].len();
        self.url.as_str().get(start..self.authority_end()).unwrap_or_default()
    }

    fn authority_end(&self) -> usize {
        self.url[..Position::BeforePath].len()
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Accepts digits only: `u16::from_str` would also accept a `+`.
fn read_port(text: &str) -> Option<u16> {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| is_plain && *port != 0)
}

/// The canonical host, in brackets if it is an IPv6 address, and the address if it is one.
fn read_host(text: &str) -> Result<(String, Option<IpAddr>), HostError> {
    // The standard decodes these before it reads a name; no honest caller writes a name like this.
    if text.contains('%') {
        return Err(HostError::Form("has a host that contains `%`"));
    }
    match Host::parse(text).map_err(HostError::Host)? {
        Host::Ipv4(ip) => Ok((ip.to_string(), Some(ip.into()))),
        Host::Ipv6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => Ok((ip.to_string(), Some(ip.into()))),
            None => Ok((format!("[{ip}]"), Some(ip.into()))),
        },
        Host::Domain(name) => read_name(name.strip_suffix('.').unwrap_or(&name)).map(|name| (name, None)),
    }
}

/// Accepts a name from the standard's parser if a resolver accepts it too and parsing it again does
/// not change it.
fn read_name(name: &str) -> Result<String, HostError> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    if !name.bytes().all(is_plain) {
        return Err(HostError::Form(
            "has a host with a character other than ASCII letters, digits, `-`, `_` and `.`",
        ));
    }
    if name.len() > limits::HOST_BYTES_MAX || name.split('.').any(|label| label.len() > 63) {
        return Err(HostError::Form("has a host that is too long"));
    }
    if name.split('.').any(str::is_empty) {
        return Err(HostError::Form("has a host with an empty label"));
    }
    if name.starts_with('-') {
        return Err(HostError::Form("has a host that begins with `-`"));
    }
    if Host::parse(name) != Ok(Host::Domain(name.to_owned())) {
        return Err(HostError::Form("has a host that changes when it is parsed again"));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests;
