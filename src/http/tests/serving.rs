//! Connections: slow, broken and many, and the stop.

use super::client::{Tail, connect, read_answer};
use super::{Bounds, TestApp, bearer};
use crate::auth::Role;
use crate::types::limits;
use axum::Router;
use axum::routing::get;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

fn quick() -> Bounds {
    Bounds {
        header_read_max: Duration::from_millis(300),
        body_read_max: Duration::from_millis(300),
        body_unproven_read_max: Duration::from_millis(300),
        connections_max: 2,
        ..Bounds::default()
    }
}

#[tokio::test]
async fn slow_headers_and_slow_bodies_are_cut_off() {
    let app = TestApp::start_with(quick(), |router| router).await;
    let key = app.key(Role::Operator).await;
    let address = app.address;
    let drip = move || {
        let mut stream = connect(address);
        let started = Instant::now();
        stream.write_all(b"GET /livez HTTP/1.1\r\n").expect("sent");
        // Each byte is in time, but the headers as a whole are late.
        while stream.write_all(b"X").is_ok() && started.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(50));
        }
        started.elapsed()
    };
    let took = tokio::task::spawn_blocking(drip).await.expect("client");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let request = format!(
        "POST /agent/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n{}\r\n{{",
        bearer(&key)
    );
    let answer = app.raw(request).await;
    assert_eq!((answer.status, answer.problem().as_str()), (408, "timed_out"));
}

/// No timeout expires within such a test: only a newer connection closes one.
fn patient() -> Bounds {
    let hour = Duration::from_secs(3_600);
    Bounds {
        header_read_max: hour,
        body_read_max: hour,
        body_unproven_read_max: hour,
        connections_max: 16,
        ..Bounds::default()
    }
}

/// Silent sockets and unfinished forms, many times as many as there are slots (issue 12).
#[tokio::test]
async fn waiting_connections_do_not_block_new_clients() {
    let app = TestApp::start_with(patient(), |router| router).await;
    let key = app.key(Role::Operator).await;
    let form = format!(
        "POST /ui/login HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nkey=",
        app.address
    );
    let half = format!("GET /tools HTTP/1.1\r\nHost: {}\r\n", app.address);
    let unasked = format!("POST /agent/run HTTP/1.1\r\nHost: {}\r\nContent-Length: 9\r\n\r\n", app.address);
    let address = app.address;
    for sent in ["", &half, &form, &unasked] {
        let sent = sent.to_owned();
        let open = move || {
            let open = |_| {
                let mut stream = connect(address);
                // A connection that has ended accepts no more bytes.
                let _sent = stream.write_all(sent.as_bytes());
                stream
            };
            (0..100).map(open).collect::<Vec<_>>()
        };
        let attackers = tokio::task::spawn_blocking(open).await.expect("clients");
        for _ in 0..20 {
            assert_eq!(app.get("/tools", &key).await.status, 200);
        }
        let left = move || attackers.into_iter().filter(|stream| !is_ended(stream)).count();
        let left = tokio::task::spawn_blocking(left).await.expect("clients");
        assert!(left < 16, "{left} of 100 hold their places");
    }
}

/// Whether the server has closed a connection, whatever it sent before.
fn is_ended(mut stream: &std::net::TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("timeout");
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(e) => {
                return !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
    }
}

/// Any number of requests without a key close neither an authenticated request nor its body.
#[tokio::test]
async fn an_authenticated_request_keeps_its_slot() {
    let slow = Slow::default();
    let app = TestApp::start_with(patient(), slow.route()).await;
    let (viewer, operator) = (app.key(Role::Viewer).await, app.key(Role::Operator).await);
    let asking = format!(
        "GET /audit HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{}\r\n",
        app.address,
        bearer(&viewer)
    );
    let tail = Tail::open(app.address, asking, "\r\n\r\n").await;
    let body = br#"{"message":"read_file(path=\"/etc/shadow\")"}"#;
    let head = format!(
        "POST /agent/run HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nExpect: 100-continue\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{}\r\n",
        app.address,
        body.len(),
        bearer(&operator)
    );
    // The server asks for the body once it knows the key.
    let run = Tail::open(app.address, head, "100 Continue").await;
    let (address, bare) = (app.address, connect(app.address));
    { &bare }.write_all(SLOW).expect("sent");
    slow.began.notified().await;
    let flood = move || (0..100).map(|_| connect(address)).collect::<Vec<_>>();
    let attackers = tokio::task::spawn_blocking(flood).await.expect("clients");
    assert_eq!(app.get("/tools", &viewer).await.status, 200, "after all of them");
    let answer = run.send(body).await;
    assert_eq!(answer.status, 100, "{answer:?}");
    assert!(answer.body.contains("HTTP/1.1 200 OK"), "{answer:?}");
    slow.resume.notify_one();
    let answer = tokio::task::spawn_blocking(move || read_answer(&mut { bare })).await.expect("client");
    assert_eq!((answer.status, answer.body.as_str()), (200, "slow\n"));
    // The live stream is still open and reports the run.
    drop(tail.until("run.reply").await);
    drop(attackers);
}

/// One key's live streams leave slots for other keys, including the approvers' notifications.
#[tokio::test]
async fn one_key_has_its_share_of_the_streams() {
    let app = TestApp::start().await;
    let (viewer, approver) = (app.key(Role::Viewer).await, app.key(Role::Approver).await);
    let asking = |path: &str, key: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream", app.address);
        format!("{head}\r\nConnection: close\r\n{}\r\n", bearer(key))
    };
    let mut open = Vec::new();
    for _ in 0..limits::KEY_TAILS_MAX {
        open.push(Tail::open(app.address, asking("/audit", &viewer), "text/event-stream").await);
    }
    for _ in 0..limits::TAILS_MAX {
        let refused = app.raw(asking("/audit", &viewer)).await;
        assert_eq!((refused.status, refused.problem().as_str()), (429, "too_many"));
        assert_eq!(refused.header("retry-after"), Some("30"));
    }
    open.push(Tail::open(app.address, asking("/approvals", &approver), "text/event-stream").await);
    app.stop().await;
    for tail in open {
        assert_eq!(tail.end().await.status, 200);
    }
}

#[tokio::test]
async fn a_panic_in_a_handler_is_a_500_and_no_more() {
    let broken = |router: Router| router.route("/broken", get(async || -> () { panic!("on purpose") }));
    let app = TestApp::start_with(Bounds::default(), broken).await;
    let answer = app.send("GET", "/broken", "", b"").await;
    assert_eq!((answer.status, answer.problem().as_str()), (500, "internal"));
    assert!(!answer.body.contains("on purpose"), "{}", answer.body);
    assert_eq!(app.send("GET", "/livez", "", b"").await.status, 200);
}

/// A handler that reports its start and ends on a signal.
#[derive(Clone, Default)]
struct Slow {
    began: Arc<Notify>,
    resume: Arc<Notify>,
    ended: Arc<AtomicBool>,
}

impl Slow {
    fn route(&self) -> impl FnOnce(Router) -> Router + use<> {
        let slow = self.clone();
        let handler = async move || {
            slow.began.notify_one();
            slow.resume.notified().await;
            slow.ended.store(true, Ordering::SeqCst);
            "slow\n"
        };
        |router| router.route("/slow", get(handler))
    }
}

const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_its_run() {
    let slow = Slow::default();
    let app = TestApp::start_with(Bounds::default(), slow.route()).await;
    let mut stream = connect(app.address);
    stream.write_all(SLOW).expect("sent");
    slow.began.notified().await;
    drop(stream);
    assert_eq!(app.send("GET", "/livez", "", b"").await.status, 200);
    slow.resume.notify_one();
    app.stop().await;
    assert!(slow.ended.load(Ordering::SeqCst), "the stop waits for it too");
}

#[tokio::test]
async fn a_stop_lets_open_requests_end_and_takes_no_more() {
    let slow = Slow::default();
    let app = TestApp::start_with(Bounds::default(), slow.route()).await;
    let address = app.address;
    let mut stream = connect(address);
    stream.write_all(SLOW).expect("sent");
    slow.began.notified().await;
    let resume = slow.resume.clone();
    let reading = tokio::task::spawn_blocking(move || read_answer(&mut stream));
    let idle = connect(address);
    let stopping = tokio::spawn(app.stop());
    tokio::task::spawn_blocking(move || {
        // The idle connection, accepted or not, ends with the stop while the request is still open.
        let ended = { &idle }.read(&mut [0; 1]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    })
    .await
    .expect("client");
    resume.notify_one();
    let answer = reading.await.expect("client");
    assert_eq!((answer.status, answer.body.as_str()), (200, "slow\n"));
    stopping.await.expect("stopped");
}
