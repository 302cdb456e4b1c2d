//! Values that every room reads: strict JSON, hosts and URLs, and texts with secrets in them.

use super::refuses_visibly;
use crate::secrets::{Finder, Named, Pattern, SecretCounts};
use crate::types::json::{canonical, has_only_exact_integers, has_only_exact_numbers, parse_strict};
use crate::types::{HostPort, WebUrl, limits};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::LazyLock;
use zeroize::Zeroizing;

/// Strict JSON. It agrees with another reader, the depth limit is exact, a member that comes twice
/// is refused, and the canonical form is a fixed point that keeps every value.
pub fn json(bytes: &[u8]) {
    let value = match parse_strict(bytes, limits::JSON_DEPTH_MAX) {
        Ok(value) => value,
        Err(why) => return refuses_visibly(&why.to_string()),
    };
    let other: Value = serde_json::from_slice(bytes).expect("any reader of JSON reads it");
    assert_eq!(value, other, "two readers disagree");
    let deep = depth(&value);
    assert!(deep <= limits::JSON_DEPTH_MAX, "{deep} deep");
    assert!(parse_strict(bytes, deep).is_ok(), "its own depth is too deep");
    assert!(deep == 0 || parse_strict(bytes, deep - 1).is_err(), "deeper than the limit");
    if let Some((name, member)) = value.as_object().and_then(|members| members.iter().next()) {
        let first = serde_json::to_string(name).expect("JSON");
        let twice = format!("{{{first}:{member},{first}:{member}}}");
        assert!(parse_strict(twice.as_bytes(), limits::JSON_DEPTH_MAX).is_err(), "a member comes twice");
    }
    assert!(!has_only_exact_integers(&value) || has_only_exact_numbers(&value), "an integer is a number");
    match canonical(&value) {
        Ok(text) => {
            assert!(has_only_exact_numbers(&value), "{text} has a number that readers round");
            let back = parse_strict(text.as_bytes(), deep).expect("its canonical form is strict JSON");
            assert_eq!(canonical(&back).as_ref(), Ok(&text), "the canonical form is another's");
            assert!(is_same(&value, &back), "{text} says something else");
        }
        Err(why) => {
            assert!(!has_only_exact_numbers(&value), "exact, and without a canonical form");
            refuses_visibly(&why.to_string());
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Whether both have the same meaning: `2.0` is `2` and `-0` is `0`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has_same = |(name, value)| other.get(name).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(has_same)
        }
        (one, other) => one == other,
    }
}

/// A host and port. The canonical spelling parses to itself, upper case does not matter, and a URL
/// parser finds the same host and port.
pub fn host(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let host = match HostPort::parse(text) {
        Ok(host) => host,
        Err(why) => return refuses_visibly(&why.to_string()),
    };
    assert_eq!(HostPort::parse(host.as_str()).as_ref(), Ok(&host), "`{host}` has another spelling");
    assert_eq!(HostPort::parse(&text.to_ascii_uppercase()).as_ref(), Ok(&host), "upper case is another host");
    assert_ne!(host.port(), 0);
    assert!(host.host().len() <= limits::HOST_BYTES_MAX && host.as_str().is_ascii());
    let literal: Option<IpAddr> = host.host().parse().ok();
    assert_eq!(literal, host.ip(), "`{host}` is an address to other readers, or to none");
    assert!(!matches!(literal, Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some()), "a mapped address");
    let bracketed = if matches!(literal, Some(IpAddr::V6(_))) {
        format!("[{}]:{}", host.host(), host.port())
    } else {
        format!("{}:{}", host.host(), host.port())
    };
    assert_eq!(host.as_str(), bracketed);
    let url = url::Url::parse(&format!("http://{host}/")).expect("a URL");
    assert_eq!(url.host_str().map(|found| found.trim_matches(['[', ']'])), Some(host.host()));
    assert_eq!(url.port_or_known_default(), Some(host.port()));
    if literal.is_none() {
        let dotted = format!("{}.:{}", host.host(), host.port());
        assert_eq!(HostPort::parse(&dotted).as_ref(), Ok(&host), "a last dot is another host");
    }
}

/// A URL. The canonical spelling parses to itself, is printable ASCII, and is made of its parts.
pub fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let url = match WebUrl::parse(text) {
        Ok(url) => url,
        Err(why) => return refuses_visibly(&why.to_string()),
    };
    let whole = url.as_str();
    assert_eq!(WebUrl::parse(whole).as_ref(), Ok(&url), "`{url}` has another spelling");
    assert!(whole.len() <= limits::URL_BYTES_MAX && whole.bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(!whole.contains('#'), "a fragment is left");
    let (scheme, port) = if url.is_tls() { ("https", 443) } else { ("http", 80) };
    assert_eq!(whole, format!("{scheme}://{}{}", url.host_header(), url.path_and_query()));
    assert!(url.path_and_query().starts_with('/'));
    let host = url.host_port();
    let read = [url.host_header().to_owned(), format!("{}:{port}", url.host_header())];
    let read = if host.port() == port { &read[1] } else { &read[0] };
    assert_eq!(HostPort::parse(read).as_ref(), Ok(&host), "the header names another host");
    let other = url::Url::parse(whole).expect("a URL");
    assert!(other.username().is_empty() && other.password().is_none(), "credentials are left");
    assert_eq!(other.as_str(), whole, "two readers disagree");
}

/// The named secret of the `secrets` target.
const VALUE: &[u8] = b"open sesame 42";

static FINDER: LazyLock<Finder> = LazyLock::new(|| {
    let named = Named::new("door", Zeroizing::new(VALUE.to_vec())).expect("a secret");
    let pattern = Pattern::new("token", "tok_[a-z0-9]{8}").expect("a pattern");
    Finder::new(Zeroizing::new(vec![7; 32]), vec![named], vec![pattern]).expect("a finder")
});

/// Secrets in a text. The value is gone after replacement, also once JSON is decoded; a second
/// pass finds nothing; JSON stays JSON, and UTF-8 stays UTF-8.
pub fn secrets(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    let is_cut = *first == b'c';
    let mut found = SecretCounts::default();
    let replaced = FINDER.replaced(text, is_cut, &mut found);
    assert_eq!(replaced.is_some(), !found.is_none(), "replaced and not counted, or the reverse");
    let told = replaced.as_deref().unwrap_or(text);
    assert!(!told.windows(VALUE.len()).any(|window| window == VALUE), "the value is left");
    let mut again = SecretCounts::default();
    assert_eq!(FINDER.replaced(told, is_cut, &mut again), None, "a second pass finds more");
    assert!(std::str::from_utf8(text).is_err() || std::str::from_utf8(told).is_ok(), "no UTF-8 any more");
    if let Ok(Value::Object(_) | Value::Array(_)) = serde_json::from_slice::<Value>(text) {
        let told: Result<Value, _> = serde_json::from_slice(told);
        assert!(told.is_ok_and(|told| !holds_value(&told)), "no JSON any more, or the value once it is read");
    }
}

fn holds_value(value: &Value) -> bool {
    match value {
        Value::String(text) => text.as_bytes().windows(VALUE.len()).any(|window| window == VALUE),
        Value::Array(items) => items.iter().any(holds_value),
        Value::Object(members) => members.values().any(holds_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
