//! A server on a real socket that answers from a script.

use crate::config::ModelKeys;
use crate::gate::ModelPermit;
use crate::llm::remote::wire::{Wire, WireRequest, read};
use crate::llm::{
    Conversation, DeltaSink, ModelError, ModelReply, ModelRequest, OpaqueOrigin, Provider, ProviderKind,
    Settings, ToolOffer, build,
};
use crate::secrets::{Clean, Finder, Named, Parted, Secrets};
use crate::types::{Digest, Labelled, Secret, limits};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(in crate::llm) const KEY: &str = "sk-test-0123456789";
pub(in crate::llm) const LONG: Duration = Duration::from_secs(30);

/// What the server does with one connection after it has read a request.
pub(in crate::llm) enum ServerStep {
    /// Writes these bytes and closes.
    Say(Vec<u8>),
    /// Writes these pieces, with a pause between two of them in which the client reads, and closes.
    SayInPieces(Vec<Vec<u8>>),
    /// Writes these bytes and holds the connection.
    SayAndHold(Vec<u8>),
}

/// A request as it arrived.
pub(in crate::llm) struct ReceivedRequest {
    pub(in crate::llm) head: String,
    pub(in crate::llm) body: Vec<u8>,
}

pub(in crate::llm) struct ScriptedServer {
    pub(in crate::llm) base_url: String,
    pub(in crate::llm) seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl ScriptedServer {
    /// Listens, and accepts one connection for each step.
    pub(in crate::llm) async fn start(script: Vec<ServerStep>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base_url = format!("http://{}/v1/", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            for step in script {
                let (mut socket, _) = listener.accept().await.expect("a connection");
                let request = read_request(&mut socket).await;
                log.lock().expect("the log").push(request);
                match step {
                    // The client may have disconnected already, as it does when a body is too
                    // large.
                    ServerStep::Say(bytes) => drop(socket.write_all(&bytes).await),
                    ServerStep::SayInPieces(pieces) => {
                        for piece in pieces {
                            drop(socket.write_all(&piece).await);
                            tokio::time::sleep(Duration::from_millis(4)).await;
                        }
                    }
                    ServerStep::SayAndHold(bytes) => {
                        socket.write_all(&bytes).await.expect("written");
                        held.push(socket);
                    }
                }
            }
            std::future::pending::<()>().await;
        });
        Self { base_url, seen }
    }

    pub(in crate::llm) fn tries(&self) -> usize {
        self.seen.lock().expect("the log").len()
    }
}

async fn read_request(socket: &mut TcpStream) -> ReceivedRequest {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = socket.read(&mut chunk).await.expect("read");
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("a length").parse().expect("a number");
        if bytes.len() == head.len() + 4 + length {
            return ReceivedRequest { head: head.to_owned(), body: bytes[head.len() + 4..].to_vec() };
        }
    }
}

pub(in crate::llm) fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// `held` as if it had been searched, with no secrets configured, and from a trusted source.
pub(in crate::llm) fn unnamed<T: Parted>(held: T) -> Labelled<Clean<T>> {
    Labelled::trusted(Secrets::default().clean(held))
}

/// A conversation that starts with `system`.
pub(in crate::llm) fn chat(system: &str) -> Conversation {
    Conversation::new(Labelled::trusted(system.to_owned()))
}

/// Permission to ask `provider`; `None` if it needs none.
pub(in crate::llm) fn permit(provider: &Arc<dyn Provider>) -> Option<ModelPermit> {
    provider.sink().cloned().map(ModelPermit::for_test)
}

/// The head of a successful answer of this length.
pub(in crate::llm) fn head(length: usize, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 x\r\ncontent-length: {length}\r\n{headers}\r\n").into_bytes()
}

fn knowing_the_key() -> Secrets {
    let key = Named::new("llm.api_key", KEY.as_bytes().to_vec().into()).expect("long enough");
    Secrets::new(Finder::new(Vec::new().into(), vec![key], Vec::new()).expect("one secret"))
}

/// `body` as a reply of `W`.
pub(in crate::llm) fn reply_of<W: Wire>(body: &[u8]) -> ModelReply {
    read::<W>(body.to_vec(), Digest::sha256(b"request"), &origin::<W>("asked")).expect("a reply")
}

pub(in crate::llm) fn origin<W: Wire>(model: &str) -> OpaqueOrigin {
    let (wire, base_url) = (W::KIND.as_str().to_owned(), "http://127.0.0.1".to_owned());
    OpaqueOrigin { wire, base_url, model: model.to_owned(), key: "none".to_owned() }
}

/// The request that `W` writes.
pub(in crate::llm) fn written<W: Wire>(conversation: &Conversation, tools: &[ToolOffer]) -> Value {
    serde_json::from_str(&written_text::<W>(conversation, tools)).expect("JSON")
}

/// The same as its text.
pub(in crate::llm) fn written_text<W: Wire>(conversation: &Conversation, tools: &[ToolOffer]) -> String {
    let request = WireRequest {
        conversation,
        tools,
        origin: &origin::<W>("asked"),
        reply_tokens_max: Some(9),
        context_tokens: limits::CONTEXT_TOKENS,
        is_streamed: false,
        is_plain: false,
    };
    String::from_utf8(W::write(&request).expect("a body")).expect("UTF-8")
}

/// A successful answer of JSON.
pub(in crate::llm) fn good(body: &serde_json::Value) -> Vec<u8> {
    answer(200, "content-type: application/json\r\n", body.to_string().as_bytes())
}

pub(in crate::llm) fn settings(kind: ProviderKind, base_url: &str) -> Settings {
    Settings {
        provider: kind,
        base_url: base_url.to_owned(),
        model: "asked-1".to_owned(),
        name: "default".to_owned(),
        keys: ModelKeys::of("default", Secret::new(KEY.to_owned()).expect("a key")),
        secrets: knowing_the_key(),
        ..Settings::default()
    }
}

pub(in crate::llm) fn provider(kind: ProviderKind, base_url: &str) -> Arc<dyn Provider> {
    build(settings(kind, base_url)).expect("settings")
}

/// Sends a trivial question.
pub(in crate::llm) async fn ask(
    kind: ProviderKind,
    base_url: &str,
    deadline: Duration,
) -> Result<ModelReply, ModelError> {
    let mut conversation = chat("be careful");
    conversation.push_user(unnamed("hello?".to_owned()));
    let provider = provider(kind, base_url);
    let permit = permit(&provider);
    let request = ModelRequest {
        conversation: &conversation,
        tools: &[],
        deadline,
        permit: permit.as_ref(),
        listener: None,
    };
    provider.complete(&request).await
}

/// Sends a trivial question and listens. Also returns what was shown while the reply came.
pub(in crate::llm) async fn ask_streamed(
    kind: ProviderKind,
    base_url: &str,
    deadline: Duration,
) -> (Result<ModelReply, ModelError>, String) {
    let mut conversation = chat("be careful");
    conversation.push_user(unnamed("hello?".to_owned()));
    let shown = Mutex::new(String::new());
    let listener = |delta: Clean<String>| shown.lock().expect("the text").push_str(&delta);
    let listener = Some(DeltaSink::new(&listener));
    let provider = provider(kind, base_url);
    let permit = permit(&provider);
    let request =
        ModelRequest { conversation: &conversation, tools: &[], deadline, permit: permit.as_ref(), listener };
    let reply = provider.complete(&request).await;
    (reply, shown.into_inner().expect("the text"))
}
