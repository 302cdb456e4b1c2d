//! The proxy on real sockets: the test is the tool's client, and the servers are on loopback.

use super::{ProxiedCall, ProxyRules, Record, attend_all};
use crate::call::{Connection, Connections};
use crate::types::{HostPort, limits};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const ESTABLISHED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

/// Keeps the connections that it is asked to record.
#[derive(Clone, Default)]
struct RecordedConnections(Arc<Mutex<Vec<(String, SocketAddr)>>>);

impl Record for RecordedConnections {
    type Error = std::convert::Infallible;

    async fn record(&self, to: &HostPort, address: SocketAddr) -> Result<(), Self::Error> {
        self.0.lock().expect("lock").push((to.to_string(), address));
        Ok(())
    }
}

struct FullDisk;

#[derive(Debug, thiserror::Error)]
#[error("the disk is full")]
struct NoSpace;

impl Record for FullDisk {
    type Error = NoSpace;

    async fn record(&self, _: &HostPort, _: SocketAddr) -> Result<(), NoSpace> {
        Err(NoSpace)
    }
}

struct Proxy {
    at: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Connections>,
}

impl Proxy {
    async fn start(allowed: ProxyRules, record: impl Record) -> Self {
        let (listener, _) = listen().await;
        Self::on(listener, allowed, record, Duration::from_secs(60))
    }

    fn on(listener: TcpListener, allowed: ProxyRules, record: impl Record, head_max: Duration) -> Self {
        let at = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let call = ProxiedCall { allowed, record, head_max, book: Mutex::default() };
        let ended =
            tokio::spawn(async move { attend_all(listener, call, async { drop(stopped.await) }).await });
        Self { at, stop, ended }
    }

    /// Sends `bytes` and returns the connection.
    async fn send(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = connect(self.at).await;
        stream.write_all(bytes.as_ref()).await.expect("sent");
        stream
    }

    /// Sends `bytes` and returns the complete answer.
    async fn ask(&self, bytes: impl AsRef<[u8]>) -> String {
        all(&mut self.send(bytes).await).await
    }

    /// A connection to `to` through the proxy.
    async fn tunnel(&self, to: SocketAddr) -> TcpStream {
        let mut stream = self.send(head(to)).await;
        established(&mut stream).await;
        stream
    }

    async fn end(self) -> Connections {
        self.stop.send(()).expect("it runs");
        self.ended.await.expect("no panic")
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let at = listener.local_addr().expect("an address");
    (listener, at)
}

#[expect(clippy::disallowed_methods, reason = "the tool's side of the proxy")]
async fn connect(to: SocketAddr) -> TcpStream {
    TcpStream::connect(to).await.expect("connected")
}

fn head(to: impl std::fmt::Display) -> String {
    format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n")
}

async fn established(stream: &mut TcpStream) {
    let mut answer = vec![0; ESTABLISHED.len()];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), ESTABLISHED);
}

/// Everything up to the end, with a timeout in case a faulty proxy never ends.
async fn all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("an end").expect("an answer");
    String::from_utf8(answer).expect("text")
}

fn allowed(to: &[SocketAddr]) -> ProxyRules {
    ProxyRules {
        hosts: to.iter().map(|to| HostPort::parse(&to.to_string()).expect("a host")).collect(),
        named: vec!["127.0.0.0/8".parse().expect("a net")],
        bytes_max: limits::PROXY_BYTES_MAX,
        connections_max: limits::PROXY_CONNECTIONS_MAX,
    }
}

fn refused(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{answer}");
    assert!(body.ends_with('\n') && body.lines().count() == 1, "{answer}");
}

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
    let (server, to) = listen().await;
    let kept = RecordedConnections::default();
    let proxy = Proxy::start(allowed(&[to]), kept.clone()).await;
    let mut client = proxy.tunnel(to).await;
    let (mut far, _) = server.accept().await.expect("accepted");
    client.write_all(b"question").await.expect("sent");
    let mut question = [0; 8];
    far.read_exact(&mut question).await.expect("came");
    assert_eq!(&question, b"question");
    far.write_all(b"the answer").await.expect("sent");
    drop(far);
    assert_eq!(all(&mut client).await, "the answer");
    drop(client);
    let told = proxy.end().await;
    let expect = Connection { to: to.to_string(), address: Some(to), refused: None, sent: 8, received: 10 };
    assert_eq!(told, Connections { told: vec![expect], more: 0, bytes: 18 });
    assert_eq!(*kept.0.lock().expect("lock"), [(to.to_string(), to)]);
}

#[tokio::test]
async fn only_an_allowed_host_and_port_is_connected_to() {
    let (server, to) = listen().await;
    let (other, elsewhere) = listen().await;
    let kept = RecordedConnections::default();
    let proxy = Proxy::start(allowed(&[to]), kept.clone()).await;
    let port = to.port();
    let refusals = [
        (elsewhere.to_string(), 403),
        (format!("127.0.0.2:{port}"), 403),
        (format!("127.2:{port}"), 403),
        (format!("localhost:{port}"), 403),
        (format!("127.0.0.1.example:{port}"), 403),
        (format!("[::1]:{port}"), 403),
        ("127.0.0.1".to_owned(), 400),
        (format!("127.0.0.1@{elsewhere}"), 400),
        (format!("127.0.0.1%2eexample:{port}"), 400),
        (format!("http://{to}/"), 400),
        (format!("{to}/"), 400),
        ("*".to_owned(), 400),
        ("/".to_owned(), 400),
    ];
    for (target, status) in &refusals {
        refused(&proxy.ask(head(target)).await, *status);
    }
    let spellings =
        ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]", "127.0.0.1."];
    for host in spellings {
        let mut client = proxy.send(head(format!("{host}:{port}"))).await;
        established(&mut client).await;
        drop(server.accept().await.expect("accepted"));
        assert_eq!(all(&mut client).await, "", "{host}");
    }
    let told = proxy.end().await;
    assert_eq!(told.told.len(), refusals.len() + spellings.len());
    for (connection, (target, _)) in told.told.iter().zip(&refusals) {
        assert!(connection.refused.is_some() && connection.address.is_none(), "{connection:?}");
        assert_eq!(connection.sent + connection.received, 0);
        let shown = HostPort::parse(target).map_or(target.clone(), |to| to.to_string());
        assert_eq!(connection.to, shown);
    }
    for connection in &told.told[refusals.len()..] {
        assert_eq!((&connection.to, connection.address), (&to.to_string(), Some(to)));
    }
    assert_eq!(kept.0.lock().expect("lock").len(), spellings.len(), "a refusal is not recorded");
    let other = other.into_std().expect("a listener");
    assert!(other.accept().is_err(), "no connection arrived");
}

#[tokio::test]
async fn an_allowed_name_with_a_forbidden_address_is_refused() {
    let (server, to) = listen().await;
    let local = format!("localhost:{}", to.port());
    let mut rules = allowed(&[]);
    rules.hosts.push(HostPort::parse(&local).expect("a host"));
    rules.named.clear();
    let kept = RecordedConnections::default();
    let proxy = Proxy::start(rules, kept.clone()).await;
    let answer = proxy.ask(head(local)).await;
    refused(&answer, 403);
    assert!(answer.contains("is loopback"), "{answer}");
    assert!(proxy.end().await.told[0].refused.as_deref().is_some_and(|why| why.contains("is loopback")));
    assert!(kept.0.lock().expect("lock").is_empty());
    assert!(server.into_std().expect("a listener").accept().is_err(), "no connection arrived");
}

#[tokio::test]
async fn only_connect_is_answered() {
    let (_server, to) = listen().await;
    let proxy = Proxy::start(allowed(&[to]), RecordedConnections::default()).await;
    for (request, status) in [
        (format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n"), 405),
        (format!("GET / HTTP/1.1\r\nHost: {to}\r\n\r\n"), 405),
        (format!("POST {to} HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), 405),
        (format!("connect {to} HTTP/1.1\r\n\r\n"), 405),
        (format!("CONNECT {to} HTTP/2.0\r\n\r\n"), 400),
        (format!("CONNECT {to}\r\n\r\n"), 400),
        (format!("CONNECT  {to} HTTP/1.1\r\n\r\n"), 400),
        (format!("CONNECT {to} HTTP/1.1\r\nHost : x\r\n\r\n"), 400),
        (format!("CONNECT {to} HTTP/1.1\r\n folded: x\r\n\r\n"), 400),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}".to_owned(), 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 400),
    ] {
        let answer = proxy.ask(&request).await;
        refused(&answer, status);
        assert_eq!(answer.contains("\r\nAllow: CONNECT\r\n"), status == 405, "{answer}");
    }
    let told = proxy.end().await.told;
    assert!(told.iter().all(|connection| connection.refused.is_some()));
    assert_eq!(told[0].to, format!("http://{to}/"));
}

#[tokio::test]
async fn a_head_is_bounded_in_bytes_headers_and_time() {
    let (_server, to) = listen().await;
    let proxy = Proxy::start(allowed(&[to]), RecordedConnections::default()).await;
    let long = format!("CONNECT {to} HTTP/1.1\r\nX: {}", "x".repeat(limits::PROXY_HEAD_BYTES_MAX));
    let mut client = proxy.send(&long).await;
    refused(&all(&mut client).await, 400);
    // Still no reset, which could make the client lose the answer.
    for _ in 0..8 {
        client.write_all(&[b'x'; 1_024]).await.expect("taken");
    }
    drop(client);
    let many = format!("CONNECT {to} HTTP/1.1\r\n{}\r\n", "a:b\r\n".repeat(limits::PROXY_HEADERS_MAX + 1));
    refused(&proxy.ask(&many).await, 400);
    let as_many = format!("CONNECT {to} HTTP/1.1\r\n{}\r\n", "a:b\r\n".repeat(limits::PROXY_HEADERS_MAX));
    established(&mut proxy.send(&as_many).await).await;
    let mut short = proxy.send(b"CONNECT 127.0").await;
    short.shutdown().await.expect("shut down");
    refused(&all(&mut short).await, 400);
    let told = proxy.end().await.told;
    assert_eq!(told[0].refused.as_deref(), Some("the head is over 8192 bytes"));
    assert_eq!(told[1].refused.as_deref(), Some("not a valid HTTP request: too many headers"));
    assert_eq!(told[2].refused, None);
    assert_eq!(told[3].refused.as_deref(), Some("the connection ended before a complete head"));

    let (listener, _) = listen().await;
    let proxy =
        Proxy::on(listener, allowed(&[to]), RecordedConnections::default(), Duration::from_millis(50));
    for slow in ["", "CONNECT "] {
        let mut client = proxy.send(slow).await;
        refused(&all(&mut client).await, 400);
    }
    let told = proxy.end().await.told;
    assert!(
        told.iter().all(|one| one.refused.as_deref() == Some("no complete head within 50 ms")),
        "{told:?}"
    );
}

#[tokio::test]
async fn bytes_sent_with_the_head_are_forwarded_after_the_answer() {
    let (server, to) = listen().await;
    let proxy = Proxy::start(allowed(&[to]), RecordedConnections::default()).await;
    let mut client = proxy.send(format!("{}early", head(to))).await;
    client.shutdown().await.expect("shut down");
    let (mut far, _) = server.accept().await.expect("accepted");
    assert_eq!(all(&mut far).await, "early");
    drop(far);
    assert_eq!(all(&mut client).await, ESTABLISHED);
    assert_eq!(proxy.end().await.told[0].sent, 5);
}

#[tokio::test]
async fn the_end_of_one_direction_leaves_the_other_open() {
    let (server, to) = listen().await;
    let proxy = Proxy::start(allowed(&[to]), RecordedConnections::default()).await;
    let mut client = proxy.tunnel(to).await;
    let (mut far, _) = server.accept().await.expect("accepted");
    client.write_all(b"all of it").await.expect("sent");
    client.shutdown().await.expect("shut down");
    assert_eq!(all(&mut far).await, "all of it");
    far.write_all(b"late answer").await.expect("sent");
    far.shutdown().await.expect("shut down");
    assert_eq!(all(&mut client).await, "late answer");
    assert_eq!(proxy.end().await.bytes, 20);
}

#[tokio::test]
async fn bytes_are_bounded_over_all_connections() {
    let (server, to) = listen().await;
    let proxy =
        Proxy::start(ProxyRules { bytes_max: 100, ..allowed(&[to]) }, RecordedConnections::default()).await;
    let mut first = proxy.tunnel(to).await;
    let (mut far_first, _) = server.accept().await.expect("accepted");
    let mut second = proxy.tunnel(to).await;
    let (mut far_second, _) = server.accept().await.expect("accepted");

    first.write_all(&[b'a'; 60]).await.expect("sent");
    first.shutdown().await.expect("shut down");
    assert_eq!(all(&mut far_first).await.len(), 60);
    far_second.write_all(&[b'b'; 60]).await.expect("sent");
    assert_eq!(all(&mut second).await.len(), 40, "what was left, and then the end");
    far_first.write_all(b"c").await.expect("sent");
    assert_eq!(all(&mut first).await, "", "nothing is left for the other either");
    let over = proxy.ask(head(to)).await;
    refused(&over, 403);

    let told = proxy.end().await;
    assert_eq!(told.bytes, 100);
    let figures: Vec<_> = told.told.iter().map(|one| (one.sent, one.received)).collect();
    assert_eq!(figures, [(60, 0), (0, 40), (0, 0)]);
    let over = "over the 100 bytes that this call may send and receive";
    let why: Vec<_> = told.told.iter().map(|one| one.refused.clone().unwrap_or_default()).collect();
    assert_eq!(why, [format!("cut: {over}"), format!("cut: {over}"), over.to_owned()]);
}

#[tokio::test]
async fn nothing_passes_if_it_cannot_be_recorded() {
    let (server, to) = listen().await;
    let proxy = Proxy::start(allowed(&[to]), FullDisk).await;
    let answer = proxy.ask(format!("{}early", head(to))).await;
    refused(&answer, 503);
    let told = proxy.end().await;
    assert_eq!(told.told[0].refused.as_deref(), Some("cannot record the connection: the disk is full"));
    assert_eq!((told.told[0].address, told.bytes), (None, 0));
    assert!(server.into_std().expect("a listener").accept().is_err(), "no connection arrived");
}

/// Checks, at the moment of the record, whether anything has happened already. Both ends are the
/// kernel's sockets, without a runtime that would have to be polled first.
struct Watching {
    server: std::net::TcpListener,
    client: std::net::TcpStream,
    calm: Arc<Mutex<Vec<bool>>>,
}

impl Record for Watching {
    type Error = std::convert::Infallible;

    async fn record(&self, _: &HostPort, _: SocketAddr) -> Result<(), Self::Error> {
        let no_connection = self.server.accept().is_err();
        let nothing_said = self.client.peek(&mut [0; 1]).is_err();
        self.calm.lock().expect("lock").push(no_connection && nothing_said);
        Ok(())
    }
}

#[tokio::test]
async fn the_record_is_strictly_before_the_connection() {
    let (server, to) = listen().await;
    let server = server.into_std().expect("a listener");
    let (listener, at) = listen().await;
    let client = connect(at).await.into_std().expect("a stream");
    let calm = Arc::<Mutex<Vec<bool>>>::default();
    let watching = Watching {
        server: server.try_clone().expect("a copy"),
        client: client.try_clone().expect("a copy"),
        calm: calm.clone(),
    };
    let proxy = Proxy::on(listener, allowed(&[to]), watching, Duration::from_secs(60));
    let mut client = TcpStream::from_std(client).expect("a stream");
    client.write_all(head(to).as_bytes()).await.expect("sent");
    established(&mut client).await;
    assert_eq!(*calm.lock().expect("lock"), [true]);
    assert!(server.accept().is_ok(), "it was connected to after the record");
    drop(proxy.end().await);
}

#[tokio::test]
async fn connections_at_once_are_bounded_and_the_rest_wait() {
    let (server, to) = listen().await;
    let kept = RecordedConnections::default();
    let proxy = Proxy::start(ProxyRules { connections_max: 2, ..allowed(&[to]) }, kept.clone()).await;
    let silent = connect(proxy.at).await;
    let mut second = proxy.tunnel(to).await;
    // The first has sent nothing yet and the second is established: a third is not served.
    let mut waits = proxy.send(head(to)).await;
    let (mut far, _) = server.accept().await.expect("accepted");
    for _ in 0..100 {
        second.write_all(b"x").await.expect("sent");
        far.read_exact(&mut [0; 1]).await.expect("came");
    }
    assert_eq!(kept.0.lock().expect("lock").len(), 1, "only the second has asked");
    drop(silent);
    established(&mut waits).await;
    assert_eq!(proxy.end().await.told.len(), 3);
}

#[tokio::test]
async fn connections_beyond_those_listed_are_counted() {
    let (server, to) = listen().await;
    let proxy = Proxy::start(allowed(&[to]), RecordedConnections::default()).await;
    let echo = tokio::spawn(async move {
        loop {
            let (mut far, _) = server.accept().await.expect("accepted");
            tokio::spawn(async move {
                let (mut from, mut to) = far.split();
                tokio::io::copy(&mut from, &mut to).await.expect("copied");
            });
        }
    });
    let mut open = Vec::new();
    for number in 0..200_u32 {
        let at = proxy.at;
        open.push(tokio::spawn(async move {
            let mut client = connect(at).await;
            client.write_all(head(to).as_bytes()).await.expect("sent");
            established(&mut client).await;
            let text = format!("I am {number:03}");
            client.write_all(text.as_bytes()).await.expect("sent");
            client.shutdown().await.expect("shut down");
            assert_eq!(all(&mut client).await, text);
        }));
    }
    for one in open {
        one.await.expect("no panic");
    }
    echo.abort();
    let told = proxy.end().await;
    assert_eq!((told.told.len(), told.more, told.bytes), (limits::PROXY_LISTED_MAX, 136, 200 * 16));
    assert!(told.told.iter().all(|one| (one.sent, one.received) == (8, 8) && one.refused.is_none()));
}

#[tokio::test]
async fn one_call_cannot_fill_the_ledger_with_connections() {
    let (server, to) = listen().await;
    let kept = RecordedConnections::default();
    let proxy = Proxy::start(allowed(&[to]), kept.clone()).await;
    for _ in 0..limits::PROXY_ASKED_MAX {
        drop(proxy.tunnel(to).await);
        drop(server.accept().await.expect("accepted"));
    }
    refused(&proxy.ask(head(to)).await, 403);
    assert_eq!(kept.0.lock().expect("lock").len(), limits::PROXY_ASKED_MAX);
    drop(proxy.end().await);
}

#[tokio::test]
async fn a_stop_ends_every_connection_and_reports_it() {
    let (server, to) = listen().await;
    let proxy = Proxy::start(allowed(&[to]), RecordedConnections::default()).await;
    let mut client = proxy.tunnel(to).await;
    let (mut far, _) = server.accept().await.expect("accepted");
    client.write_all(b"abc").await.expect("sent");
    let mut came = [0; 3];
    far.read_exact(&mut came).await.expect("came");
    let told = proxy.end().await;
    assert_eq!(told.told[0].sent, 3);
    assert_eq!(all(&mut far).await, "");
    assert_eq!(all(&mut client).await, "");

    let proxy = Proxy::start(allowed(&[to]), RecordedConnections::default()).await;
    let mut client = proxy.tunnel(to).await;
    let (mut far, _) = server.accept().await.expect("accepted");
    proxy.ended.abort();
    assert_eq!(all(&mut far).await, "");
    assert_eq!(all(&mut client).await, "");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_a_bad_gateway() {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("bound");
    let to = socket.local_addr().expect("an address");
    let kept = RecordedConnections::default();
    let proxy = Proxy::start(allowed(&[to]), kept.clone()).await;
    refused(&proxy.ask(head(to)).await, 502);
    let told = proxy.end().await.told;
    assert!(told[0].refused.as_deref().is_some_and(|why| why.starts_with("cannot connect: ")), "{told:?}");
    assert_eq!(told[0].address, None);
    assert_eq!(kept.0.lock().expect("lock").len(), 1, "a failed attempt is recorded too");
}
