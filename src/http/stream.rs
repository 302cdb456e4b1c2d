//! Server-sent events (WHATWG HTML, 9.2), which every stream is made of: a bounded number at once, of which a key has
//! its share, a comment now and then, and an end where who reads is not let in any more.

use super::app::App;
use super::problem::{Code, Problem};
use crate::types::{Full, Shares, clock, limits};
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse as _, Response};
use http_body_util::channel::{Channel, Sender};
use std::convert::Infallible;
use std::time::Duration;

/// Between two comments that keep the connection open.
const HEARTBEAT_US: u64 = 15_000_000;
/// Between two looks at whether who reads still may.
const STANDING_US: u64 = 2_000_000;

type Out = Sender<Bytes, Infallible>;

/// Streams of all kinds: at most [`limits::TAILS_MAX`] at once, [`limits::KEY_TAILS_MAX`] of one key. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Streams(Shares);

impl Default for Streams {
    fn default() -> Self {
        Self(Shares::new(limits::TAILS_MAX, limits::KEY_TAILS_MAX))
    }
}

/// Where events come from.
pub(super) trait Events: Send + 'static {
    /// The events since the last look; `None` where there can be no more.
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;

    /// Whether who reads still may.
    fn stands(&self) -> impl Future<Output = bool> + Send;
}

impl Streams {
    /// A response for `reader` whose body goes on until that one is gone or may read no more, or the server stops.
    pub(super) fn answer(&self, app: App, reader: &str, events: impl Events) -> Result<Response, Problem> {
        let place = self.0.try_take(reader).map_err(|full| {
            let what = match full {
                Full::All => "too many live tails are open",
                Full::Share => "this key has as many live tails as it may have at once",
            };
            Problem::new(Code::TooMany, what).retry_after(30)
        })?;
        let (out, body) = Channel::new(8);
        tokio::spawn(async move {
            pour(app, events, out).await;
            drop(place);
        });
        let kept =
            [(CONTENT_TYPE, "text/event-stream"), (HeaderName::from_static("x-accel-buffering"), "no")];
        Ok((kept, Body::new(body)).into_response())
    }
}

async fn pour(app: App, mut events: impl Events, mut out: Out) {
    let mut spoken_us = clock::mono_us();
    let mut stood_us = spoken_us;
    if say(&mut out, "retry: 2000\n\n".to_owned()).await.is_none() {
        return;
    }
    while app.ready.obstacle() != Some("stopping") {
        let now = clock::mono_us();
        if now.saturating_sub(stood_us) >= STANDING_US {
            if !events.stands().await {
                return;
            }
            stood_us = now;
        }
        let text = match events.next().await {
            Some(text) if !text.is_empty() => text,
            Some(_) if now.saturating_sub(spoken_us) >= HEARTBEAT_US => ":\n\n".to_owned(),
            Some(_) => {
                tokio::time::sleep(Duration::from_millis(limits::TAIL_MS)).await;
                continue;
            }
            None => return,
        };
        spoken_us = now;
        if say(&mut out, text).await.is_none() {
            return;
        }
    }
}

async fn say(out: &mut Out, text: String) -> Option<()> {
    out.send_data(Bytes::from(text)).await.ok()
}
