//! What an attacker can do to a ledger with its files and the keys next to it.

use crate::support::TestHome;
use ed25519_dalek::SigningKey;
use par::ledger::{Checkpoint, Header, Note, Reader};
use par::types::Digest;
use par::types::json::canonical;
use rusqlite::{Connection, params};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Changes header and payload of the entry `seq`, and rebuilds commitment and chain after it.
/// Removes what could reveal it: the high-water mark and state.db.
/// tell otherwise, the high-water mark and state.db, goes.
pub(crate) fn forge(home: &TestHome, seq: u64, change: impl FnOnce(&mut Map<String, Value>, &mut Value)) {
    let path = home.path("data/ledger.db");
    let reader = Reader::open(&path).expect("reader");
    let size = reader.size().expect("size");
    let stored = reader.entry(seq).expect("read").expect("there");
    let mut payload: Value = serde_json::from_slice(&stored.body.expect("payload")).expect("JSON");
    let mut fields = stored.header.fields;
    change(&mut fields, &mut payload);
    let body = canonical(&payload).expect("canonical");
    let salt = [7_u8; 32];
    let commitment = Digest::sha256_parts(&[b"par/payload/1\0", &salt, body.as_bytes()]);
    fields.insert("payload".to_owned(), json!(commitment.hex()));
    fields.insert("payload_len".to_owned(), json!(body.len()));
    let db = connect(&path);
    db.execute(
        "UPDATE payload SET salt = ?2, body = ?3 WHERE seq = ?1",
        params![seq as i64, &salt[..], body.as_bytes()],
    )
    .expect("payload");
    let write = |seq: u64, fields: Map<String, Value>| {
        let header = canonical(&Value::Object(fields)).expect("canonical");
        Header::parse(header.as_bytes()).expect("a header");
        db.execute("UPDATE entry SET header = ?2 WHERE seq = ?1", params![seq as i64, header.as_bytes()])
            .expect("header");
    };
    write(seq, fields);
    for next in seq + 1..size {
        let before = reader.entry(next - 1).expect("read").expect("there").leaf();
        let mut fields = reader.entry(next).expect("read").expect("there").header.fields;
        fields.insert("prev".to_owned(), json!(before.hex()));
        write(next, fields);
    }
    for name in ["high-water", "state.db"] {
        std::fs::remove_file(home.path("data").join(name)).expect("removed");
    }
    sign_again(home);
}

/// Signs the ledger as it is now with the keys next to it.
pub(crate) fn sign_again(home: &TestHome) {
    let path = home.path("data/ledger.db");
    let reader = Reader::open(&path).expect("reader");
    let size = reader.size().expect("size");
    let seed: [u8; 32] = std::fs::read(home.path("data/log.key")).expect("key").try_into().expect("32 bytes");
    let line = std::fs::read_to_string(home.path("data/epoch.key")).expect("key");
    let words: Vec<&str> = line.split_whitespace().collect();
    let log = SigningKey::from_bytes(&seed);
    let epoch = SigningKey::from_bytes(&Digest::from_hex(words[3]).expect("seed").0);
    let origin = format!("par/{}", reader.entry(0).expect("read").expect("genesis").header.log);
    let name = format!("{origin}/epoch/{}", words[0]);
    let head = reader.head_at(size).expect("tree");
    let text = Checkpoint { origin: origin.clone(), head, extensions: Vec::new() }.text();
    let note = Note::sign(text, &[(&origin, &log), (&name, &epoch)]).to_string();
    let db = connect(&path);
    db.execute("DELETE FROM checkpoint", []).expect("checkpoints");
    let row = params![(size / 1_024) as i64, size as i64, note.as_bytes()];
    db.execute("INSERT INTO checkpoint VALUES (?1, ?2, ?3)", row).expect("checkpoint");
}

#[expect(clippy::disallowed_methods, reason = "tests write without the ledger's writer")]
pub(crate) fn connect(path: &Path) -> Connection {
    Connection::open(path).expect("database")
}
