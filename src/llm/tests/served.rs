//! What every protocol must do, over a real socket: keep bounds, retry, and not disclose the key.

use super::scripted::{KEY, LONG, ScriptedServer, ServerStep, answer, ask, chat, permit, settings, unnamed};
use crate::config::ModelKeys;
use crate::llm::remote::client::Remote;
use crate::llm::remote::wire::Wire;
use crate::llm::wires::anthropic::Messages;
use crate::llm::wires::gemini::GenerateContents;
use crate::llm::wires::ollama::OllamaChats;
use crate::llm::wires::openai::ChatCompletions;
use crate::llm::wires::responses::Responses;
use crate::llm::{ModelErrorKind, ModelRequest, ProviderKind, Settings, build};
use crate::secrets::{Finder, Named, Secrets};
use crate::types::{Secret, limits};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Each protocol, with a body that says `hello` in it.
const WIRES: [(ProviderKind, &str); 5] = [
    (ProviderKind::OpenAi, r#"{"choices":[{"message":{"content":"hello"}}]}"#),
    (
        ProviderKind::OpenAiResponses,
        r#"{"output":[{"type":"message","content":[{"type":"output_text","text":"hello"}]}]}"#,
    ),
    (ProviderKind::Anthropic, r#"{"content":[{"type":"text","text":"hello"}]}"#),
    (ProviderKind::Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"hello"}]}}]}"#),
    (ProviderKind::Ollama, r#"{"message":{"content":"hello"},"done":true}"#),
];

#[tokio::test]
async fn each_invalid_answer_has_its_own_error() {
    for (kind, _) in WIRES {
        each_invalid_answer_is_classified(kind).await;
    }
}

async fn each_invalid_answer_is_classified(kind: ProviderKind) {
    let check = async |said: Vec<u8>, expect: ModelErrorKind, told: &str| {
        let server = ScriptedServer::start(vec![ServerStep::Say(said)]).await;
        let error = ask(kind, &server.base_url, LONG).await.expect_err(told);
        assert_eq!(error.kind, expect, "{error}");
        assert!(error.message.contains(told), "{error}");
        assert!(!error.retryable && server.tries() == 1, "{error}");
        error
    };
    use ModelErrorKind::{Malformed, Status, TooLarge};
    check(answer(200, "", b""), Malformed, "it is empty").await;
    let html = check(
        answer(200, "content-type: text/html\r\n", b"<html>\x1b[2J"),
        Malformed,
        "its type is `text/html`",
    );
    assert_eq!(html.await.raw.as_deref(), Some(b"<html>\x1b[2J".as_slice()));
    check(answer(204, "", b""), Malformed, "it is empty").await;
    check(
        answer(400, "", br#"{"error":{"code":400,"message":"bad \u001b[2J"}}"#),
        Status(400),
        "bad \\u{1b}",
    )
    .await;
    check(answer(404, "", br#"{"message":"no such model","code":"3051"}"#), Status(404), "404: no such")
        .await;
    check(answer(422, "x-request-id: req_1\r\n", br#"{"detail":[{"msg":"field"}]}"#), Status(422), "`req_1`")
        .await;
    let typed = br#"{"type":"error","error":{"type":"not_found_error","message":"model: m"}}"#;
    check(answer(404, "request-id: req_2\r\n", typed), Status(404), "model: m (request `req_2`)").await;
    check(answer(403, "", b"<html>denied"), Status(403), "<html>denied").await;
    check(answer(302, "location: http://127.0.0.1:1/\r\n", b""), Status(302), "302").await;
    let long = vec![b' '; 5 << 20];
    check(answer(200, "", &long), TooLarge, "4194304 bytes").await;
    let chunked =
        [&b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n500000\r\n"[..], &long[..]].concat();
    check(chunked, TooLarge, "4194304 bytes").await;
    let cut = check(answer(400, "", &vec![b'x'; 1 << 20]), Status(400), "400").await;
    assert_eq!(cut.raw.map(|raw| raw.len()), Some(limits::MODEL_ERROR_BYTES_MAX));
}

#[tokio::test]
async fn the_key_is_never_disclosed() {
    let echo = format!("{{\"error\":{{\"message\":\"bad key {KEY}\"}}}}");
    // The key occurs at the point where the message is truncated, and again where the body is.
    let before = limits::REASON_BYTES_MAX - "the server answered 401: ".len() - 9;
    let filler = "x".repeat(limits::MODEL_ERROR_BYTES_MAX - before - KEY.len() - 9);
    let at_the_cut = format!("{}{KEY}{filler}{KEY}", "x".repeat(before));
    let both = [&echo, &at_the_cut].into_iter().flat_map(|body| WIRES.map(|(kind, _)| (kind, body)));
    for (kind, body) in both {
        let server = ScriptedServer::start(vec![ServerStep::Say(answer(401, "", body.as_bytes()))]).await;
        let error = ask(kind, &server.base_url, LONG).await.expect_err("401");
        assert!(error.message.contains("[secret:l") && !error.message.contains("sk-"), "{error}");
        let raw = String::from_utf8_lossy(&error.raw.expect("the body")).into_owned();
        assert!(!raw.contains("sk-"), "{} bytes", raw.len());
    }
    assert!(!shown::<ChatCompletions>(ProviderKind::OpenAi).contains(KEY));
    assert!(!shown::<Responses>(ProviderKind::OpenAiResponses).contains(KEY));
    assert!(!shown::<Messages>(ProviderKind::Anthropic).contains(KEY));
    assert!(!shown::<GenerateContents>(ProviderKind::Gemini).contains(KEY));
    assert!(!shown::<OllamaChats>(ProviderKind::Ollama).contains(KEY));
}

fn shown<W: Wire + std::fmt::Debug>(kind: ProviderKind) -> String {
    let settings = settings(kind, "");
    let told = format!("{settings:?}");
    told + &format!("{:?}", Remote::<W>::new(settings).expect("settings"))
}

#[tokio::test]
async fn temporary_failures_are_retried() {
    let [a, b, c, d, e] = WIRES.map(|(kind, body)| is_tried_again(kind, body));
    tokio::join!(a, b, c, d, e);
}

async fn is_tried_again(kind: ProviderKind, body: &str) {
    let hello = || answer(200, "", body.as_bytes());
    let half = hello()[..hello().len() - 9].to_vec();
    let busy = answer(429, "retry-after: 0\r\n", b"{}");
    let overloaded = answer(529, "", br#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#);
    let check = async |script: Vec<Vec<u8>>, expect: Option<ModelErrorKind>| {
        let server = ScriptedServer::start(script.into_iter().map(ServerStep::Say).collect()).await;
        let error = ask(kind, &server.base_url, LONG).await.err();
        assert_eq!(error.as_ref().map(|error| error.kind), expect, "{error:?}");
        assert_eq!(server.tries(), 3);
    };
    use ModelErrorKind::{Status, Transport};
    // All at once, because each of them waits between its attempts.
    tokio::join!(
        check(vec![busy.clone(), answer(500, "", b"oops"), hello()], None),
        check(vec![half.clone(), Vec::new(), hello()], None),
        check(vec![overloaded.clone(), overloaded, hello()], None),
        check(vec![b"no HTTP\r\n\r\n".to_vec(), answer(408, "", b""), hello()], None),
        check(vec![answer(500, "", b""), busy, answer(503, "", b"down")], Some(Status(503))),
        check(vec![half.clone(), half.clone(), half], Some(Transport)),
    );
}

#[tokio::test]
async fn a_delay_beyond_the_bounds_ends_the_attempts() {
    for (kind, _) in WIRES {
        let server =
            ScriptedServer::start(vec![ServerStep::Say(answer(429, "retry-after: 3600\r\n", b"{}"))]).await;
        let error = ask(kind, &server.base_url, LONG).await.expect_err("429");
        assert_eq!((error.kind, error.retryable), (ModelErrorKind::Status(429), true));
        assert_eq!(server.tries(), 1);
    }
}

#[tokio::test]
async fn the_deadline_ends_a_silent_server() {
    let heads = [&b""[..], b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n{"];
    for (kind, head) in heads.into_iter().flat_map(|head| WIRES.map(|(kind, _)| (kind, head))) {
        let server = ScriptedServer::start(vec![ServerStep::SayAndHold(head.to_vec())]).await;
        let error = ask(kind, &server.base_url, Duration::from_millis(300)).await.expect_err("a time-out");
        assert_eq!(error.kind, ModelErrorKind::Timeout);
        assert_eq!(server.tries(), 1);
    }
}

#[tokio::test]
async fn an_unreachable_server_is_a_transport_error() {
    for (kind, _) in WIRES {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base_url = format!("http://{}", listener.local_addr().expect("an address"));
        drop(listener);
        let error = ask(kind, &base_url, LONG).await.expect_err("no server");
        assert_eq!((error.kind, error.retryable), (ModelErrorKind::Transport, true));
        assert!(error.message.starts_with("cannot connect: "), "{error}");
    }
}

#[tokio::test]
async fn a_chunked_answer_is_put_together() {
    for (kind, body) in WIRES {
        let (left, right) = body.split_at(20);
        let chunked = format!(
            "HTTP/1.1 200 x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{left}\r\n{:x}\r\n{right}\r\n0\r\n\r\n",
            left.len(),
            right.len()
        );
        let server = ScriptedServer::start(vec![ServerStep::Say(chunked.into_bytes())]).await;
        let reply = ask(kind, &server.base_url, LONG).await.expect("a reply");
        assert_eq!((reply.text.as_deref(), reply.raw.as_slice()), (Some("hello"), body.as_bytes()));
        assert_eq!(reply.model, "asked-1");
    }
}

/// A reload exchanges key and finder while a request is under way. Neither the key that it was sent
/// with nor the new one comes back.
#[tokio::test]
async fn a_key_that_is_exchanged_during_a_request_is_still_replaced() {
    const NEW: &str = "sk-new-abcdefghijkl";
    let finder = |key: &str| {
        let named = Named::new("models.one.key", key.as_bytes().to_vec().into()).expect("long enough");
        Finder::new(Vec::new().into(), vec![named], Vec::new()).expect("one secret")
    };
    let of = |key: &str| ModelKeys::of("one", Secret::new(key.to_owned()).expect("a key"));
    for (kind, _) in WIRES {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (keys, secrets) = (of(KEY), Secrets::new(finder(KEY)));
        let settings = Settings {
            name: "one".to_owned(),
            base_url: format!("http://{}", listener.local_addr().expect("an address")),
            keys: keys.clone(),
            secrets: secrets.clone(),
            ..settings(kind, "")
        };
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut head = [0; 4096];
            let count = socket.read(&mut head).await.expect("read");
            assert!(String::from_utf8_lossy(&head[..count]).contains(KEY), "sent with the key of its time");
            secrets.exchange(finder(NEW));
            keys.exchange(&of(NEW), |_, _| true);
            let echo = format!("{{\"error\":{{\"message\":\"not {KEY} but {NEW}\"}}}}");
            socket.write_all(&answer(401, "", echo.as_bytes())).await.expect("written");
        });
        let provider = build(settings).expect("settings");
        let (mut conversation, permit) = (chat(""), permit(&provider));
        conversation.push_user(unnamed("hello?".to_owned()));
        let request = ModelRequest {
            conversation: &conversation,
            tools: &[],
            deadline: LONG,
            permit: permit.as_ref(),
            listener: None,
        };
        let error = provider.complete(&request).await.expect_err("401");
        server.await.expect("answered");
        assert!(
            !error.message.contains("sk-") && error.message.contains("[secret:models.one.key:"),
            "{error}"
        );
        assert!(!String::from_utf8_lossy(&error.raw.expect("the body")).contains("sk-"));
    }
}

/// Without a permit, or with one for another model, nothing reaches the server.
#[tokio::test]
async fn nothing_is_sent_without_a_permit() {
    for kind in ProviderKind::ALL.into_iter().filter(|kind| *kind != ProviderKind::Offline) {
        let server = ScriptedServer::start(Vec::new()).await;
        let provider = build(settings(kind, &server.base_url)).expect("settings");
        let mut conversation = chat("be careful");
        conversation.push_user(unnamed("hello?".to_owned()));
        let elsewhere = settings(kind, "http://127.0.0.1:9/v1");
        let other = permit(&build(elsewhere).expect("settings"));
        for permit in [None, other.as_ref()] {
            let request = ModelRequest {
                conversation: &conversation,
                tools: &[],
                deadline: LONG,
                permit,
                listener: None,
            };
            let error = provider.complete(&request).await.expect_err("nothing allows it");
            assert_eq!(error.kind, ModelErrorKind::NotPermitted, "{}", kind.as_str());
        }
        assert!(server.seen.lock().expect("the log").is_empty(), "{}", kind.as_str());
    }
}
