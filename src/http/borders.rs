//! Laws of the body of `POST /agent/run`, see [`crate::borders`].

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a law that does not hold ends the target"
)]

use super::api::runs::fit;
use super::body::read_json;
use super::bounds::Bounds;
use super::problem::Problem;
use crate::borders::refuses_visibly;
use crate::types::json::parse_strict;
use crate::types::limits;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Response};
use hyper::body::Frame;
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
}

/// A body that arrives in pieces.
struct PieceBody(VecDeque<Bytes>);

impl HttpBody for PieceBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

/// The body of a request for a run. Whole or in pieces it reads as strict JSON does, one byte over
/// the limit is refused, the request has the values of the body, and errors are visible and
/// bounded.
pub fn run_request(bytes: &[u8]) {
    let whole = body(Body::from(bytes.to_vec()), bytes.len());
    let pieces = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
    let pieced = body(Body::new(PieceBody(pieces)), bytes.len());
    let strict = parse_strict(bytes, limits::JSON_DEPTH_MAX);
    if let Some(last) = bytes.len().checked_sub(1) {
        assert!(body(Body::from(bytes.to_vec()), last).is_err(), "longer than the limit");
        let pieces = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
        assert!(body(Body::new(PieceBody(pieces)), last).is_err(), "longer than the limit, in pieces");
    }
    let asked = match (whole, pieced, strict) {
        (Ok(whole), Ok(pieced), Ok(strict)) => {
            assert_eq!((&whole, &pieced), (&strict, &strict));
            whole
        }
        (Err(why), Err(_), Err(_)) => return refused(&why),
        (whole, pieced, strict) => panic!("{whole:?}, {pieced:?} and {strict:?}"),
    };
    let request = match fit(asked.clone()) {
        Ok(request) => request,
        Err(why) => return refused(&why),
    };
    assert_eq!(asked["message"], request.message.as_str());
    assert!(!request.message.trim().is_empty() && !request.message.contains('\0'));
    assert_eq!(asked.get("session").and_then(Value::as_str), request.session.as_deref());
    assert_eq!(asked.get("agent").and_then(Value::as_str), request.agent.as_deref());
    for (name, flag) in
        [("dry_run", request.dry_run), ("background", request.background), ("untrusted", request.untrusted)]
    {
        assert_eq!(asked.get(name).and_then(Value::as_bool).unwrap_or_default(), flag, "{name}");
    }
    let calls_max = asked.pointer("/limits/calls_max").and_then(Value::as_u64);
    assert_eq!(calls_max, request.limits.calls_max.map(u64::from));
}

fn body(body: Body, request_bytes_max: usize) -> Result<Value, Problem> {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let bounds = Bounds { request_bytes_max, ..Bounds::default() };
    RUNTIME.with(|runtime| runtime.block_on(read_json(&headers, body, &bounds)))
}

fn refused(why: &Problem) {
    let (status, _, detail) = why.words();
    assert!(status.is_client_error(), "{status}");
    refuses_visibly(detail);
    // One byte takes at most ten bytes in its visible form.
    assert!(detail.len() <= 12 * limits::SHOWN_BYTES_MAX, "{} bytes", detail.len());
    let mut response = Response::new(Body::empty());
    why.clone().fill(&mut response, "req");
    assert_eq!(response.status(), status);
}
