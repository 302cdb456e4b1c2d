//! Invalid requests, each with its response.

use super::{TestApp, bearer};
use crate::auth::Role;
use crate::types::limits::{HEADER_BYTES_MAX, JSON_DEPTH_MAX, REQUEST_BYTES_MAX};

#[tokio::test]
async fn malformed_and_invalid_bodies() {
    let app = TestApp::start().await;
    let key = app.key(Role::Operator).await;
    let deep = format!("{{\"message\":{}{}}}", "[".repeat(JSON_DEPTH_MAX), "]".repeat(JSON_DEPTH_MAX));
    let deeper = "[".repeat(200_000);
    let large = format!("{{\"message\":\"{}\"}}", "x".repeat(10 << 20));
    let long = format!("{{\"message\":\"{}\"}}", "x".repeat(REQUEST_BYTES_MAX));
    let cases: &[(&[u8], u16, &str)] = &[
        (b"", 400, "malformed"),
        (b"hello", 400, "malformed"),
        (br#"{"message":"x""#, 400, "malformed"),
        (br#"{"message":"x"} {}"#, 400, "malformed"),
        (br#"{"message":"x","message":"y"}"#, 400, "malformed"),
        (br#"{"message":"x","limits":{"calls_max":1,"calls_max":2}}"#, 400, "malformed"),
        (b"{\"message\":\"\xff\"}", 400, "malformed"),
        (b"{\"message\":\"a\0b\"}", 400, "malformed"),
        (deep.as_bytes(), 400, "malformed"),
        (deeper.as_bytes(), 400, "malformed"),
        (large.as_bytes(), 413, "too_large"),
        (long.as_bytes(), 413, "too_large"),
        (br#"["x"]"#, 422, "unfit"),
        (b"null", 422, "unfit"),
        (b"{}", 422, "unfit"),
        (br#"{"message":1}"#, 422, "unfit"),
        (br#"{"message":null}"#, 422, "unfit"),
        (br#"{"message":""}"#, 422, "unfit"),
        (br#"{"message":" \n\t\u2003"}"#, 422, "unfit"),
        (br#"{"message":"a\u0000b"}"#, 422, "unfit"),
        (br#"{"message":"x","model":"y"}"#, 422, "unfit"),
        (br#"{"message":"x","dry_run":"yes"}"#, 422, "unfit"),
        (br#"{"message":"x","dry_run":true}"#, 422, "unfit"),
        (br#"{"message":"x","limits":[1]}"#, 422, "unfit"),
        (br#"{"message":"x","limits":{"calls":1}}"#, 422, "unfit"),
        (br#"{"message":"x","limits":{"calls_max":-1}}"#, 422, "unfit"),
        (br#"{"message":"x","limits":{"calls_max":4294967296}}"#, 422, "unfit"),
    ];
    for (body, status, code) in cases {
        let answer = app.run(&key, body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        assert_eq!((answer.status, answer.problem().as_str()), (*status, *code), "{shown}: {answer:?}");
    }
    assert_eq!(app.home.entries("kind:run.request").len(), 0, "none of them became a run");
}

/// A client that expects `100 Continue` gets the error before it sends the body.
#[tokio::test]
async fn a_large_body_is_refused_before_it_is_sent() {
    let app = TestApp::start().await;
    let request = format!(
        "POST /agent/run HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10485760\r\n\
         Connection: close\r\nContent-Type: application/json\r\n{}\r\n",
        bearer(&app.key(Role::Operator).await)
    );
    let answer = app.raw(request).await;
    assert_eq!((answer.status, answer.problem().as_str()), (413, "too_large"));
}

#[tokio::test]
async fn invalid_headers() {
    let app = TestApp::start().await;
    let key = app.key(Role::Operator).await;
    let json = "Content-Type: application/json\r\n";
    for (headers, status, code) in [
        ("", 415, "wrong_type"),
        ("Content-Type: text/plain\r\n", 415, "wrong_type"),
        ("Content-Type: application/json-patch+json\r\n", 415, "wrong_type"),
        (&format!("{json}Content-Encoding: gzip\r\n"), 415, "wrong_type"),
        (&format!("{json}Idempotency-Key: 1\r\n"), 422, "not_supported"),
        (&format!("{json}Accept: text/event-stream\r\n"), 422, "unfit"),
        (&format!("{json}Accept: text/event-stream, application/json\r\n"), 422, "unfit"),
        ("Content-Type: Application/JSON; charset=utf-8\r\n", 422, "unfit"),
    ] {
        let headers = format!("{}{headers}", bearer(&key));
        let answer = app.send("POST", "/agent/run", &headers, br#"{"message":""}"#).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code), "{headers}");
    }
    let long = format!("X-Long: {}\r\n", "x".repeat(20 << 10));
    assert_eq!(app.send("GET", "/livez", &long, b"").await.status, 431);
    let many: String = (0..200).map(|at| format!("X-{at}: y\r\n")).collect();
    assert_eq!(app.send("GET", "/livez", &many, b"").await.status, 431);
    let path = format!("/{}", "x".repeat(HEADER_BYTES_MAX));
    assert!([414, 431].contains(&app.send("GET", &path, "", b"").await.status));
    assert_eq!(app.raw("nonsense\r\n\r\n").await.status, 400);
}

#[tokio::test]
async fn unknown_routes_methods_and_hosts() {
    let app = TestApp::start().await;
    for (method, path, status, code) in [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/agent", 404, "not_found"),
        ("GET", "/agent/run/", 404, "not_found"),
        ("GET", "/audit/entries/%ff", 401, "unauthenticated"),
        ("GET", "/agent/run", 405, "wrong_method"),
        ("DELETE", "/audit/entries/1", 405, "wrong_method"),
        ("BREW", "/livez", 405, "wrong_method"),
    ] {
        let answer = app.send(method, path, "", b"").await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code), "{method} {path}");
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}");
    }
    assert_eq!(app.send("GET", "/agent/run", "", b"").await.header("allow"), Some("POST"));
    let local = app.address.to_string();
    for (request, status) in [
        (format!("GET /livez HTTP/1.1\r\nHost: {local}\r\n"), 200),
        ("GET /livez HTTP/1.1\r\nHost: LocalHost:1\r\n".to_owned(), 200),
        ("GET /livez HTTP/1.1\r\nHost: [::1]:7117\r\n".to_owned(), 200),
        ("GET /livez HTTP/1.1\r\nHost: par.example\r\n".to_owned(), 200),
        ("GET /livez HTTP/1.1\r\nHost: evil.example\r\n".to_owned(), 421),
        ("GET /livez HTTP/1.1\r\nHost: 192.0.2.1\r\n".to_owned(), 421),
        ("GET /livez HTTP/1.1\r\nHost: localhost.evil.example\r\n".to_owned(), 421),
        (format!("GET http://evil.example/livez HTTP/1.1\r\nHost: {local}\r\n"), 421),
        (format!("GET /livez HTTP/1.1\r\nHost: {local}\r\nHost: evil.example\r\n"), 400),
        ("GET /livez HTTP/1.1\r\n".to_owned(), 400),
        ("GET /livez HTTP/1.1\r\nHost: a b\r\n".to_owned(), 400),
    ] {
        assert_eq!(app.raw(format!("{request}Connection: close\r\n\r\n")).await.status, status, "{request}");
    }
}

#[tokio::test]
async fn every_answer_carries_an_id_and_forbids_sniffing_and_storing() {
    let app = TestApp::start().await;
    for path in ["/livez", "/tools", "/nowhere"] {
        let answer = app.send("GET", path, "X-Request-Id: mine-1\r\n", b"").await;
        assert_eq!(answer.header("x-request-id"), Some("mine-1"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for bad in ["a b".to_owned(), "x".repeat(65), String::new()] {
        let answer = app.send("GET", "/livez", &format!("X-Request-Id: {bad}\r\n"), b"").await;
        assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")), "{answer:?}");
    }
}
