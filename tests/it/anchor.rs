//! The ledger's checkpoints are anchored in a file and at a witness. Both reveal a ledger that was
//! rolled back or rewritten with every file and key of the host.

use crate::forge::{connect, forge, sign_again};
use crate::support::{Server, TestHome, copy_folder, text, until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use par::ledger::{Checkpoint, Head, Note, VerifierKey, proof};
use par::types::Digest;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const NAME: &str = "witness.example/w1";

/// A witness that signs what extends the head it has seen, and remembers it.
#[derive(Clone)]
struct Witness {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The keys of known logs; without any, the first log that comes becomes known.
    seen: Option<Head>,
    known: Option<VerifierKey>,
    /// Every request's old size.
    asked: Vec<u64>,
    /// Faulty answers to give before correct ones.
    broken: Vec<&'static str>,
}

fn secret() -> SigningKey {
    SigningKey::from_bytes(&[9; 32])
}

/// Key hash of the type for cosignatures.
fn key_hash() -> [u8; 4] {
    let public = secret().verifying_key().to_bytes();
    let digest = Digest::sha256_parts(&[NAME.as_bytes(), b"\n\x04", &public]);
    digest.0[..4].try_into().expect("four")
}

fn witness_key() -> String {
    let key = [&[4][..], &secret().verifying_key().to_bytes()].concat();
    let hash: String = key_hash().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{NAME}+{hash}+{}", STANDARD.encode(key))
}

impl Witness {
    fn start(known: VerifierKey) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let url = format!("http://{}/w", listener.local_addr().expect("address"));
        let state = Arc::new(Mutex::new(State { known: Some(known), ..State::default() }));
        let witness = Self { url, state };
        let serving = witness.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serving.serve(stream);
            }
        });
        witness
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("state")
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("stream"));
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|n| n > 0) && line != "\r\n" {
            head.push_str(&line);
            line.clear();
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).expect("body");
        assert!(head.starts_with("POST /w/add-checkpoint HTTP/1.1\r\n"), "{head}");
        let (status, kind, answer) = self.answer(&text(&body));
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            answer.len()
        );
        stream.write_all((head + &answer).as_bytes()).ok();
    }

    /// Answers as tlog-witness specifies, in its order.
    fn answer(&self, body: &str) -> (u16, &'static str, String) {
        const PLAIN: &str = "text/plain";
        let mut state = self.state();
        let (asked, note) = body.split_once("\n\n").expect("an empty line");
        let mut lines = asked.lines();
        let old = lines.next().and_then(|line| line.strip_prefix("old ")).expect("old");
        let old: u64 = old.parse().expect("a size");
        state.asked.push(old);
        match state.broken.pop() {
            Some("503") => return (503, PLAIN, String::new()),
            Some("other") => return (200, PLAIN, "\u{2014} another.witness AAAAAAAAAAAAAAAA\n".to_owned()),
            _ => {}
        }
        let path: Vec<Digest> = lines
            .map(|line| Digest(STANDARD.decode(line).expect("base64").try_into().expect("32 bytes")))
            .collect();
        let note = Note::parse(note).expect("a note");
        let now = Checkpoint::parse(note.text()).expect("a checkpoint");
        let known = state.known.as_ref().expect("a log");
        if now.origin != known.name() {
            return (404, PLAIN, String::new());
        }
        if !note.is_signed_by(known) {
            return (403, PLAIN, String::new());
        }
        let seen = state.seen.map_or(0, |seen| seen.size);
        if old > now.head.size {
            return (400, PLAIN, String::new());
        }
        if old != seen {
            return (409, "text/x.tlog.size", format!("{seen}\n"));
        }
        if let Some(seen) = state.seen {
            if seen.size == now.head.size && seen.root != now.head.root {
                return (409, PLAIN, String::new());
            }
            if !proof::is_extended(seen, now.head, &path) {
                return (422, PLAIN, String::new());
            }
        }
        state.seen = Some(now.head);
        let time = 1_700_000_000_u64 + now.head.size;
        let message = format!("cosignature/v1\ntime {time}\n{}", note.text());
        let signature = secret().sign(message.as_bytes()).to_bytes();
        let line = STANDARD.encode([&key_hash()[..], &time.to_be_bytes(), &signature].concat());
        (200, PLAIN, format!("\u{2014} {NAME} {line}\n"))
    }
}

/// Anchors every 200 ms instead of every hour.
fn configure(home: &TestHome, anchor: &str, more: &str) {
    let kept = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    let kept = kept.split("\n[ledger]").next().expect("a part");
    home.configure(&format!("{kept}\n[ledger]\nanchor = \"{anchor}\"\nanchor_every_ms = 200\n{more}\n"));
}

fn witnessed(home: &TestHome) -> Witness {
    let key = home.expect(0, &["audit", "key"]);
    let witness = Witness::start(VerifierKey::parse(key.trim()).expect("key"));
    configure(home, &witness.url, &format!("anchor_key = \"{}\"", witness_key()));
    witness
}

fn anchors(home: &TestHome) -> Vec<Value> {
    let headers = home.entries(&["kind:anchor"]);
    headers.iter().map(|header| home.entry(header["seq"].as_u64().expect("seq"))).collect()
}

fn metric(server: &Server, key: &str, name: &str) -> Option<u64> {
    let told = text(&server.get(key, "/metrics").body);
    told.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn verify(home: &TestHome, code: i32, more: &[&str]) -> Value {
    serde_json::from_str(&home.expect(code, &[&["audit", "verify", "--json"], more].concat())).expect("JSON")
}

/// Checkpoints are cosigned, recorded with the signature, and extend each other, also over a
/// restart and after a lost answer. An idle ledger is not anchored repeatedly.
#[test]
fn a_witness_signs_what_grows() {
    let home = TestHome::init();
    let key = home.key("watch", "admin");
    let witness = witnessed(&home);
    witness.state().broken = vec!["503", "503"];
    let server = home.serve();
    until("an anchor", || !home.entries(&["kind:anchor"]).is_empty());
    assert!(metric(&server, &key, "par_anchor_failures_total").is_some_and(|failed| failed >= 2));
    assert_eq!(metric(&server, &key, "par_anchor_conflict"), Some(0));
    let first = anchors(&home).remove(0);
    assert_eq!(first["payload"]["where"], witness.url.as_str());
    assert!(
        first["payload"]["cosignature"].as_str().expect("line").starts_with(&format!("\u{2014} {NAME} "))
    );
    server.run(&key, "how is this server doing?");
    until("another anchor", || home.entries(&["kind:anchor"]).len() > 1);
    assert!(text(&server.get(&key, "/readyz").body).starts_with("ready\nledger: "));
    until("the standing", || server.get(&key, "/health").json()["anchor"]["size"] == witness_size(&witness));
    assert_eq!(server.stop(), Some(0));
    // Each extends the one before: nothing was submitted twice.
    let sizes: Vec<u64> =
        anchors(&home).iter().map(|one| one["payload"]["size"].as_u64().expect("size")).collect();
    assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
    let asked = witness.state().asked.clone();
    assert_eq!(asked.iter().find(|old| **old > 0), sizes.first(), "it goes on from the first: {asked:?}");
    let report = verify(&home, 0, &[]);
    assert_eq!(report["anchors"].as_u64(), Some(sizes.len() as u64), "{report}");

    // The file that remembers anchors between starts is only a convenience.
    std::fs::remove_file(home.path("data/anchor")).expect("removed");
    let server = home.serve();
    until("it goes on", || witness.state().seen.is_some_and(|seen| seen.size > *sizes.last().expect("one")));
    until("recorded", || home.entries(&["kind:anchor"]).len() > sizes.len());
    assert_eq!(server.stop(), Some(0));
    assert_eq!(verify(&home, 0, &[])["verdict"], "verified_unanchored");
    let doctor = home.expect(0, &["doctor", "--quick"]);
    assert!(doctor.lines().any(|line| line.starts_with("ok") && line.contains("anchor")), "{doctor}");
}

fn witness_size(witness: &Witness) -> u64 {
    witness.state().seen.map_or(0, |seen| seen.size)
}

/// Nothing happens but starts and stops: each anchor covers its own entry, and no other follows.
#[test]
fn an_idle_ledger_is_anchored_once() {
    let home = TestHome::init();
    let key = home.key("watch", "admin");
    let witness = witnessed(&home);
    let server = home.serve();
    let health = || server.get(&key, "/health").json();
    until("all is anchored", || {
        let health = health();
        health["anchor"]["size"].as_u64().expect("size") + 1 == health["ledger"]["size"]
    });
    let size = health()["ledger"]["size"].as_u64().expect("size");
    // Many times the interval: no event marks it.
    let asked = witness.state().asked.len();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(health()["ledger"]["size"].as_u64(), Some(size));
    assert_eq!(witness.state().asked.len(), asked);
}

/// A witness refuses a ledger that was restored to yesterday's state, or rewritten and signed again
/// with all its files and keys, and the refusal is reported loudly.
#[test]
fn a_witness_refuses_a_rollback_and_a_rewrite() {
    let home = TestHome::init();
    let key = home.key("watch", "admin");
    let witness = witnessed(&home);
    let yesterday = TestHome::empty();
    copy_folder(&home.root(), &yesterday.root());
    let server = home.serve();
    server.run(&key, r#"read_file(path="/etc/shadow")"#);
    let size = server.get(&key, "/health").json()["ledger"]["size"].as_u64().expect("size");
    until("an anchor over it", || witness_size(&witness) >= size);
    until("recorded", || !home.entries(&["kind:anchor"]).is_empty());
    assert_eq!(server.stop(), Some(0));

    let rewritten = TestHome::empty();
    copy_folder(&home.root(), &rewritten.root());
    let denied = rewritten.entries(&["kind:call.decision", "decision:deny"])[0]["seq"].as_u64().expect("seq");
    forge(&rewritten, denied, |header, _| {
        header.insert("decision".to_owned(), json!("allow"));
    });
    // The entries that record the anchors reveal it.
    let found = verify(&rewritten, 5, &[]);
    let at = found["findings"][0]["seq"].as_u64().expect("an entry");
    assert_eq!(rewritten.entry(at)["header"]["kind"], "anchor", "{found}");

    for (what, other) in [("rolled back", &yesterday), ("rewritten", &rewritten)] {
        configure(other, &witness.url, &format!("anchor_key = \"{}\"", witness_key()));
        let server = other.serve();
        until(what, || metric(&server, &key, "par_anchor_conflict") == Some(1));
        let ready = text(&server.get(&key, "/readyz").body);
        // The rewritten entries contradict the anchors of their own ledger, which the server finds.
        let is_ready = ready.starts_with("ready\nwarning: anchor\nledger: ");
        assert!(is_ready || what == "rewritten" && ready.starts_with("ledger_damaged\n"), "{what}: {ready}");
        assert!(server.log().contains("anchor: CONFLICT"), "{what}: {}", server.log());
        assert_eq!(server.stop(), Some(0));
        let doctor = other.expect(1, &["doctor", "--quick"]);
        assert!(
            doctor
                .lines()
                .any(|line| line.starts_with("fail") && line.contains("not the one that was anchored")),
            "{what}: {doctor}"
        );
    }
    // A rolled-back log that grows past the size the witness saw has another root at that size.
    let server = yesterday.serve();
    let grown = || server.get(&key, "/health").json()["ledger"]["size"].as_u64().expect("size");
    while grown() <= witness_size(&witness) {
        server.run(&key, "how is this server doing?");
    }
    until("the proof fails", || server.log().contains("does not extend the tree that it has seen"));
}

/// A correct answer signed by another witness is not an anchor.
#[test]
fn a_cosignature_by_another_witness_is_a_conflict() {
    let home = TestHome::init();
    let key = home.key("watch", "admin");
    let witness = witnessed(&home);
    witness.state().broken = vec!["other"];
    let server = home.serve();
    until("refused", || server.log().contains("anchor: CONFLICT"));
    until("taken later", || !home.entries(&["kind:anchor"]).is_empty());
    until("over", || metric(&server, &key, "par_anchor_conflict") == Some(0));
}

/// The server appends to a file outside of `data/`, although it cannot write anywhere else there,
/// and the file's last note reveals a changed ledger.
#[test]
fn a_file_reveals_a_changed_ledger() {
    let home = TestHome::init();
    let key = home.key("watch", "admin");
    let file = home.beside("anchors");
    let path = file.to_str().expect("path").to_owned();
    configure(&home, &format!("file:{path}"), "");
    let yesterday = TestHome::empty();
    copy_folder(&home.root(), &yesterday.root());
    let server = home.serve();
    let notes = || std::fs::read_to_string(&file).unwrap_or_default();
    until("a note", || Note::last(&notes()).is_some());
    let run = server.run(&key, r#"read_file(path="/etc/shadow")"#).json();
    let last_of_run = run["ledger"]["last"].as_u64().expect("entry");
    let noted = || Note::last(&notes()).and_then(|note| Some(Checkpoint::parse(note.text()).ok()?.head.size));
    until("a note that covers the run", || noted().is_some_and(|size| size > last_of_run));
    until("recorded", || home.entries(&["kind:anchor"]).len() > 1);
    assert_eq!(server.stop(), Some(0));
    let last = Checkpoint::parse(Note::last(&notes()).expect("a note").text()).expect("a checkpoint");
    let report = verify(&home, 0, &["--checkpoint", &path]);
    assert_eq!((&report["verdict"], &report["anchored"]), (&json!("verified"), &json!(last.head.size)));

    // Rewritten and signed again: the file reveals it, both to a verifier and at the next start.
    let rewritten = TestHome::empty();
    copy_folder(&home.root(), &rewritten.root());
    for anchor in rewritten.entries(&["kind:anchor"]) {
        let seq = anchor["seq"].as_u64().expect("seq") as i64;
        let db = connect(&rewritten.path("data/ledger.db"));
        db.execute("UPDATE payload SET salt = NULL, body = NULL WHERE seq = ?1", [seq]).expect("erased");
    }
    sign_again(&rewritten);
    let denied = rewritten.entries(&["kind:call.decision", "decision:deny"])[0]["seq"].as_u64().expect("seq");
    forge(&rewritten, denied, |header, _| {
        header.insert("decision".to_owned(), json!("allow"));
    });
    let report = verify(&rewritten, 5, &["--checkpoint", &path]);
    let found = report["findings"].as_array().expect("list").iter();
    assert!(found.into_iter().any(|finding| finding["verdict"] == "diverged"), "{report}");
    for (what, other) in [("rolled back", &yesterday), ("rewritten", &rewritten)] {
        let before = notes();
        let server = other.serve();
        until(what, || server.log().contains("anchor: CONFLICT"));
        assert_eq!(notes(), before, "{what}: nothing is appended to another history");
    }

    // A file that was removed is reported by name.
    let server = home.serve();
    std::fs::rename(&file, home.beside("gone")).expect("renamed");
    until("missed", || server.log().contains("was removed or replaced"));
    assert!(!file.exists());
}

/// An invalid place is refused at the start, by name.
#[test]
fn an_invalid_place_is_refused() {
    let home = TestHome::init();
    let inside = format!("file:{}", home.path("data/anchors").display());
    for (anchor, more, why) in [
        ("file:relative", "", "absolute"),
        (inside.as_str(), "", "is in `data/`"),
        ("file:/proc/self", "", "anchor"),
        ("http://192.0.2.1/w", "", "https"),
        ("https://witness.example", "", "anchor_key"),
        ("journal", "anchor_key = \"x\"", "does not name a witness"),
        ("nonsense", "", "not a valid URL"),
    ] {
        configure(&home, anchor, more);
        let output = home.par(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(output.status.code(), Some(2), "{anchor}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why), "{anchor}: {}", text(&output.stderr));
    }
    // A line of the log that contains the whole note serves as well as the note.
    configure(&home, "journal", "");
    let server = home.serve();
    until("a line", || server.log().contains("anchor: the newest checkpoint"));
    until("recorded", || !home.entries(&["kind:anchor"]).is_empty());
    let log = home.beside("journal.txt");
    std::fs::write(&log, server.log()).expect("log");
    assert_eq!(server.stop(), Some(0));
    let report = verify(&home, 0, &["--checkpoint", log.to_str().expect("path")]);
    assert_eq!(report["verdict"], "verified", "{report}");
}
