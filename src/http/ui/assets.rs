//! Stylesheet and script, embedded in the binary, with an `ETag` (RFC 9110, 8.8.3).

use crate::types::Digest;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use std::sync::OnceLock;

const STYLE: &str = include_str!("par.css");
const SCRIPT: &str = include_str!("par.js");

pub(super) async fn style(headers: HeaderMap) -> Response {
    static TAG: OnceLock<String> = OnceLock::new();
    send(&headers, TAG.get_or_init(|| tag(STYLE)), "text/css; charset=utf-8", STYLE)
}

pub(super) async fn script(headers: HeaderMap) -> Response {
    static TAG: OnceLock<String> = OnceLock::new();
    send(&headers, TAG.get_or_init(|| tag(SCRIPT)), "text/javascript; charset=utf-8", SCRIPT)
}

fn tag(text: &str) -> String {
    format!("\"{}\"", Digest::sha256(text.as_bytes()).hex())
}

/// Sends an asset once. Browsers revalidate it each time, and another version of PAR has another
/// tag.
fn send(headers: &HeaderMap, tag: &'static str, kind: &'static str, text: &'static str) -> Response {
    let known: [(HeaderName, &str); 3] = [(CACHE_CONTROL, "no-cache"), (ETAG, tag), (CONTENT_TYPE, kind)];
    let asked = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
    if asked.split(',').any(|one| one.trim().trim_start_matches("W/") == tag) {
        return (StatusCode::NOT_MODIFIED, known).into_response();
    }
    (known, text).into_response()
}
