//! Approval requests as events: those that wait, each new one, each change, and no more for a key
//! that was revoked.

#![expect(clippy::disallowed_methods, reason = "tests listen as any client does")]

use crate::approval::{People, grant};
use crate::support::Server;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const EVENTS: &str = "Accept: text/event-stream\r\n";

/// An open stream.
struct Listening(BufReader<TcpStream>);

impl Listening {
    fn open(server: &Server, key: &str) -> Self {
        let mut stream = TcpStream::connect(&server.address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        let head = format!(
            "GET /approvals HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n{EVENTS}\r\n",
            server.address
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).expect("a status");
        assert!(first.starts_with("HTTP/1.1 200"), "{first}");
        Self(lines)
    }

    /// The next event; each is sent whole.
    fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).expect("an event in time"), 0, "the stream has ended");
            if let Some(json) = line.strip_prefix("data: ") {
                return serde_json::from_str(json).expect("JSON");
            }
        }
    }

    /// The rest, until the server ends the stream: soon, whatever keeps the connection open
    /// meanwhile.
    fn rest(mut self) -> String {
        let (end, mut rest) = (Instant::now() + Duration::from_secs(12), String::new());
        while self.0.read_line(&mut rest).expect("an end in time") > 0 {
            assert!(Instant::now() < end, "the stream goes on: {rest}");
        }
        rest
    }
}

fn told(event: &Value) -> (&str, &str) {
    (event["id"].as_str().expect("id"), event["state"].as_str().expect("state"))
}

#[test]
fn an_approval_is_sent_when_it_appears_and_when_it_changes() {
    let people = People::new();
    let server = people.home.serve();
    // One that was answered before does not wait.
    let (run, done) = people.ask(&server, &people.list());
    assert_eq!(grant(&server, &people.ben, &done).status, 200);
    people.ended(&server, &run);
    let (_, first) = people.ask(&server, &people.list());
    let id = |approval: &Value| approval["id"].as_str().expect("id").to_owned();
    let mut listening = Listening::open(&server, &people.ben);
    let event = listening.next();
    assert_eq!(told(&event), (id(&first).as_str(), "pending"));
    assert_eq!(event, first, "an event is what the page has");
    let (_, second) = people.ask(&server, &people.read());
    assert_eq!(told(&listening.next()), (id(&second).as_str(), "pending"));
    let refused = "{\"answer\":\"refuse\",\"call_hash\":\"HASH\"}"
        .replace("HASH", first["call_hash"].as_str().expect("hash"));
    let headers = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", people.ben);
    let path = format!("/approvals/{}", id(&first));
    assert_eq!(server.send("POST", &path, &headers, refused.as_bytes()).status, 200);
    assert_eq!(told(&listening.next()), (id(&first).as_str(), "refused"));
    assert_eq!(grant(&server, &people.ben, &second).status, 200);
    let mut seen = vec![listening.next()];
    // The approval may be used before the stream is read.
    if told(&seen[0]).1 == "granted" {
        seen.push(listening.next());
    }
    assert_eq!(told(seen.last().expect("event")), (id(&second).as_str(), "spent"), "{seen:?}");
    assert_eq!(server.stop(), Some(0));
    assert!(!listening.rest().contains("data: "), "a stop ends it, with nothing more to tell");
}

/// The same users, limits and ends as for pages and tails.
#[test]
fn a_stream_is_for_permitted_users_and_ends_with_their_key() {
    let people = People::new();
    let server = people.home.serve();
    let ask = |key: &str, path: &str| {
        server.send("GET", path, &format!("Authorization: Bearer {key}\r\n{EVENTS}"), b"")
    };
    assert_eq!(ask("", "/approvals").status, 401);
    assert_eq!(ask(&people.asker, "/approvals").status, 403);
    assert_eq!(ask(&people.ben, "/approvals?state=pending").status, 422);
    let page = server.send(
        "GET",
        "/approvals",
        &format!("Authorization: Bearer {}\r\nAccept: */*\r\n", people.ben),
        b"",
    );
    assert!(page.status == 200 && page.json()["items"].is_array());
    // The share of one key.
    let mut open: Vec<Listening> = (0..8).map(|_| Listening::open(&server, &people.ben)).collect();
    let refused = ask(&people.ben, "/approvals");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (429, Some("too_many")));
    let last = open.pop().expect("stream");
    drop(open);
    people.home.expect(0, &["key", "revoke", "ben"]);
    let rest = last.rest();
    assert!(!rest.contains("data: "), "{rest}");
    // New requests are not sent to a user whose key was revoked.
    assert_eq!(ask(&people.ben, "/approvals").status, 401);
    assert_eq!(server.stop(), Some(0));
}
