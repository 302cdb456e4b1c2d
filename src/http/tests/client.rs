//! A client that sends bytes unchanged, well-formed or not.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response.
#[derive(Clone, Debug)]
pub(super) struct RawResponse {
    pub(super) status: u16,
    /// Status line and headers. The server writes their names in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl RawResponse {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Checks the form that every error has, and returns its code.
    pub(super) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        let code = problem["code"].as_str().expect("code").to_owned();
        assert_eq!(problem["type"], format!("/problems/{code}"));
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"));
        for name in ["title", "detail"] {
            assert!(problem[name].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        }
        code
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is the other side of the server's socket")]
pub(super) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    stream
}

/// Sends `request` and reads until the server closes.
pub(super) async fn exchange(address: SocketAddr, request: Vec<u8>) -> RawResponse {
    let talk = move || {
        let mut stream = connect(address);
        // A server that has already answered may close the connection.
        let _sent = stream.write_all(&request);
        read_answer(&mut stream)
    };
    tokio::task::spawn_blocking(talk).await.expect("client")
}

/// A response in progress, with the part read so far.
pub(super) struct Tail {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Tail {
    /// Sends `request` and returns once `sign` was read, so that the next step of a test comes
    /// after it.
    pub(super) async fn open(address: SocketAddr, request: String, sign: &str) -> Self {
        let ask = move || {
            let mut stream = connect(address);
            stream.write_all(request.as_bytes()).expect("sent");
            Self { stream, bytes: Vec::new() }
        };
        tokio::task::spawn_blocking(ask).await.expect("client").until(sign).await
    }

    /// Continues to read until `sign` was read.
    pub(super) async fn until(mut self, sign: &str) -> Self {
        let sign = sign.to_owned();
        let talk = move || {
            let mut chunk = [0; 4096];
            while !String::from_utf8_lossy(&self.bytes).contains(&sign) {
                let count = self.stream.read(&mut chunk).expect("more");
                assert!(count > 0, "ended before {sign:?}: {}", String::from_utf8_lossy(&self.bytes));
                self.bytes.extend_from_slice(&chunk[..count]);
            }
            self
        };
        tokio::task::spawn_blocking(talk).await.expect("client")
    }

    /// Sends more and reads until the server closes.
    pub(super) async fn send(mut self, more: &[u8]) -> RawResponse {
        self.stream.write_all(more).expect("sent");
        self.end().await
    }

    /// Reads until the server closes.
    pub(super) async fn end(mut self) -> RawResponse {
        tokio::task::spawn_blocking(move || read_on(&mut self.stream, self.bytes)).await.expect("client")
    }
}

pub(super) fn read_answer(stream: &mut TcpStream) -> RawResponse {
    read_on(stream, Vec::new())
}

fn read_on(stream: &mut TcpStream, mut bytes: Vec<u8>) -> RawResponse {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    RawResponse { status, head: head.to_owned(), body: body.to_owned() }
}
