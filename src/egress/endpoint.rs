//! The address of a server, parsed once.

use super::error::EgressError;
use std::fmt;

/// An `http` or `https` URL without credentials, query or fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(reqwest::Url);

impl Endpoint {
    /// Parses `base` and appends `path`; a slash at the end of `base` makes no difference.
    pub fn parse(base: &str, path: &str) -> Result<Self, EgressError> {
        let refuse = |why: &str| EgressError::Address(format!("the URL {why}"));
        let base = reqwest::Url::parse(base).map_err(|e| refuse(&format!("is not a valid URL: {e}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(refuse("is neither `https` nor `http`"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(refuse("contains credentials"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(refuse("has a query or a fragment"));
        }
        let joined = format!("{}/{}", base.as_str().trim_end_matches('/'), path.trim_start_matches('/'));
        reqwest::Url::parse(&joined).map(Self).map_err(|e| refuse(&format!("is not a valid URL: {e}")))
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether the connection cannot be read on the network: TLS, or a server on this host.
    #[must_use]
    pub fn is_private(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host.parse::<std::net::IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback());
        self.is_tls() || is_here
    }

    /// The host, as the URL standard reads it.
    pub(super) fn host(&self) -> Option<url::Host<&str>> {
        self.0.host()
    }

    /// The server as `name:port`, with an IPv6 address in brackets.
    #[must_use]
    pub fn host_port(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        format!("{host}:{}", self.0.port_or_known_default().unwrap_or_default())
    }

    pub(super) fn url(&self) -> reqwest::Url {
        self.0.clone()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn an_endpoint_is_plain_http_or_https() {
        for (base, expect) in [
            ("https://api.example.com/v1", Some("https://api.example.com/v1/chat")),
            ("https://api.example.com/v1//", Some("https://api.example.com/v1/chat")),
            ("http://127.0.0.1:8080", Some("http://127.0.0.1:8080/chat")),
            ("http://[::1]:8080/", Some("http://[::1]:8080/chat")),
            ("https://user:key@example.com/v1", None),
            ("https://example.com/v1?key=1", None),
            ("https://example.com/v1#part", None),
            ("ftp://example.com", None),
            ("file:///etc/passwd", None),
            ("example.com/v1", None),
            ("", None),
        ] {
            let read = Endpoint::parse(base, "/chat").ok().map(|endpoint| endpoint.to_string());
            assert_eq!(read.as_deref(), expect, "{base}");
        }
    }

    #[test]
    fn a_refusal_does_not_repeat_credentials() {
        for (base, expect) in [
            ("https://api.example.com", true),
            ("http://127.0.0.1:7117", true),
            ("http://[::1]:7117", true),
            ("http://localhost:7117", true),
            ("http://192.0.2.1:7117", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(Endpoint::parse(base, "").expect(base).is_private(), expect, "{base}");
        }
        let error = Endpoint::parse("https://user:sk-0123456789@example.com", "chat").expect_err("refused");
        assert!(!error.to_string().contains("sk-0123456789"));
    }
}
