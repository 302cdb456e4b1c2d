//! What remains for others next to many clients without a key, and next to one key that takes as
//! much as it can.

#![expect(clippy::disallowed_methods, reason = "tests are the clients of the server")]

use crate::support::{Server, TestHome, text};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Enough to fill all connections and the kernel's queue: if none gives way, the next client is not
/// even connected before the first one times out, after ten seconds for a head.
const ATTACKERS: usize = 400;
/// An attacker that finds the queue full continues without that connection.
const ATTACK_MAX: Duration = Duration::from_millis(50);
/// Less than that timeout. If connections give way it takes a moment.
const HONEST_MAX: Duration = Duration::from_secs(5);

/// The attack: before, no client could connect until the attackers timed out.
#[test]
fn silent_clients_and_unfinished_forms_lock_no_client_out() {
    let home = TestHome::init();
    let key = home.key("reader", "viewer");
    let server = home.serve();
    let form = format!(
        "POST /ui/login HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nkey=",
        server.address
    );
    for (what, sent) in [("silent", ""), ("half a head", "GET /tools HTTP/1.1\r\n"), ("a form", &form)] {
        let attackers: Vec<TcpStream> = (0..ATTACKERS).filter_map(|_| attacker(&server, sent)).collect();
        assert!(attackers.len() > 256, "{what}: only {} attackers were connected", attackers.len());
        let honest = connect(&server, HONEST_MAX);
        let honest = honest.unwrap_or_else(|e| panic!("{what}: the honest one is not connected: {e}"));
        honest.set_read_timeout(Some(HONEST_MAX)).expect("timeout");
        let asked = format!(
            "GET /tools HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n",
            server.address
        );
        { &honest }.write_all(asked.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        let read = { &honest }.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{what}: {read:?} {}", text(&answer));
        drop(attackers);
    }
    let metrics = text(&server.get(&key, "/metrics").body);
    let ended = metrics.lines().find_map(|line| line.strip_prefix("par_connections_ended_total "));
    let ended: usize = ended.and_then(|count| count.parse().ok()).expect("a count");
    assert!(ended > 0, "no connection gave way");
    assert_eq!(server.stop(), Some(0));
}

fn connect(server: &Server, time_max: Duration) -> std::io::Result<TcpStream> {
    TcpStream::connect_timeout(&server.address.parse().expect("address"), time_max)
}

fn attacker(server: &Server, sent: &str) -> Option<TcpStream> {
    let mut stream = connect(server, ATTACK_MAX).ok()?;
    // A connection that was displaced already accepts no more.
    let _sent = stream.write_all(sent.as_bytes());
    Some(stream)
}

/// The attack: before, ten wrong keys a minute locked out every key that had not been used since
/// the start.
#[test]
fn wrong_keys_keep_no_right_key_out() {
    let home = TestHome::init();
    let server = home.serve();
    let wrong = [format!("par_00000000_{}", "x".repeat(49)), "hello".to_owned()];
    for at in 0..5 {
        for _ in 0..10 {
            for wrong in &wrong {
                assert_eq!(server.get(wrong, "/tools").status, 401);
            }
        }
        let fresh = home.key(&format!("fresh-{at}"), "viewer");
        assert_eq!(server.get(&fresh, "/tools").status, 200);
    }
    assert_eq!(server.stop(), Some(0));
}

/// One operator's key could fill the disk. Its usage is on the ledger, so a restart does not reset
/// it.
#[test]
fn a_key_runs_no_more_within_an_hour_than_it_may() {
    let home = TestHome::init();
    home.configure("[paths]\nlogs = \"/var/log\"\n[limits]\nkey_runs_hour_max = 3\n");
    let (one, two) = (home.key("one", "operator"), home.key("two", "operator"));
    let server = home.serve();
    for _ in 0..3 {
        assert_eq!(server.run(&one, "health_check()").status, 200);
    }
    refused(&home, &server, &one, "its runs for this hour");
    assert_eq!(server.run(&two, "health_check()").status, 200, "another key");
    assert_eq!(server.stop(), Some(0));
    let server = home.serve();
    refused(&home, &server, &one, "its runs for this hour");
    assert_eq!(server.run(&two, "health_check()").status, 200);
    assert_eq!(server.stop(), Some(0));
    // The owner of the home is not subject to this limit.
    for _ in 0..4 {
        home.expect(0, &["run", "health_check()"]);
    }
}

#[test]
fn a_key_puts_no_more_on_the_ledger_within_an_hour_than_it_may() {
    const BYTES_MAX: u64 = 60_000;
    let home = TestHome::init();
    home.configure(&format!("[paths]\nlogs = \"/var/log\"\n[limits]\nkey_bytes_hour_max = {BYTES_MAX}\n"));
    let one = home.key("one", "operator");
    let spent = || {
        let of_runs = home.entries(&["kind:*"]).into_iter().filter(|header| {
            let kind = header["kind"].as_str().unwrap_or_default();
            ["run.", "model.", "call."].iter().any(|start| kind.starts_with(start))
        });
        of_runs.map(|header| header["payload_len"].as_u64().expect("length") + 1_024).sum::<u64>()
    };
    let server = home.serve();
    // Each run begins below the bound, and the next one after the bound is refused.
    while spent() < BYTES_MAX {
        assert_eq!(server.run(&one, &"words ".repeat(500)).status, 200);
    }
    refused(&home, &server, &one, "its bytes for this hour");
    assert_eq!(server.stop(), Some(0));
    let server = home.serve();
    refused(&home, &server, &one, "its bytes for this hour");
    // A run in progress ends there too: it can only send its reply.
    assert_eq!(server.stop(), Some(0));
    home.configure(&format!(
        "[paths]\nlogs = \"/var/log\"\n[limits]\nkey_bytes_hour_max = {}\n",
        spent() + 4_096
    ));
    let server = home.serve();
    let told = server.run(&one, &"words ".repeat(2_000)).json();
    assert_eq!((&told["status"], &told["limit"]), (&"limit".into(), &"key_bytes_hour_max".into()), "{told}");
}

/// 429 with the time to retry, and nothing on the ledger.
fn refused(home: &TestHome, server: &Server, key: &str, what: &str) {
    let entries = || home.entries(&["kind:*"]).len();
    let before = entries();
    for _ in 0..20 {
        let answer = server.run(key, "health_check()");
        assert_eq!(answer.status, 429, "{}", text(&answer.body));
        let problem = answer.json();
        assert_eq!(problem["code"], "too_many");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(what)), "{problem}");
        let head = answer.head.to_ascii_lowercase();
        let wait = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).expect("retry-after");
        assert!((1..=3_600).contains(&wait.parse::<u32>().expect("seconds")), "{wait}");
    }
    assert_eq!(entries(), before, "nothing is written of what is refused");
}

/// Rules see the same numbers, whether or not a caller has run before.
#[test]
fn rules_count_the_runs_of_a_caller() {
    let home = TestHome::init();
    home.add(
        "policies/70-few.cedar",
        "@id(\"few-runs\")\n@advice(\"wait an hour\")\n\
         forbid (principal in PAR::Role::\"operator\", action == PAR::Action::\"run\", resource)\n\
         when { context.run.runs_hour >= 2 || context.run.bytes_hour >= 1000000 };\n",
    );
    let (one, two) = (home.key("one", "operator"), home.key("two", "operator"));
    let server = home.serve();
    for _ in 0..2 {
        assert_eq!(server.run(&one, "health_check()").status, 200);
    }
    let answer = server.run(&one, "health_check()");
    assert_eq!(answer.status, 403);
    let detail = answer.json()["detail"].as_str().expect("detail").to_owned();
    assert!(detail.contains("few-runs") && detail.contains("wait an hour"), "{detail}");
    assert_eq!(server.run(&two, "health_check()").status, 200);
    assert_eq!(server.stop(), Some(0));
    let explained = home.par(&["policy", "explain", "run", "--as", "one"]);
    assert!(text(&explained.stdout).contains("few-runs"), "{}", text(&explained.stdout));
    let explained = home.par(&["policy", "explain", "run", "--as", "two"]);
    assert_eq!(explained.status.code(), Some(0), "{}", text(&explained.stdout));
    // A rule on powers other than runs cannot use such a number.
    home.add(
        "policies/70-few.cedar",
        "@id(\"few-exports\")\nforbid (principal, action == PAR::Action::\"export\", resource)\n\
         when { context.run.runs_hour >= 2 };\n",
    );
    let checked = home.par(&["policy", "check"]);
    assert_ne!(checked.status.code(), Some(0), "{}", text(&checked.stdout));
}

/// The live tails of all viewers used to take every connection from the stream of approvals.
#[test]
fn the_tails_of_one_key_leave_the_bell_of_another() {
    let home = TestHome::init();
    let (viewer, approver) = (home.key("reader", "viewer"), home.key("ben", "approver"));
    let server = home.serve();
    let open = |key: &str, path: &str| -> (String, TcpStream) {
        let mut stream = TcpStream::connect(&server.address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        let asked = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nAuthorization: Bearer {key}\r\n\r\n",
            server.address
        );
        stream.write_all(asked.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        let mut chunk = [0; 4_096];
        while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
            let count = stream.read(&mut chunk).expect("an answer");
            assert!(count > 0, "no answer");
            answer.extend_from_slice(&chunk[..count]);
        }
        (text(&answer).split(' ').nth(1).expect("status").to_owned(), stream)
    };
    let tails: Vec<(String, TcpStream)> = (0..32).map(|_| open(&viewer, "/audit")).collect();
    let taken = tails.iter().filter(|(status, _)| status == "200").count();
    let refused = tails.iter().filter(|(status, _)| status == "429").count();
    assert_eq!((taken, refused), (8, 24));
    assert_eq!(open(&approver, "/approvals").0, "200");
}
