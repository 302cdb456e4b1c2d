//! Connections: slow ones, broken ones, many, and the stop.

use super::client::{connect, read_answer};
use super::{Bounds, TestApp, bearer};
use crate::auth::Role;
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
        // Each byte is in time; the headers as a whole are not.
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

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_their_turn() {
    let app = TestApp::start_with(quick(), |router| router).await;
    let idle: Vec<_> = (0..2).map(|_| connect(app.address)).collect();
    // Served once the idle ones were cut off.
    assert_eq!(app.send("GET", "/livez", "", b"").await.status, 200);
    drop(idle);
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

/// A handler that says when it began, and ends when told.
#[derive(Clone, Default)]
struct Slow {
    began: Arc<Notify>,
    go_on: Arc<Notify>,
    ended: Arc<AtomicBool>,
}

impl Slow {
    fn route(&self) -> impl FnOnce(Router) -> Router + use<> {
        let slow = self.clone();
        let handler = async move || {
            slow.began.notify_one();
            slow.go_on.notified().await;
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
    slow.go_on.notify_one();
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
    let go_on = slow.go_on.clone();
    let reading = tokio::task::spawn_blocking(move || read_answer(&mut stream));
    let idle = connect(address);
    let stopping = tokio::spawn(app.stop());
    tokio::task::spawn_blocking(move || {
        // The idle connection, accepted or not, ends with the stop, while the request is still open.
        let ended = { &idle }.read(&mut [0; 1]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    })
    .await
    .expect("client");
    go_on.notify_one();
    let answer = reading.await.expect("client");
    assert_eq!((answer.status, answer.body.as_str()), (200, "slow\n"));
    stopping.await.expect("stopped");
}
