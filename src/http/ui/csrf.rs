//! Whether a page of this server sent a request that changes state.
//!
//! `SameSite=Strict` and the form's token protect the same; this check depends on neither.

use crate::http::problem::{Code, Problem};
use axum::http::HeaderMap;
use axum::http::header::{HOST, HeaderName, ORIGIN};

/// Refuses requests from pages of other sites and requests without an origin.
///
/// The browser sets `Sec-Fetch-Site`, and no page can change it. Under our `no-referrer` policy a
/// form's `Origin` is `null`, which says nothing.
pub(super) fn check_own(headers: &HeaderMap) -> Result<(), Problem> {
    let site = single(headers, &HeaderName::from_static("sec-fetch-site"));
    let origin = single(headers, &ORIGIN);
    let is_own = match (site, origin) {
        (Some("same-origin"), None | Some("null")) => true,
        (Some("same-origin") | None, Some(origin)) => is_ours(headers, origin),
        (Some(_), _) | (None, None) => false,
    };
    let refused = "this form was not sent by a page of this server: reload the page and try again";
    is_own.then_some(()).ok_or_else(|| Problem::new(Code::Forbidden, refused))
}

fn is_ours(headers: &HeaderMap, origin: &str) -> bool {
    let host = single(headers, &HOST);
    let of = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    host.zip(of).is_some_and(|(host, of)| host.eq_ignore_ascii_case(of))
}

/// Returns the only value. If there are two, neither counts.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.to_str().unwrap_or("not-ascii")),
        (None, _) => None,
        (Some(_), Some(_)) => Some("twice"),
    }
}

#[cfg(test)]
mod tests {
    use super::check_own;
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    #[test]
    fn only_our_own_pages_may_post() {
        let check = |lines: &[(&'static str, &'static str)], expect: bool| {
            let all = lines.iter().chain(&[("host", "par.example:7117")]);
            let headers: HeaderMap = all
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            assert_eq!(check_own(&headers).is_ok(), expect, "{lines:?}");
        };
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "same-origin"), ("origin", "null")], true);
        check(&[("sec-fetch-site", "same-origin"), ("origin", "https://par.example:7117")], true);
        check(&[("origin", "http://par.example:7117")], true);
        check(&[], false);
        check(&[("origin", "null")], false);
        check(&[("origin", "http://evil.example")], false);
        check(&[("origin", "http://par.example:7117.evil.example")], false);
        check(&[("origin", "par.example:7117")], false);
        check(&[("origin", "http://par.example:7118")], false);
        check(&[("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")], false);
        check(&[("sec-fetch-site", "cross-site"), ("origin", "http://par.example:7117")], false);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("sec-fetch-site", "none")], false);
        check(&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "same-origin")], false);
    }
}
