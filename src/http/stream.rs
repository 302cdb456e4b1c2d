//! Server-sent events (WHATWG HTML, 9.2), the base of every stream. Streams are limited in number,
//! in total and for each key; they send periodic comments and end when the reader loses access.

use super::app::App;
use super::problem::{Code, Problem};
use crate::types::{Full, Share, Shares, clock, limits};
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse as _, Response};
use http_body_util::channel::{Channel, Sender};
use std::convert::Infallible;
use std::time::Duration;

/// Interval between two comments that keep the connection open, in microseconds.
const HEARTBEAT_US: u64 = 15_000_000;
/// Interval between two checks of the reader's access, in microseconds.
const STANDING_US: u64 = 1_000_000;

type Out = Sender<Bytes, Infallible>;

/// Slots for streams of all kinds: at most [`limits::TAILS_MAX`] at once, [`limits::KEY_TAILS_MAX`]
/// of one key. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Streams(Shares);

impl Default for Streams {
    fn default() -> Self {
        Self(Shares::new(limits::TAILS_MAX, limits::KEY_TAILS_MAX))
    }
}

/// A source of events.
pub(super) trait Events: Send + 'static {
    /// Returns the events since the last call, or `None` if there can be no more.
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;

    /// Whether the reader still has access.
    fn has_access(&self) -> impl Future<Output = bool> + Send;

    /// Waits until there may be more events, after `next` had none.
    fn wait(&mut self) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(Duration::from_millis(limits::TAIL_MS))
    }

    /// Whether a server that stops waits for the end of the stream.
    fn outlasts_stop(&self) -> bool {
        false
    }
}

impl Streams {
    /// Responds to `reader` with a body that ends when the reader is gone or loses access, or when
    /// the server stops.
    pub(super) fn answer(&self, app: App, reader: &str, events: impl Events) -> Result<Response, Problem> {
        Ok(self.take(reader)?.answer(app, events))
    }

    /// A slot for a stream to `reader`.
    pub(super) fn take(&self, reader: &str) -> Result<StreamSlot, Problem> {
        let place = self.0.try_take(reader).map_err(|full| {
            let what = match full {
                Full::All => "too many live streams are open",
                Full::Share => "this key already has the largest number of live streams",
            };
            Problem::new(Code::TooMany, what).retry_after(30)
        })?;
        Ok(StreamSlot(place))
    }
}

/// A slot for one stream.
#[derive(Debug)]
pub(super) struct StreamSlot(#[expect(dead_code, reason = "held until it is dropped")] Share);

impl StreamSlot {
    /// Responds as [`Streams::answer`] does.
    pub(super) fn answer(self, app: App, events: impl Events) -> Response {
        let (out, body) = Channel::new(8);
        tokio::spawn(async move {
            send_events(app, events, out).await;
            drop(self);
        });
        let kept =
            [(CONTENT_TYPE, "text/event-stream"), (HeaderName::from_static("x-accel-buffering"), "no")];
        (kept, Body::new(body)).into_response()
    }
}

async fn send_events(app: App, mut events: impl Events, mut out: Out) {
    let mut spoken_us = clock::mono_us();
    let mut stood_us = spoken_us;
    if send(&mut out, "retry: 2000\n\n".to_owned()).await.is_none() {
        return;
    }
    while events.outlasts_stop() || app.ready.obstacle() != Some("stopping") {
        let now = clock::mono_us();
        if now.saturating_sub(stood_us) >= STANDING_US {
            if !events.has_access().await {
                return;
            }
            stood_us = now;
        }
        let text = match events.next().await {
            Some(text) if !text.is_empty() => text,
            Some(_) if now.saturating_sub(spoken_us) >= HEARTBEAT_US => ":\n\n".to_owned(),
            Some(_) => {
                events.wait().await;
                continue;
            }
            None => return,
        };
        spoken_us = now;
        if send(&mut out, text).await.is_none() {
            return;
        }
    }
}

async fn send(out: &mut Out, text: String) -> Option<()> {
    out.send_data(Bytes::from(text)).await.ok()
}
