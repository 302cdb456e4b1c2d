//! Ledgers signed with the keys next to them, and rechained from some entry on.

use super::{Against, Attack, Base, db, remove, size, sql};
use crate::forge::{forge, sign_again};
use crate::support::TestHome;
use ed25519_dalek::SigningKey;
use par::ledger::{Checkpoint, Head, Note, Reader, VerifierKey};
use par::types::Digest;
use rusqlite::params;
use serde_json::json;

/// Notes signed with those keys that say something other than checkpoints do.
pub(super) fn checkpoints() -> Vec<Attack> {
    let young = sql(
        Base::Young,
        &[
            ("the checkpoints gone", "DELETE FROM checkpoint"),
            ("a checkpoint under another size", "UPDATE checkpoint SET size = size - 1"),
            ("a checkpoint under another span", "UPDATE checkpoint SET id = 5"),
            ("a checkpoint twice", "INSERT INTO checkpoint SELECT 7, size, note FROM checkpoint"),
            (
                "a checkpoint with an empty line more",
                "UPDATE checkpoint SET note = CAST(note || x'0a' AS BLOB)",
            ),
            ("a checkpoint that is not a note", "UPDATE checkpoint SET note = x'00'"),
            (
                "a checkpoint with carriage returns",
                "UPDATE checkpoint SET note = CAST(replace(note, x'0a', x'0d0a') AS BLOB)",
            ),
        ],
    );
    let note = |name: &str, make: fn(&Keys, u64, Head) -> (u64, String)| {
        Attack::new(Base::Young, name, move |home, _| {
            let reader = Reader::open(&home.path("data/ledger.db")).expect("reader");
            let size = reader.size().expect("size") - 1;
            let (size, note) = make(&Keys::new(home), size, reader.head_at(size).expect("root"));
            let row = params![(size / 1_024) as i64, size as i64, note.into_bytes()];
            db(home).execute("UPDATE checkpoint SET id = ?1, size = ?2, note = ?3", row).expect("checkpoint");
        })
    };
    let signed = vec![
        note("a checkpoint of another root, signed", |keys, size, _| {
            (size, keys.note(&keys.text(size, Digest::sha256(b"other"))))
        }),
        note("a checkpoint of more entries, signed", |keys, size, head| {
            (size + 9, keys.note(&keys.text(size + 9, head.root)))
        }),
        note("a checkpoint of no entry, signed", |keys, _, _| {
            (0, keys.note(&keys.text(0, Digest::sha256(b""))))
        }),
        note("a checkpoint with a leading zero, signed", |keys, size, head| {
            (size, keys.note(&keys.text(size, head.root).replacen('\n', "\n0", 1)))
        }),
        note("a checkpoint with a fourth line, signed", |keys, size, head| {
            (size, keys.note(&(keys.text(size, head.root) + "more\n")))
        }),
        note("a checkpoint of another name, signed", |keys, size, head| {
            (size, keys.note(&keys.text(size, head.root).replacen("par/", "rap/", 1)))
        }),
        note("a checkpoint without the epoch's signature", |keys, size, head| {
            (size, without(&keys.note(&keys.text(size, head.root)), 1))
        }),
        note("a checkpoint without the log key's signature", |keys, size, head| {
            (size, without(&keys.note(&keys.text(size, head.root)), 0))
        }),
        note("a checkpoint with a third signature", |keys, size, head| {
            let note = keys.note(&keys.text(size, head.root));
            (size, note.clone() + note.lines().last().expect("line") + "\n")
        }),
        note("a checkpoint signed by the log key twice", |keys, size, head| {
            let note = keys.note(&keys.text(size, head.root));
            (size, without(&note, 1) + note.lines().nth(4).expect("line") + "\n")
        }),
        note("a checkpoint signed as another epoch", |keys, size, head| {
            let keys = Keys { epoch_name: keys.epoch_name.replace("/1", "/2"), ..keys.clone() };
            (size, keys.note(&keys.text(size, head.root)))
        }),
    ];
    young.into_iter().chain(signed).collect()
}

/// Every entry from some point on rebuilt.
pub(super) fn rewrites() -> Vec<Attack> {
    let later = |_: u64, header: String| header.replacen("\"wall_us\":1", "\"wall_us\":2", 1);
    vec![
        Attack::new(Base::Young, "all rechained from an entry on", move |home, _| {
            rewrite(home, 5, later);
        }),
        Attack::new(Base::Young, "all rechained, and the mark gone", move |home, _| {
            rewrite(home, 5, later);
            remove(home, &["high-water"]);
        }),
        Attack::new(Base::Young, "all rechained and re-signed, beside the mark", move |home, _| {
            rewrite(home, 5, later);
            sign_again(home);
        }),
        Attack::new(Base::Young, "all rechained and re-signed, without the mark", move |home, _| {
            rewrite(home, 5, later);
            remove(home, &["high-water"]);
            sign_again(home);
        })
        .against(Against::Kept),
        Attack::new(Base::Tall, "all rechained and re-signed, not the tiles", move |home, _| {
            rewrite(home, 5, later);
            remove(home, &["high-water"]);
            sign_again(home);
        }),
    ]
}

/// Invalid headers, with chain and signatures rebuilt after them.
pub(super) fn headers() -> Vec<Attack> {
    let header = |name: &str, change: fn(String) -> String| {
        Attack::new(Base::Young, &format!("a header {name}, all rebuilt"), move |home, _| {
            rewrite(home, 6, |seq, header| if seq == 6 { change(header) } else { header });
            remove(home, &["high-water"]);
            sign_again(home);
        })
    };
    vec![
        header("with null", |h| h.replacen('{', r#"{"a":null,"#, 1)),
        header("with an object", |h| h.replacen('{', r#"{"a":{},"#, 1)),
        header("with a list of numbers", |h| h.replacen('{', r#"{"a":[1],"#, 1)),
        header("with a fraction", |h| h.replacen('{', r#"{"a":1.5,"#, 1)),
        header("with an exponent", |h| h.replacen('{', r#"{"a":1e3,"#, 1)),
        header("with 2^53", |h| h.replacen('{', r#"{"a":9007199254740992,"#, 1)),
        header("with 2^70", |h| h.replacen('{', r#"{"a":1180591620717411303424,"#, 1)),
        header("with a name twice", |h| h.replacen('{', r#"{"boot":"x","#, 1)),
        header("with half a character", |h| h.replacen('{', r#"{"a":"\ud800","#, 1)),
        header("with a control character", |h| h.replacen('{', "{\"a\":\"\u{1}\",", 1)),
        header("that is a list", |_| "[]".to_owned()),
        header("with trailing text", |h| h + "{}"),
        header("after a byte order mark", |h| format!("\u{feff}{h}")),
        header("of 65,536 bytes", |h| {
            let blank = " ".repeat(65_536 - h.len());
            h.replacen('{', &format!("{{{blank}"), 1)
        }),
        header("without `boot`", |h| h.replacen("\"boot\":", "\"boat\":", 1)),
        header("without `prev`", |h| h.replacen("\"prev\":", "\"past\":", 1)),
        header("without `mono_us`", |h| h.replacen("\"mono_us\":", "\"mono\":", 1)),
        header("of another format", |h| h.replacen("par/entry/1", "par/entry/2", 1)),
        header("of another log", |h| h.replacen("\"log\":\"", "\"log\":\"0", 1)),
        header("that begins another log", |h| {
            let (start, rest) = h.split_once("\"kind\":\"").expect("kind");
            format!("{start}\"kind\":\"genesis\"{}", rest.split_once('"').expect("kind").1)
        }),
        header("with another number", |h| h.replacen("\"seq\":6", "\"seq\":7", 1)),
        header("without `wall_us`", |h| h.replacen("\"wall_us\":", "\"wall\":", 1)),
        header("with a time as text", |h| h.replacen("\"mono_us\":", "\"mono_us\":\"\",\"mono\":", 1)),
        header("with a negative `ref`", |h| h.replacen('{', r#"{"ref":-5,"#, 1)),
        header("with text for `policies`", |h| h.replacen('{', r#"{"policies":"a","#, 1)),
        header("with a short digest of its policy", |h| h.replacen('{', r#"{"manifest":"00","#, 1)),
        header("with a number as text", |h| h.replacen("\"seq\":6", "\"seq\":\"6\"", 1)),
        header("with another length of its payload", |h| {
            h.replacen("\"payload_len\":", "\"payload_len\":1", 1)
        }),
        header("with text for `ref`", |h| h.replacen('{', r#"{"ref":"5","#, 1)),
        header("with a number for `tool`", |h| h.replacen('{', r#"{"tool":5,"#, 1)),
        header("with a digest in capitals", |h| {
            let (start, rest) = h.split_once("\"payload\":\"").expect("payload");
            format!("{start}\"payload\":\"{}{}", rest[..64].to_uppercase(), &rest[64..])
        }),
    ]
}

/// Changes that damage nothing; the chain is rebuilt if necessary.
pub(crate) fn harmless() -> Vec<Attack> {
    let header = |name: &str, change: fn(String) -> String| {
        Attack::new(Base::Young, name, move |home, _| {
            rewrite(home, 6, |seq, header| if seq == 6 { change(header) } else { header });
            remove(home, &["high-water"]);
            sign_again(home);
        })
    };
    vec![
        header("an unknown field", |h| h.replacen('{', r#"{"a":["b",""],"#, 1)),
        header("an unknown kind", |h| h.replacen("\"kind\":\"", "\"kind\":\"x.", 1)),
        header("a clock before 1970", |h| h.replacen("\"wall_us\":", "\"wall_us\":-", 1)),
        header("blanks: the bytes are hashed as they are", |h| h.replacen('{', "{ ", 1)),
        Attack::new(Base::Young, "the mark gone", |home, _| remove(home, &["high-water"])),
        Attack::new(Base::Young, "the mark emptied", |home, _| {
            std::fs::write(home.path("data/high-water"), "").expect("emptied");
        }),
        Attack::new(Base::Young, "another checkpoint by the same keys", |home, _| sign_again(home)),
    ]
}

/// Changed entries of keys; all later entries are rebuilt and signed with the keys that are there.
pub(super) fn epochs() -> Vec<Attack> {
    let seal = |name: &str, which: usize, change: fn(&mut serde_json::Value, &Keys)| {
        let name = format!("a change of keys {name}, all rebuilt");
        Attack::new(Base::Old, &name, move |home, _| {
            let keys = Keys::new(home);
            forge(home, seals(home)[which], |_, payload| change(payload, &keys));
        })
    };
    let genesis = |name: &str, member: &'static str, value: fn(&Keys) -> String| {
        Attack::new(Base::Old, &format!("a genesis with {name}, all rebuilt"), move |home, _| {
            let value = value(&Keys::new(home));
            forge(home, 0, |_, payload| payload[member] = json!(value));
        })
    };
    let rebuilt = |name: &str, from: fn(&[u64]) -> u64| {
        Attack::new(Base::Old, name, move |home, _| {
            rewrite(home, from(&seals(home)), |_, h| h.replacen("\"wall_us\":1", "\"wall_us\":2", 1));
            remove(home, &["high-water"]);
            sign_again(home);
        })
    };
    vec![
        rebuilt("all epochs rebuilt with the live keys", |_| 1),
        rebuilt("an epoch rebuilt from the entry before its seal", |seals| seals[1] - 1),
        rebuilt("an epoch rebuilt from its first entry", |seals| seals[0] + 1),
        seal("of another number", 1, |payload, _| payload["epoch"] = json!(7)),
        seal("without a seal", 1, |payload, _| drop(payload.as_object_mut().expect("object").remove("seal"))),
        seal("to a key that its seal does not name", 1, |payload, keys| {
            payload["key"] = json!(keys.vkey(&keys.epoch_name, 9));
        }),
        seal("with a seal by the live keys", 0, |payload, keys| {
            let seal = payload["seal"].as_str().expect("seal").to_owned();
            let text = seal.split_once("\n\n").expect("text").0.to_owned() + "\n";
            payload["seal"] = json!(keys.note(&text));
        }),
        seal("with a word of its seal changed", 0, |payload, _| {
            let seal = payload["seal"].as_str().expect("seal").replacen("successor", "succeeded", 1);
            payload["seal"] = json!(seal);
        }),
        Attack::new(Base::Old, "a change of keys with the seal of the one before, all rebuilt", |home, _| {
            let seals = seals(home);
            let reader = Reader::open(&home.path("data/ledger.db")).expect("reader");
            let body = reader.entry(seals[0]).expect("read").expect("there").body.expect("payload");
            let first: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
            forge(home, seals[1], |_, payload| payload["seal"] = first["seal"].clone());
        }),
        Attack::new(Base::Old, "a change of keys under another kind, all rebuilt", |home, _| {
            forge(home, seals(home)[1], |header, _| drop(header.insert("kind".to_owned(), json!("start"))));
        }),
        Attack::new(Base::Old, "a change of keys taken out, all rebuilt", |home, _| {
            take_out(home, seals(home)[1]);
        }),
        Attack::new(Base::Old, "the first change of keys taken out, all rebuilt", |home, _| {
            take_out(home, seals(home)[0]);
        }),
        Attack::new(Base::Old, "a change of keys gone", |home, _| {
            db(home).execute("DELETE FROM entry WHERE seq = ?1", [seals(home)[1] as i64]).expect("gone");
        }),
        genesis("another log key", "log_key", |keys| keys.vkey(&keys.origin, 9)),
        genesis("another key of epoch 1", "epoch_key", |keys| {
            keys.vkey(&format!("{}/epoch/1", keys.origin), 9)
        }),
        genesis("another name", "origin", |_| "par/00".to_owned()),
        genesis("a key that its hash does not match", "log_key", |keys| {
            keys.vkey(&keys.origin, 9).replacen(&keys.origin, "par/00", 1)
        }),
    ]
}

/// The keys next to a ledger, as an attacker on the host has them.
#[derive(Clone)]
struct Keys {
    origin: String,
    log: SigningKey,
    epoch_name: String,
    epoch: SigningKey,
}

impl Keys {
    fn new(home: &TestHome) -> Self {
        let seed = std::fs::read(home.path("data/log.key")).expect("key");
        let line = std::fs::read_to_string(home.path("data/epoch.key")).expect("key");
        let words: Vec<&str> = line.split_whitespace().collect();
        let genesis = Reader::open(&home.path("data/ledger.db")).expect("reader").entry(0).expect("read");
        let origin = format!("par/{}", genesis.expect("genesis").header.log);
        Self {
            epoch_name: format!("{origin}/epoch/{}", words[0]),
            origin,
            log: SigningKey::from_bytes(&seed.try_into().expect("32 bytes")),
            epoch: SigningKey::from_bytes(&Digest::from_hex(words[3]).expect("seed").0),
        }
    }

    fn text(&self, size: u64, root: Digest) -> String {
        Checkpoint { origin: self.origin.clone(), head: Head { size, root }, extensions: Vec::new() }.text()
    }

    fn note(&self, text: &str) -> String {
        Note::sign(text.to_owned(), &[(&self.origin, &self.log), (&self.epoch_name, &self.epoch)]).to_string()
    }

    /// The verifier key of an invented key under `name`.
    fn vkey(&self, name: &str, seed: u8) -> String {
        VerifierKey::new(name.to_owned(), &SigningKey::from_bytes(&[seed; 32])).to_string()
    }
}

/// A note without one of its signature lines.
fn without(note: &str, line: usize) -> String {
    let (text, signed) = note.split_once("\n\n").expect("note");
    let left: String = signed.lines().enumerate().filter(|(at, _)| *at != line).map(|(_, l)| l).collect();
    format!("{text}\n\n{left}\n")
}

/// Changes each header from `from` on, and chains it to the one before.
fn rewrite(home: &TestHome, from: u64, change: impl Fn(u64, String) -> String) {
    let db = db(home);
    let header = |seq: u64| -> Vec<u8> {
        db.query_row("SELECT header FROM entry WHERE seq = ?1", [seq as i64], |row| row.get(0))
            .expect("header")
    };
    for seq in from..size(&db) {
        let before = Digest::sha256_parts(&[&[0], &header(seq - 1)]).hex();
        let mut text = change(seq, String::from_utf8(header(seq)).expect("text"));
        if seq > from
            && let Some(at) = text.find("\"prev\":\"")
        {
            text.replace_range(at + 8..at + 72, &before);
        }
        let row = params![seq as i64, text.as_bytes()];
        db.execute("UPDATE entry SET header = ?2 WHERE seq = ?1", row).expect("header");
    }
}

/// Removes an entry, renumbers those after it, and rebuilds chain and signatures.
fn take_out(home: &TestHome, seq: u64) {
    let rows = db(home);
    for table in ["entry", "payload"] {
        let sql = format!(
            "DELETE FROM {table} WHERE seq = {seq}; UPDATE {table} SET seq = -seq WHERE seq > {seq};
             UPDATE {table} SET seq = -seq - 1 WHERE seq < 0;"
        );
        rows.execute_batch(&sql).expect("taken out");
    }
    rewrite(home, seq - 1, |at, header| {
        if at < seq {
            return header;
        }
        header.replacen(&format!("\"seq\":{}", at + 1), &format!("\"seq\":{at}"), 1)
    });
    remove(home, &["high-water"]);
    sign_again(home);
}

/// The numbers of the entries that change keys.
fn seals(home: &TestHome) -> Vec<u64> {
    let db = db(home);
    let sql = "SELECT seq FROM entry WHERE CAST(header AS TEXT) LIKE '%\"kind\":\"key.epoch\"%' ORDER BY seq";
    let mut statement = db.prepare(sql).expect("select");
    let rows = statement.query_map([], |row| row.get::<_, i64>(0)).expect("rows");
    rows.map(|seq| seq.expect("seq") as u64).collect()
}
