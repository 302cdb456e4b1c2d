//! Wraps every request: its id, the check of its host, a separate task, the common headers.
//!
//! The separate task has two reasons: a panic in a handler becomes a 500 and ends nothing else, and
//! a client that goes away does not stop a run half way.

use super::app::App;
use super::connections::{self, Mark};
use super::problem::{Code, Problem};
use crate::auth::Principal;
use crate::types::RequestId;
use axum::Router;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HOST, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Request, Response};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Instant;
use tokio::sync::mpsc;
use tower::ServiceExt as _;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a client's own request id, in characters.
const REQUEST_ID_CHARS_MAX: usize = 64;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// The address of the client.
    pub(super) peer: IpAddr,
    /// The local address that the client connected to.
    pub(super) local: IpAddr,
}

/// Where a request came from.
#[derive(Clone, Debug)]
pub(super) enum RequestOrigin {
    /// The network: the two ends of the connection, and its mark.
    Network(Ends, Mark),
    /// `par.sock`: the user at the other end; `None` if no entry names the user.
    Host(Option<SocketPeer>),
}

/// The peer of `par.sock`, as the kernel reports it. Its powers have not been checked.
#[derive(Clone, Debug)]
pub(super) struct SocketPeer(pub(super) Principal);

impl RequestOrigin {
    fn shown(&self) -> String {
        match self {
            Self::Network(ends, _) => ends.peer.to_string(),
            Self::Host(Some(SocketPeer(principal))) => principal.id(),
            Self::Host(None) => "unknown".to_owned(),
        }
    }
}

/// Held by everything that must end before the server has stopped.
pub(super) type Alive = mpsc::Sender<Infallible>;

/// Keeps the server from stopping, for what a handler starts and does not wait for.
#[derive(Clone, Debug)]
pub(super) struct KeptAlive(#[expect(dead_code, reason = "held until it is dropped")] Alive);

/// The id of a request, for its handlers.
#[derive(Clone, Debug)]
pub(super) struct Id(pub(super) String);

/// Marks an error response whose body is sent unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsIs;

/// Marks a response that goes on while its request is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsStream;

/// Answers one request. `alive` is held until the handler has ended, whether or not the client
/// waits.
pub(super) async fn answer(
    app: App,
    routes: Router,
    origin: RequestOrigin,
    request: Request<Incoming>,
    alive: Alive,
) -> Result<Response<Body>, Infallible> {
    let started = Instant::now();
    let id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answered = app.answered.clone();
    let mut request = request;
    request.extensions_mut().insert(Id(id.clone()));
    request.extensions_mut().insert(KeptAlive(alive.clone()));
    let from = origin.clone();
    let handler = tokio::spawn(async move {
        let response = handle(&app, routes, from, request).await;
        drop(alive);
        response
    });
    let mut response = handler.await.unwrap_or_else(|e| Problem::internal(e).into_response());
    finish(&mut response, &id);
    let response = match &origin {
        RequestOrigin::Network(_, mark) => response.map(|body| mark.answered(body)),
        RequestOrigin::Host(_) => response,
    };
    // The time to the first event of a stream says nothing about the run.
    let is_run = path == "/agent/run" && response.extensions().get::<IsStream>().is_none();
    answered.count(response.status(), is_run, started.elapsed());
    // Probes arrive all the time.
    if path == "/livez" || path == "/readyz" {
        tracing::debug!(request = %id, status = response.status().as_u16(), "probed");
        return Ok(response);
    }
    tracing::info!(
        request = %id, peer = %origin.shown(), %method, path = %crate::types::text::visible_line(&path),
        status = response.status().as_u16(), ms = started.elapsed().as_millis(), "answered"
    );
    Ok(response)
}

async fn handle(
    app: &App,
    routes: Router,
    origin: RequestOrigin,
    request: Request<Incoming>,
) -> Response<Body> {
    let request = match origin {
        RequestOrigin::Network(ends, mark) => {
            if let Err(problem) = check_host(app, ends, &request) {
                return problem.into_response();
            }
            let mut request = request;
            request.extensions_mut().insert(ends);
            request.extensions_mut().insert(mark.clone());
            request.map(|body| connections::read(body, mark))
        }
        // No page of a browser can reach this socket, so its `Host` says nothing.
        RequestOrigin::Host(user) => {
            let mut request = request.map(Body::new);
            if let Some(user) = user {
                request.extensions_mut().insert(user);
            }
            request
        }
    };
    // A router answers every request: its error type has no values.
    match routes.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Refuses requests for a host name that is not this server's. This stops DNS rebinding, in which a
/// page in a browser resolves its own name to this address.
fn check_host(app: &App, ends: Ends, request: &Request<Incoming>) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Problem::new(Code::Malformed, "exactly one `Host` header is required"));
    };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let host = host.ok_or_else(|| Problem::new(Code::Malformed, "the `Host` header is malformed"))?;
    let is_known = is_known_host(app, ends, &host)
        && request.uri().authority().is_none_or(|target| is_known_host(app, ends, target));
    let unknown = || Problem::new(Code::UnknownHost, "add the host to `server.hosts`, or use its address");
    is_known.then_some(()).ok_or_else(unknown)
}

fn is_known_host(app: &App, ends: Ends, authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    match address {
        Some(address) => address.is_loopback() || address == ends.local,
        None => {
            host.eq_ignore_ascii_case("localhost")
                || app.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
        }
    }
}

/// The client's own id if it is short and plain, otherwise a new one.
fn request_id(headers: &HeaderMap) -> String {
    let is_plain = |id: &&str| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let own = headers.get(X_REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_plain);
    own.map_or_else(|| RequestId::generate().to_string(), ToOwned::to_owned)
}

fn finish(response: &mut Response<Body>, id: &str) {
    let problem = response.extensions_mut().remove::<Problem>();
    let is_bare = || response.extensions().get::<AsIs>().is_none();
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if let Some(problem) = problem.or_else(|| (is_error && is_bare()).then(|| Problem::from_status(status))) {
        problem.fill(response, id);
    }
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Only responses without private data set something else: stylesheet and script.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(X_REQUEST_ID, id);
    }
}
