//! The login cookie (RFC 6265bis).

use crate::http::middleware::Ends;
use crate::types::limits;
use axum::http::header::{COOKIE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};
use std::net::IpAddr;

/// How a browser reaches this server, as far as cookies are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exposure {
    /// From the same machine, under a loopback name: plain HTTP, which never leaves the machine.
    Loopback,
    /// From another machine: only through a proxy with TLS. Over plain HTTP a browser does not
    /// store such a cookie.
    Far,
}

/// What a login is for. A browser can have one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A key opened it: everything that the key may do on pages.
    Read,
    /// A link of `par login` opened it: answers approvals for a quarter of an hour.
    Answer,
}

impl Purpose {
    /// The longest life of such a login, in milliseconds.
    pub(super) fn life_ms_max(self) -> u64 {
        match self {
            Self::Read => limits::LOGIN_LIFE_MS_MAX,
            Self::Answer => limits::LOGIN_FRESH_MS_MAX,
        }
    }
}

impl Exposure {
    /// Derived from the connection and from the `Host`, which `middleware` has checked.
    pub(super) fn from_request(ends: Ends, headers: &HeaderMap) -> Self {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let is_loopback = host.is_some_and(|host| {
            let name = host.host().trim_start_matches('[').trim_end_matches(']').to_owned();
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        });
        if is_loopback && ends.peer.is_loopback() { Self::Loopback } else { Self::Far }
    }

    /// The scheme of this server's address in the browser.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Loopback => "http",
            Self::Far => "https",
        }
    }

    fn name(self, purpose: Purpose) -> &'static str {
        match (self, purpose) {
            (Self::Loopback, Purpose::Read) => "par_login",
            (Self::Far, Purpose::Read) => "__Host-par_login",
            (Self::Loopback, Purpose::Answer) => "par_answer",
            (Self::Far, Purpose::Answer) => "__Host-par_answer",
        }
    }

    /// Returns the login id of a request. Two cookies of this name count as none: one of them was
    /// planted.
    pub(super) fn read(self, headers: &HeaderMap, purpose: Purpose) -> Option<&str> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut own = pairs.filter(|(name, _)| *name == self.name(purpose)).map(|(_, value)| value);
        match (own.next(), own.next()) {
            (Some(id), None) => Some(id),
            _ => None,
        }
    }

    /// The header that sets the cookie.
    pub(super) fn set(self, id: &str, purpose: Purpose) -> Option<HeaderValue> {
        self.line(id, purpose, purpose.life_ms_max() / 1_000)
    }

    /// The header that removes the cookie.
    pub(super) fn clear(self, purpose: Purpose) -> Option<HeaderValue> {
        self.line("", purpose, 0)
    }

    fn line(self, id: &str, purpose: Purpose, max_age_s: u64) -> Option<HeaderValue> {
        let secure = match self {
            Self::Loopback => "",
            Self::Far => "; Secure",
        };
        let name = self.name(purpose);
        let line = format!("{name}={id}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::from_str(&line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposure, Purpose};
    use crate::http::middleware::Ends;
    use axum::http::header::{COOKIE, HOST};
    use axum::http::{HeaderMap, HeaderValue};

    fn reach(peer: &str, host: &str) -> Exposure {
        let ends = Ends { peer: peer.parse().expect("ip"), local: "127.0.0.1".parse().expect("ip") };
        Exposure::from_request(
            ends,
            &HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).expect("host"))]),
        )
    }

    #[test]
    fn plain_cookies_stay_on_the_machine() {
        for (peer, host, expect) in [
            ("127.0.0.1", "127.0.0.1:7117", Exposure::Loopback),
            ("::1", "[::1]:7117", Exposure::Loopback),
            ("127.0.0.1", "localhost:7117", Exposure::Loopback),
            ("127.0.0.1", "par.example", Exposure::Far),
            ("192.0.2.7", "127.0.0.1:7117", Exposure::Far),
            ("192.0.2.7", "192.0.2.1", Exposure::Far),
        ] {
            assert_eq!(reach(peer, host), expect, "{peer} {host}");
        }
        let far = Exposure::Far.set("abc", Purpose::Read).expect("line");
        assert_eq!(
            far.to_str().expect("text"),
            "__Host-par_login=abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"
        );
        let near = Exposure::Loopback.set("abc", Purpose::Read).expect("line");
        assert_eq!(
            near.to_str().expect("text"),
            "par_login=abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"
        );
        let answer = Exposure::Loopback.set("abc", Purpose::Answer).expect("line");
        assert_eq!(
            answer.to_str().expect("text"),
            "par_answer=abc; Path=/; Max-Age=900; HttpOnly; SameSite=Strict"
        );
        assert!(
            Exposure::Loopback
                .clear(Purpose::Read)
                .expect("line")
                .to_str()
                .expect("text")
                .contains("Max-Age=0;")
        );
    }

    #[test]
    fn a_single_cookie_is_read_and_duplicates_are_ignored() {
        let check = |reach: Exposure, lines: &[&'static str], expect: Option<&str>| {
            let headers: HeaderMap =
                lines.iter().map(|line| (COOKIE, HeaderValue::from_static(line))).collect();
            assert_eq!(reach.read(&headers, Purpose::Read), expect, "{lines:?}");
        };
        check(Exposure::Loopback, &["a=b; par_login=x; c=d"], Some("x"));
        check(Exposure::Loopback, &["par_login=x; par_login=y"], None);
        check(Exposure::Loopback, &["par_login=x", "par_login=y"], None);
        check(Exposure::Far, &["par_login=x"], None);
        check(Exposure::Far, &["__Host-par_login=x; par_login=y"], Some("x"));
        check(Exposure::Far, &[], None);
    }
}
