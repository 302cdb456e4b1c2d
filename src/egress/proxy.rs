//! The CONNECT proxy of one call (RFC 9110 section 9.3.6): the only way out of its network
//! namespace.

use super::connect::{self, ConnectError, Connected};
use crate::call::{Connection, Connections};
use crate::types::{HostPort, limits, text};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Delay before accepting again after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes copied at a time.
const PIECE_BYTES: usize = 16 << 10;
/// A refused client's input is read and discarded up to this many bytes, so that it receives the
/// answer.
const DISCARD_BYTES_MAX: u64 = 64 << 10;

/// What a call may connect to.
#[derive(Clone, Debug)]
pub struct ProxyRules {
    /// The hosts and ports that its permit lists.
    pub hosts: Vec<HostPort>,
    /// The non-public address ranges that its manifest names.
    pub named: Vec<IpNet>,
    /// Bytes over all connections and both directions.
    pub bytes_max: u64,
    /// Concurrent connections; a further one waits in the kernel's queue.
    pub connections_max: usize,
}

/// Makes a connection durable before its first byte passes.
pub trait Record: Send + Sync + 'static {
    /// Why a connection could not be recorded.
    type Error: std::error::Error + Send;

    /// Resolves once the ledger has it that `to` is about to be connected to at `address`. If a
    /// host has several addresses, each is recorded before it is tried.
    fn record(
        &self,
        to: &HostPort,
        address: SocketAddr,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Runs the proxy of one call on `listener`, which is in the call's network namespace, until `stop`
/// resolves.
///
/// Every connection is then closed. Dropping the future closes them too. An idle connection has no
/// timeout: the call has a deadline.
pub async fn serve(
    listener: TcpListener,
    allowed: ProxyRules,
    record: impl Record,
    stop: impl Future<Output = ()> + Send,
) -> Connections {
    let head_max = Duration::from_millis(limits::PROXY_HEAD_MS_MAX);
    attend_all(listener, ProxiedCall { allowed, record, head_max, book: Mutex::default() }, stop).await
}

async fn attend_all<R: Record>(
    listener: TcpListener,
    call: ProxiedCall<R>,
    stop: impl Future<Output = ()> + Send,
) -> Connections {
    let connections_max = call.allowed.connections_max.max(1);
    let call = Arc::new(call);
    let mut open = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = stop.as_mut() => break,
            Some(_) = open.join_next() => {}
            accepted = listener.accept(), if open.len() < connections_max => match accepted {
                Ok((stream, _)) => drop(open.spawn(proxy(call.clone(), stream))),
                Err(e) => {
                    tracing::warn!(error = %e, "cannot accept a connection to a call's proxy");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    open.shutdown().await;
    std::mem::take(&mut call.book().all)
}

struct ProxiedCall<R> {
    allowed: ProxyRules,
    record: R,
    /// Time for a head to arrive, and for its refusal to be read, each.
    head_max: Duration,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    all: Connections,
    /// Connections to allowed hosts that were requested, established or not.
    asked: usize,
}

/// Index of a connection in the report; `None` if the report is full.
type Place = Option<usize>;

/// The head of one request, as it was sent.
struct ConnectHead {
    method: String,
    target: String,
    /// Bytes that arrived after the head: they are forwarded once the connection is established.
    rest: Vec<u8>,
}

/// An answer without a connection: the status line's code and reason, and one line of text.
struct ProxyRefusal(&'static str, String);

const BAD_REQUEST: &str = "400 Bad Request";
const FORBIDDEN: &str = "403 Forbidden";
const METHOD_NOT_ALLOWED: &str = "405 Method Not Allowed";
const BAD_GATEWAY: &str = "502 Bad Gateway";
const UNAVAILABLE: &str = "503 Service Unavailable";
const GATEWAY_TIMEOUT: &str = "504 Gateway Timeout";

async fn proxy<R: Record>(call: Arc<ProxiedCall<R>>, mut client: TcpStream) {
    let late =
        || ProxyRefusal(BAD_REQUEST, format!("no complete head within {} ms", call.head_max.as_millis()));
    let head = timeout(call.head_max, read_head(&mut client)).await.unwrap_or_else(|_| Err(late()));
    let to = head.as_ref().map(ConnectHead::shown).unwrap_or_default();
    let place = call.begin(to);
    let opened = match head {
        Ok(head) => call.open(&head, place).await.map(|server| (server, head.rest)),
        Err(refusal) => Err(refusal),
    };
    match opened {
        Ok((server, rest)) => call.pass(place, client, server, &rest).await,
        Err(refusal) => {
            call.note(place, |connection| connection.refused = Some(refusal.1.clone()));
            // A client that does not read the answer in time does without it.
            drop(timeout(call.head_max, refuse(client, &refusal)).await);
        }
    }
}

async fn read_head(client: &mut TcpStream) -> Result<ConnectHead, ProxyRefusal> {
    let bad = |why: String| ProxyRefusal(BAD_REQUEST, why);
    let mut bytes = Vec::with_capacity(limits::PROXY_HEAD_BYTES_MAX);
    loop {
        let room = limits::PROXY_HEAD_BYTES_MAX.saturating_sub(bytes.len());
        if room == 0 {
            return Err(bad(format!("the head is over {} bytes", limits::PROXY_HEAD_BYTES_MAX)));
        }
        let read = client.take(room as u64).read_buf(&mut bytes).await;
        if read.map_err(|e| bad(format!("the head could not be read: {e}")))? == 0 {
            return Err(bad("the connection ended before a complete head".to_owned()));
        }
        if let Some(head) =
            ConnectHead::parse(&bytes).map_err(|why| bad(format!("not a valid HTTP request: {why}")))?
        {
            return Ok(head);
        }
    }
}

impl ConnectHead {
    /// The head, if `bytes` contain all of it.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; limits::PROXY_HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = request.parse(bytes)? else { return Ok(None) };
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let rest = bytes.get(length..).unwrap_or_default().to_vec();
        Ok(Some(Self { method: owned(request.method), target: owned(request.path), rest }))
    }

    fn read(&self) -> Result<HostPort, ProxyRefusal> {
        if self.method != "CONNECT" {
            return Err(ProxyRefusal(METHOD_NOT_ALLOWED, "unsupported method, expected CONNECT".to_owned()));
        }
        HostPort::parse(&self.target).map_err(|why| {
            ProxyRefusal(BAD_REQUEST, format!("invalid target, expected a host and a port: it {why}"))
        })
    }

    fn shown(&self) -> String {
        match self.read() {
            Ok(to) => to.to_string(),
            Err(_) => text::visible_line(text::prefix(&self.target, limits::SHOWN_BYTES_MAX)),
        }
    }
}

impl<R: Record> ProxiedCall<R> {
    /// Checks, resolves, records and connects, in that order.
    async fn open(&self, head: &ConnectHead, place: Place) -> Result<Connected, ProxyRefusal> {
        let to = head.read()?;
        self.admit(&to)?;
        let deadline = Duration::from_millis(limits::CONNECT_MS_MAX);
        let checked = connect::resolve(&to, &self.allowed.named, deadline).await?;
        let part = deadline / u32::try_from(checked.addresses().len()).unwrap_or(u32::MAX).max(1);
        let mut last = ConnectError::Timeout;
        for (address, one) in checked.addresses().iter().zip(checked.each()) {
            let recorded = self.record.record(&to, *address).await;
            recorded
                .map_err(|why| ProxyRefusal(UNAVAILABLE, format!("cannot record the connection: {why}")))?;
            // From here on the ledger says that this address is about to be connected to.
            match one.connect(part).await {
                Ok(connected) => {
                    self.note(place, |connection| connection.address = Some(*address));
                    return Ok(connected);
                }
                Err(e) => last = e,
            }
        }
        Err(last.into())
    }

    fn admit(&self, to: &HostPort) -> Result<(), ProxyRefusal> {
        let refuse = |why| Err(ProxyRefusal(FORBIDDEN, why));
        if !self.allowed.hosts.contains(to) {
            return refuse(format!("`{to}` is not a host and port that this call may reach"));
        }
        let mut book = self.book();
        if book.all.bytes >= self.allowed.bytes_max {
            return refuse(self.over());
        }
        if book.asked >= limits::PROXY_ASKED_MAX {
            return refuse(format!("over {} connections of one call", limits::PROXY_ASKED_MAX));
        }
        book.asked += 1;
        Ok(())
    }

    /// Copies in both directions until both have ended or one fails. The end of one direction is
    /// passed on alone.
    async fn pass(&self, place: Place, mut client: TcpStream, server: Connected, rest: &[u8]) {
        let mut server = server.stream;
        if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_err() {
            return;
        }
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = self.copy(rest.chain(from_client), to_server, place, |connection| &mut connection.sent);
        let down = self.copy(from_server, to_client, place, |connection| &mut connection.received);
        if let Err(Broken::Cut) = tokio::try_join!(up, down) {
            self.note(place, |connection| connection.refused = Some(format!("cut: {}", self.over())));
        }
    }

    async fn copy(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        place: Place,
        count: fn(&mut Connection) -> &mut u64,
    ) -> Result<(), Broken> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = from.read(&mut piece).await?;
            if read == 0 {
                return Ok(to.shutdown().await?);
            }
            let granted = self.grant(read);
            self.note(place, |connection| *count(connection) += granted as u64);
            to.write_all(piece.get(..granted).unwrap_or_default()).await?;
            if granted < read {
                return Err(Broken::Cut);
            }
        }
    }

    /// How many of `bytes` may still pass. Counts them as passed.
    fn grant(&self, bytes: usize) -> usize {
        let mut book = self.book();
        let left = self.allowed.bytes_max.saturating_sub(book.all.bytes);
        let granted = bytes.min(usize::try_from(left).unwrap_or(usize::MAX));
        book.all.bytes += granted as u64;
        granted
    }

    fn over(&self) -> String {
        format!("over the {} bytes that this call may send and receive", self.allowed.bytes_max)
    }

    fn begin(&self, to: String) -> Place {
        let all = &mut self.book().all;
        if all.told.len() >= limits::PROXY_LISTED_MAX {
            all.more += 1;
            return None;
        }
        all.told.push(Connection { to, ..Connection::default() });
        Some(all.told.len() - 1)
    }

    fn note(&self, place: Place, change: impl FnOnce(&mut Connection)) {
        let told = &mut self.book().all.told;
        if let Some(connection) = place.and_then(|place| told.get_mut(place)) {
            change(connection);
        }
    }

    /// A panic elsewhere leaves the book consistent: each change is one addition.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why copying ended early.
enum Broken {
    /// The call's bytes are used up.
    Cut,
    /// One side disconnected.
    Lost,
}

impl From<std::io::Error> for Broken {
    fn from(_: std::io::Error) -> Self {
        Self::Lost
    }
}

impl From<ConnectError> for ProxyRefusal {
    fn from(error: ConnectError) -> Self {
        let status = match error {
            ConnectError::Forbidden(_) => FORBIDDEN,
            ConnectError::Resolve(_) | ConnectError::Closed(_) | ConnectError::Connect(_) => BAD_GATEWAY,
            ConnectError::Timeout => GATEWAY_TIMEOUT,
        };
        Self(status, error.to_string())
    }
}

async fn refuse(mut client: TcpStream, ProxyRefusal(status, why): &ProxyRefusal) -> std::io::Result<()> {
    let allow = if *status == METHOD_NOT_ALLOWED { "Allow: CONNECT\r\n" } else { "" };
    let length = why.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         {allow}Connection: close\r\n\r\n{why}\n"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await?;
    // Closing with unread bytes would send a reset, and the client would lose the answer.
    tokio::io::copy(&mut client.take(DISCARD_BYTES_MAX), &mut tokio::io::sink()).await.map(drop)
}

#[cfg(any(test, fuzzing))]
pub(crate) mod borders;
#[cfg(test)]
mod tests;
