//! The accept loop: bounded connections, bounded headers, an orderly stop. `connections` chooses
//! the connection to close when there are too many.

use super::app::App;
use super::bounds::Bounds;
use super::connections::{ConnectionSlots, HeldSlot};
use super::middleware::{self, Alive, Ends, RequestOrigin};
use super::routes::routes;
use crate::types::limits;
use axum::Router;
use axum::http::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// hyper's smallest read buffer, in bytes.
const READ_BUFFER_MIN: usize = 8_192;
/// Delay after a failed accept (out of descriptors).
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is ready. Then accepts no more connections, lets open requests finish
/// for at most `stop_max`, and returns. It also waits for runs whose client is gone.
///
/// While this runs, refused keys are recorded on the ledger at intervals and at the end.
pub async fn serve(
    listener: std::net::TcpListener,
    app: App,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_routes(listener, routes(app.clone()), app, shutdown).await
}

pub(super) async fn serve_routes(
    listener: std::net::TcpListener,
    routes: Router,
    app: App,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (stop, stopping) = watch::channel(false);
    let (alive, mut all_ended) = mpsc::channel(1);
    let authority = app.authority.clone();
    let warming = authority.clone();
    let _warm = tokio::task::spawn_blocking(move || warming.warm());
    let (recorder, stopped) = (authority.clone(), stopping.clone());
    let recording = tokio::spawn(async move { recorder.record_refusals(raised(stopped)).await });
    app.ready.begin();
    tokio::select! {
        () = shutdown => {}
        () = accept(&listener, &app, &routes, &stopping, alive) => {}
    }
    app.ready.set(Some("stopping"));
    drop(listener);
    // The receivers are gone only if every connection is.
    let _ = stop.send(true);
    if tokio::time::timeout(app.bounds.stop_max, all_ended.recv()).await.is_err() {
        tracing::warn!("stopped with requests still open: the time for stopping is over");
    }
    drop(recording.await);
    authority.flush().await;
    Ok(())
}

/// Accepts connections forever. One beyond the limit closes one that waits for its client.
async fn accept(
    listener: &TcpListener,
    app: &App,
    routes: &Router,
    stopping: &watch::Receiver<bool>,
    alive: Alive,
) {
    let slots = ConnectionSlots::new(app.bounds.connections_max);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(ends) = prepare(&stream) else { continue };
                let held = slots.take(ends.peer).await;
                let open = OpenConnection { stream, ends, held };
                tokio::spawn(connection(open, app.clone(), routes.clone(), stopping.clone(), alive.clone()));
            }
            Err(e) => {
                tracing::warn!(error = %e, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection that has a slot.
struct OpenConnection {
    stream: TcpStream,
    ends: Ends,
    held: HeldSlot,
}

async fn connection(
    open: OpenConnection,
    app: App,
    routes: Router,
    stopping: watch::Receiver<bool>,
    alive: Alive,
) {
    let OpenConnection { stream, ends, held } = open;
    let http = builder(&app.bounds);
    let service = service_fn(|request: Request<Incoming>| {
        let mark = held.asked(request.body().is_end_stream());
        let origin = RequestOrigin::Network(ends, mark);
        middleware::answer(app.clone(), routes.clone(), origin, request, alive.clone())
    });
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = held.ends() => {
            app.answered.gave_way();
            tracing::debug!(peer = %ends.peer, "an idle connection was closed to make room for a newer one");
            return;
        }
        () = raised(stopping) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(e) = outcome {
        tracing::debug!(error = %e, peer = %ends.peer, "a connection ended early");
    }
}

/// The kernel closes a connection whose client reads nothing of the response (`TCP_USER_TIMEOUT`,
/// tcp(7)).
fn prepare(stream: &TcpStream) -> io::Result<Ends> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_tcp_user_timeout(stream, limits::TAKE_MS_MAX)?;
    Ok(Ends {
        peer: stream.peer_addr()?.ip().to_canonical(),
        local: stream.local_addr()?.ip().to_canonical(),
    })
}

pub(super) fn builder(bounds: &Bounds) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(bounds.header_read_max)
        .max_header_size(bounds.header_bytes_max)
        .max_buf_size(bounds.header_bytes_max.max(READ_BUFFER_MIN));
    http
}

pub(super) async fn raised(mut flag: watch::Receiver<bool>) {
    // An error means that the sender is gone, which stops the server too.
    drop(flag.wait_for(|is_raised| *is_raised).await);
}
