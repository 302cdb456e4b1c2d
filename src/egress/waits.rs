//! Deadlines of one exchange: the head of the answer, and each piece of it.

use super::error::{EgressError, Wait};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The body of a request, which says when it begins to be sent: from then on there is a connection.
struct WatchedBody {
    left: Option<Bytes>,
    begins: Option<oneshot::Sender<()>>,
}

/// `body`, and what resolves once it begins to be sent.
pub(super) fn watched(body: Vec<u8>) -> (reqwest::Body, oneshot::Receiver<()>) {
    let (begins, begun) = oneshot::channel();
    (reqwest::Body::wrap(WatchedBody { left: Some(body.into()), begins: Some(begins) }), begun)
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(begins) = self.begins.take() {
            // Without a receiver, the request was given up.
            let _given_up = begins.send(());
        }
        Poll::Ready(self.left.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// The head of an answer that `sent` waits for, within `first_byte` of the moment that `begun`
/// resolves.
pub(super) async fn head(
    sent: impl Future<Output = Result<reqwest::Response, reqwest::Error>>,
    begun: oneshot::Receiver<()>,
    first_byte: Duration,
) -> Result<reqwest::Response, EgressError> {
    let mut sent = std::pin::pin!(sent);
    let answer = tokio::select! {
        biased;
        answer = sent.as_mut() => answer,
        // Dropped unsent: there is no connection, and `sent` says why.
        _ = begun => match timeout(first_byte, sent).await {
            Ok(answer) => answer,
            Err(_) => return Err(EgressError::Late(Wait::FirstByte)),
        },
    };
    answer.map_err(EgressError::sort)
}

/// The next piece of a body, within `idle` if there is such a bound.
pub(super) async fn piece(
    answer: &mut reqwest::Response,
    idle: Option<Duration>,
) -> Result<Option<Bytes>, EgressError> {
    let next = answer.chunk();
    let piece = match idle {
        Some(idle) => timeout(idle, next).await.map_err(|_| EgressError::Late(Wait::Idle))?,
        None => next.await,
    };
    piece.map_err(EgressError::sort)
}
