//! Reads a JSON body within its limits of type, size, time and form.

use super::bounds::Bounds;
use super::problem::{Code, Problem};
use crate::types::json::parse_strict;
use crate::types::{limits, text};
use axum::body::{Body, HttpBody as _};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http_body_util::BodyExt as _;
use serde_json::Value;

/// Reads a body as one JSON value. It must be valid UTF-8, without duplicate keys or deep nesting.
pub(super) async fn read_json(headers: &HeaderMap, body: Body, bounds: &Bounds) -> Result<Value, Problem> {
    check_type(headers)?;
    let whole = tokio::time::timeout(bounds.body_read_max, collect(headers, body, bounds.request_bytes_max));
    let late = |_| Problem::new(Code::TimedOut, "the body did not arrive in time");
    let bytes = whole.await.map_err(late)??;
    parse_strict(&bytes, limits::JSON_DEPTH_MAX).map_err(|e| {
        let what = text::visible_line(text::prefix(&e.to_string(), limits::SHOWN_BYTES_MAX));
        Problem::new(Code::Malformed, format!("the body is not valid JSON for this server: {what}"))
    })
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(Code::WrongType, "send `Content-Type: application/json`"));
    }
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(Problem::new(Code::WrongType, "send the body without `Content-Encoding`"));
    }
    Ok(())
}

async fn collect(headers: &HeaderMap, mut body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::new(Code::TooLarge, format!("the body is longer than {bytes_max} bytes"));
    let announced = body.size_hint().lower();
    let is_over = announced > bytes_max as u64;
    if is_over && headers.contains_key(EXPECT) {
        // The client waits for `100 Continue` before it sends the body.
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(announced).unwrap_or(0).min(bytes_max));
    let mut received = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(Code::Malformed, "the body is incomplete"))?;
        let Some(data) = frame.data_ref() else { continue };
        received = received.saturating_add(data.len());
        if received <= bytes_max && !is_over {
            bytes.extend_from_slice(data);
        } else if received > limits::DISCARD_BYTES_MAX {
            break;
        }
    }
    if is_over || received > bytes_max { Err(too_large()) } else { Ok(bytes) }
}
