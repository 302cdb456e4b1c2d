//! Rows, tables and files that were edited directly.

use super::{LedgerHome, Verdict, assert_verified, connect, named, replace_checkpoints, watching};
use crate::ledger::entry::Header;
use crate::ledger::tree::leaf;
use crate::ledger::verify::SlicedAudit;
use crate::ledger::{Note, Reader};
use crate::types::Digest;
use crate::types::json::canonical;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

/// Runs `sql` on a copy of `home`. The verdict must be `expect`, and the report must name these
/// entries.
fn check(home: &LedgerHome, sql: &str, expect: Verdict, seqs: &[u64]) {
    let copy = home.copy();
    copy.db().execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    judge(&copy, sql, expect, seqs);
    // A server that verifies itself in slices finds it too.
    let in_slices = watching::to_end(&mut SlicedAudit::default(), &copy);
    assert_eq!(in_slices.is_ok(), expect.holds(), "{sql}: {in_slices:?}");
}

fn check_state(home: &LedgerHome, sql: &str, expect: Verdict, seqs: &[u64]) {
    let copy = home.copy();
    copy.state().execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    judge(&copy, sql, expect, seqs);
}

fn judge(home: &LedgerHome, change: &str, expect: Verdict, seqs: &[u64]) {
    let report = home.audit();
    assert_eq!(report.verdict, expect, "{change}: {report:?}");
    assert_eq!(named(&report), seqs, "{change}: {:?}", report.findings);
    assert_eq!(report.findings.is_empty(), expect.holds(), "{change}");
}

#[test]
fn rows_that_are_gone_moved_or_added() {
    use Verdict::{Incomplete, Invalid};
    let home = LedgerHome::filled(40);
    let report = assert_verified(&home);
    let (size, last) = (report.entries, report.entries - 1);
    assert_eq!((report.payloads, report.high_water, report.state_rows), (size, Some(size), Some(1)));
    let gone = |table: &str, seq: u64| format!("DELETE FROM {table} WHERE seq = {seq};");
    for table in ["entry", "payload"] {
        let verdict = if table == "entry" { Incomplete } else { Invalid };
        for seq in [0, 1, 7, last - 1, last] {
            check(&home, &gone(table, seq), verdict, &[seq]);
        }
    }
    check(&home, &(gone("entry", last) + &gone("payload", last)), Incomplete, &[last]);
    check(&home, &(gone("entry", 7) + &gone("payload", 7)), Incomplete, &[7]);
    check(&home, "DELETE FROM entry; DELETE FROM payload;", Incomplete, &[0]);
    let swap =
        "UPDATE entry SET seq = -seq WHERE seq IN (5, 6); UPDATE entry SET seq = 11 + seq WHERE seq < 0;";
    check(&home, swap, Invalid, &[5]);
    check(&home, "UPDATE entry SET seq = -5 WHERE seq = 5;", Invalid, &[5]);
    check(&home, "UPDATE entry SET seq = 1000 WHERE seq = 9;", Invalid, &[9, 1_000]);
    check(&home, "INSERT INTO entry SELECT -1, header FROM entry WHERE seq = 1;", Invalid, &[]);
    check(&home, "INSERT INTO payload VALUES (77, zeroblob(32), x'7b7d');", Incomplete, &[77]);
    check(&home, "INSERT INTO payload VALUES (-77, zeroblob(32), x'7b7d');", Incomplete, &[]);
    let again = format!("INSERT INTO entry SELECT {size}, header FROM entry WHERE seq = {last};");
    check(&home, &again, Invalid, &[size]);
    // Another entry's header, which the projections have already seen.
    for (from, to) in [(2, 8), (4, 9), (1, 12)] {
        let copy = format!(
            "UPDATE entry SET header = (SELECT header FROM entry WHERE seq = {from}) WHERE seq = {to};"
        );
        check(&home, &copy, Invalid, &[to]);
    }
    let swapped = "UPDATE payload SET seq = -seq WHERE seq = 3; UPDATE payload SET seq = 3 WHERE seq = 4; \
                   UPDATE payload SET seq = 4 WHERE seq = -3;";
    check(&home, swapped, Invalid, &[3, 4]);
    for half in ["salt = NULL", "body = NULL", "salt = NULL, body = NULL", "salt = x'00'", "body = x''"] {
        check(&home, &format!("UPDATE payload SET {half} WHERE seq = 11;"), Invalid, &[11]);
    }
}

#[test]
fn a_schema_that_differs_from_the_migrations() {
    let home = LedgerHome::filled(12);
    for sql in [
        "CREATE VIEW extra AS SELECT 1;",
        "CREATE TABLE extra(a);",
        "CREATE INDEX extra ON entry(header);",
        "CREATE TRIGGER extra AFTER INSERT ON entry BEGIN SELECT 1; END;",
        "ALTER TABLE entry ADD COLUMN note TEXT;",
        "ALTER TABLE payload RENAME COLUMN body TO words;",
        "ALTER TABLE entry RENAME TO hidden; CREATE VIEW entry AS SELECT seq, header FROM hidden;",
        "ALTER TABLE payload RENAME TO hidden; CREATE TABLE payload(seq INTEGER PRIMARY KEY, salt BLOB, body BLOB);",
        "DROP TABLE checkpoint;",
        "DROP TABLE tile;",
        "ANALYZE;",
    ] {
        check(&home, sql, Verdict::Invalid, &[]);
    }
    for sql in
        ["CREATE VIEW extra AS SELECT 1;", "DROP INDEX api_key_name;", "ALTER TABLE run ADD COLUMN x TEXT;"]
    {
        check_state(&home, sql, Verdict::Invalid, &[]);
    }
    let note = "INSERT INTO checkpoint VALUES (1, 3, x'00');";
    check(&home, note, Verdict::Invalid, &[]);
}

#[test]
fn tiles_are_what_the_entries_lead_to() {
    let home = LedgerHome::filled(600);
    assert_eq!(assert_verified(&home).tiles, 2);
    for sql in [
        "DELETE FROM tile WHERE k = 0;",
        "DELETE FROM tile;",
        "INSERT INTO tile SELECT 2, hashes FROM tile WHERE k = 0;",
        "INSERT INTO tile SELECT 1 << 48, hashes FROM tile WHERE k = 0;",
        "UPDATE tile SET k = -1 WHERE k = 1;",
        "UPDATE tile SET hashes = (SELECT hashes FROM tile WHERE k = 1) WHERE k = 0;",
        "UPDATE tile SET hashes = x'' WHERE k = 1;",
        "UPDATE tile SET hashes = CAST(hashes || x'00' AS BLOB) WHERE k = 1;",
    ] {
        check(&home, sql, Verdict::Invalid, &[]);
    }
    let copy = home.copy();
    let db = copy.db();
    let hashes: Vec<u8> =
        db.query_row("SELECT hashes FROM tile WHERE k = 1", [], |row| row.get(0)).expect("tile");
    assert_eq!(hashes.len(), 256 * 32);
    for byte in (0..hashes.len()).step_by(997) {
        let mut changed = hashes.clone();
        changed[byte] ^= 1 << (byte % 8);
        db.execute("UPDATE tile SET hashes = ?1 WHERE k = 1", [changed]).expect("flip");
        judge(&copy, "a flipped bit of tile 1", Verdict::Invalid, &[]);
    }
}

#[test]
fn state_db_is_compared() {
    let home = LedgerHome::filled(12);
    let size = home.audit().entries;
    for sql in [
        "UPDATE api_key SET role = 'admin';",
        "UPDATE api_key SET expires_us = 1;",
        "DELETE FROM api_key;",
        "INSERT INTO api_key VALUES ('x', 'y', 'admin', NULL, NULL, 1, NULL);",
        "INSERT INTO open_call VALUES (3, 'call_x', 'run_x');",
        "UPDATE applied SET size = 1;",
        "UPDATE applied SET size = -1;",
    ] {
        check_state(&home, sql, Verdict::Invalid, &[]);
    }
    let ahead = format!("UPDATE applied SET size = {};", size + 1);
    check_state(&home, &ahead, Verdict::Incomplete, &[size]);
    // A state.db that exists and cannot be compared is not this ledger's.
    check_state(&home, "DELETE FROM applied;", Verdict::Invalid, &[]);
    check_state(&home, "DROP TABLE applied;", Verdict::Unreadable, &[]);
    let copy = home.copy();
    std::fs::write(copy.files().state(), b"no database at all, but longer than a header").expect("write");
    judge(&copy, "state.db overwritten", Verdict::Unreadable, &[]);
    std::fs::remove_file(copy.files().state()).expect("remove");
    let report = assert_verified(&copy);
    assert_eq!(report.state_rows, None);
    assert!(report.warnings.iter().any(|warning| warning.contains("state.db")), "{:?}", report.warnings);
}

#[test]
fn the_high_water_mark() {
    let home = LedgerHome::filled(12);
    let size = home.audit().entries;
    let root = home.audit().root;
    let with = |text: Option<String>| {
        let copy = home.copy();
        let path = copy.files().high_water();
        match text {
            Some(text) => std::fs::write(path, text).expect("mark"),
            None => std::fs::remove_file(path).expect("mark"),
        }
        copy
    };
    for garbled in [
        "hello".to_owned(),
        format!("{size} xyz\n"),
        format!("{size} {root}\n"),
        format!("{size:020} {root}"),
        format!("{size:020} {root}\n\n"),
    ] {
        let copy = with(Some(garbled));
        assert_eq!(copy.audit().verdict, Verdict::Unreadable);
        drop(copy.try_open().expect_err("a malformed mark"));
    }
    for none in [None, Some(String::new())] {
        let copy = with(none);
        let report = assert_verified(&copy);
        assert_eq!(report.high_water, None);
        assert!(
            report.warnings.iter().any(|warning| warning.contains("high-water")),
            "{:?}",
            report.warnings
        );
        drop(copy.open());
    }
    judge(&with(Some(format!("{:020} {root}\n", size + 3))), "ahead", Verdict::Incomplete, &[size]);
    let other = Digest::sha256(b"other").hex();
    judge(&with(Some(format!("{size:020} {other}\n"))), "other root", Verdict::Invalid, &[size - 1]);
    judge(&with(Some(format!("{:020} {other}\n", size - 5))), "older root", Verdict::Invalid, &[size - 6]);
    judge(&with(Some(format!("{:020} {other}\n", 0))), "root of nothing", Verdict::Invalid, &[]);
}

/// The mark and the signatures detect that every entry from some point on was chained again. With
/// the keys, the ledger is consistent in itself; a checkpoint kept elsewhere detects it.
#[test]
fn a_rechained_ledger_is_detected() {
    let home = LedgerHome::filled(40);
    for from in [1, 13, 39] {
        let copy = home.copy();
        rechain(&copy.db(), from);
        let report = copy.audit();
        assert_eq!(report.verdict, Verdict::Invalid, "from {from}: {:?}", report.findings);
        assert!(report.findings[0].what.contains("all were rewritten"), "{:?}", report.findings);
        std::fs::remove_file(copy.files().high_water()).expect("mark");
        let report = copy.audit();
        assert_eq!(report.verdict, Verdict::Invalid, "from {from}: {:?}", report.findings);
        assert!(report.findings[0].what.contains("signed checkpoint has"), "{:?}", report.findings);
        let kept = kept(&copy);
        replace_checkpoints(&copy);
        let report = copy.audit_against(&kept);
        assert_eq!(report.verdict, Verdict::Diverged, "from {from}: {:?}", report.findings);
        let report = assert_verified(&copy);
        assert_eq!(report.verdict, Verdict::VerifiedUnanchored);
        assert!(report.warnings.iter().any(|w| w.contains("cut tail")), "{:?}", report.warnings);
    }
}

/// The newest checkpoint, as kept elsewhere.
fn kept(home: &LedgerHome) -> Note {
    let note = Reader::open(&home.files().ledger()).expect("reader").newest_checkpoint().expect("read");
    Note::parse(&note.expect("a checkpoint")).expect("note")
}

/// Comparing a ledger with a checkpoint from elsewhere.
#[test]
fn a_checkpoint_from_outside_anchors() {
    let home = LedgerHome::filled(12);
    let first = kept(&home);
    let _receipts = home.open().append_blocking(super::call_drafts(11)).expect("appended");
    home.settle();
    let report = home.audit_against(&first);
    assert_eq!((report.verdict, report.anchored), (Verdict::Verified, Some(12)), "{:?}", report.findings);
    let second = kept(&home);
    assert_ne!(first, second, "the end of a process signs what it wrote");
    // An older copy of everything is put back.
    let older = LedgerHome::filled(12);
    assert_eq!(older.audit_against(&first).verdict, Verdict::Diverged, "another log");
    assert_eq!(older.audit_against(&second).verdict, Verdict::Diverged, "another log, of more entries");
    let copy = home.copy();
    copy.db()
        .execute_batch("DELETE FROM entry WHERE seq >= 12; DELETE FROM payload WHERE seq >= 12")
        .expect("cut");
    for name in ["high-water", "state.db"] {
        std::fs::remove_file(copy.folder.path().join(name)).expect("remove");
    }
    replace_checkpoints(&copy);
    assert_eq!(copy.audit_against(&first).verdict, Verdict::Verified);
    let report = copy.audit_against(&second);
    assert_eq!(report.verdict, Verdict::Incomplete, "{:?}", report.findings);
}

/// Rows of the table of checkpoints that do not belong there.
#[test]
fn checkpoints_that_are_gone_moved_or_added() {
    use Verdict::{Incomplete, Invalid};
    let home = LedgerHome::filled(12);
    check(&home, "DELETE FROM checkpoint", Incomplete, &[]);
    check(&home, "UPDATE checkpoint SET size = size - 1", Invalid, &[]);
    check(&home, "UPDATE checkpoint SET id = 5", Invalid, &[]);
    check(&home, "UPDATE checkpoint SET note = CAST(note || x'0a' AS BLOB)", Invalid, &[]);
    check(&home, "INSERT INTO checkpoint SELECT 7, size, note FROM checkpoint", Invalid, &[]);
    let copy = home.copy();
    let held = super::HeldKeys::new(&home);
    let head = crate::ledger::Head { size: 8, root: Digest::sha256(b"other") };
    copy.db()
        .execute("UPDATE checkpoint SET size = 8, note = ?1", [held.sign(head).to_string().into_bytes()])
        .expect("signed");
    judge(&copy, "another root, signed with the live keys", Invalid, &[7]);
    let foreign = super::HeldKeys::made_up().sign(head).to_string().into_bytes();
    copy.db().execute("UPDATE checkpoint SET note = ?1", [foreign]).expect("foreign");
    judge(&copy, "another log's", Invalid, &[7]);
}

/// Moves every entry from `from` on by a second, and chains them again.
pub(super) fn rechain(db: &Connection, from: u64) {
    let size: u64 =
        db.query_row("SELECT count(*) FROM entry", [], |row| row.get::<_, i64>(0)).expect("size") as u64;
    for seq in from..size {
        let header = |seq: u64| -> Vec<u8> {
            db.query_row("SELECT header FROM entry WHERE seq = ?1", [seq as i64], |row| row.get(0))
                .expect("header")
        };
        let mut fields = Header::parse(&header(seq)).expect("header").fields;
        fields.insert("prev".to_owned(), json!(leaf(&header(seq - 1)).hex()));
        fields.insert("wall_us".to_owned(), json!(fields["wall_us"].as_u64().expect("time") + 1_000_000));
        let bytes = canonical(&Value::Object(fields)).expect("canonical");
        db.execute("UPDATE entry SET header = ?2 WHERE seq = ?1", params![seq as i64, bytes.as_bytes()])
            .expect("update");
    }
}

#[test]
fn a_file_that_is_not_a_ledger_is_not_verified() {
    let home = LedgerHome::empty();
    assert_eq!(home.audit().verdict, Verdict::Unreadable, "no file");
    super::touch(&home.files().ledger());
    assert!(!home.audit().verdict.holds(), "an empty file");
    std::fs::write(home.files().ledger(), vec![0x55; 8_192]).expect("write");
    assert_eq!(home.audit().verdict, Verdict::Unreadable, "noise");
    let home = LedgerHome::empty();
    connect(&home.files().ledger())
        .execute_batch(concat!(
            include_str!("../../../migrations/ledger/0001.sql"),
            "PRAGMA user_version = 1;"
        ))
        .expect("schema");
    let report = home.audit();
    assert_eq!((report.verdict, report.entries), (Verdict::Incomplete, 0), "the schema and no entry");
}

/// Bytes of the database that SQLite itself finds wrong.
#[test]
fn a_broken_database_file_is_not_verified() {
    let home = LedgerHome::filled(40);
    let bytes = std::fs::read(home.files().ledger()).expect("file");
    for page in 1..bytes.len() / 4_096 {
        let copy = home.copy();
        let mut broken = bytes.clone();
        broken[page * 4_096..page * 4_096 + 64].fill(0xa5);
        std::fs::write(copy.files().ledger(), broken).expect("write");
        assert!(!copy.audit().verdict.holds(), "page {page}");
    }
    let copy = home.copy();
    std::fs::write(copy.files().ledger(), &bytes[..bytes.len() / 8_192 * 4_096]).expect("write");
    assert!(!copy.audit().verdict.holds(), "cut in half");
}
