//! One changed bit.

use super::{LedgerHome, follow, named};
use crate::ledger::verify::checkpoints;
use crate::ledger::verify::{ChainWalk, RootMark};
use crate::ledger::{HighWater, Reader};
use rusqlite::{Connection, params};

/// Header, salt and body of one entry.
type Stored = (Vec<u8>, Vec<u8>, Vec<u8>);

fn stored(db: &Connection) -> Vec<Stored> {
    let sql = "SELECT header, salt, body FROM entry JOIN payload USING (seq) ORDER BY seq";
    let mut statement = db.prepare(sql).expect("select");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("entries")
}

/// Every bit of every header, salt and body, through the walk that `audit` makes: that entry is
/// named and no other. The high-water mark makes this true for the last entry too.
#[test]
fn every_flipped_bit_names_its_entry_and_no_other() {
    let home = LedgerHome::filled(12);
    let entries = stored(&home.db());
    let mark = RootMark { head: HighWater::read(&home.files().high_water()).expect("mark") };
    assert_eq!(mark.head.size, entries.len() as u64);
    let mut before = ChainWalk::new(Some(mark));
    before.expect(&checkpoints(&home.db()).expect("checkpoints"), &[]);
    let mut flips = 0;
    std::thread::scope(|scope| {
        let mut checks = Vec::new();
        for (at, (header, salt, body)) in entries.iter().enumerate() {
            let (start, entries) = (before.clone(), &entries);
            checks.push(scope.spawn(move || flip_each(&start, entries, at)));
            follow(&mut before, at as u64, header, salt, body);
        }
        flips = checks.into_iter().map(|check| check.join().expect("each bit is seen")).sum();
    });
    assert!(before.finish().0.verdict.holds(), "unchanged, the same walk verifies");
    let bytes: usize =
        entries.iter().map(|(header, salt, body)| header.len() + salt.len() + body.len()).sum();
    assert_eq!(flips, bytes * 8);
    assert!(flips > 40_000, "{flips} bits");
}

/// Flips each bit of the entry `at`, after the walk `start` over the entries before it.
fn flip_each(start: &ChainWalk, entries: &[Stored], at: usize) -> usize {
    let mut flips = 0;
    let mut changed = entries[at].clone();
    let check = |changed: &Stored, place: &str, bit: usize| {
        let mut walk = start.clone();
        for (next, entry) in entries.iter().enumerate().skip(at) {
            let (header, salt, body) = if next == at { changed } else { entry };
            follow(&mut walk, next as u64, header, salt, body);
        }
        let (report, _) = walk.finish();
        assert!(!report.verdict.holds(), "{place} of {at}, bit {bit}");
        assert_eq!(named(&report), [at as u64], "{place} of {at}, bit {bit}: {:?}", report.findings);
    };
    type Part = fn(&mut Stored) -> &mut Vec<u8>;
    let parts: [(&str, Part); 3] =
        [("header", |entry| &mut entry.0), ("salt", |entry| &mut entry.1), ("body", |entry| &mut entry.2)];
    for (place, part) in parts {
        for bit in 0..part(&mut changed).len() * 8 {
            part(&mut changed)[bit / 8] ^= 1 << (bit % 8);
            check(&changed, place, bit);
            part(&mut changed)[bit / 8] ^= 1 << (bit % 8);
            flips += 1;
        }
    }
    flips
}

/// One bit of every third byte, in the file, through the whole `audit`: the same.
#[test]
fn a_flipped_bit_in_the_file_names_its_entry() {
    let home = LedgerHome::filled(9);
    let db = home.db();
    let entries = stored(&db);
    let mut flips = 0;
    let mut check = |sql: &str, seq: usize, original: &[u8]| {
        let mut update = db.prepare(sql).expect("update");
        for byte in (seq % 3..original.len()).step_by(3) {
            let mut changed = original.to_vec();
            changed[byte] ^= 1 << ((byte + seq) % 8);
            update.execute(params![seq as i64, changed]).expect("flip");
            let report = home.audit();
            assert!(!report.verdict.holds(), "{sql}: {seq}, byte {byte}");
            assert_eq!(named(&report), [seq as u64], "{sql}: {seq}, byte {byte}: {:?}", report.findings);
            flips += 1;
        }
        update.execute(params![seq as i64, original]).expect("undo");
    };
    for (seq, (header, salt, body)) in entries.iter().enumerate() {
        check("UPDATE entry SET header = ?2 WHERE seq = ?1", seq, header);
        check("UPDATE payload SET salt = ?2 WHERE seq = ?1", seq, salt);
        check("UPDATE payload SET body = ?2 WHERE seq = ?1", seq, body);
    }
    assert!(flips > 1_500, "{flips} bytes");
    super::assert_verified(&home);
}

/// A reader returns nothing of a changed payload, and names the damaged entry.
#[test]
fn a_reader_shows_no_changed_payload() {
    let home = LedgerHome::filled(6);
    home.db().execute("UPDATE payload SET body = x'7b7d' WHERE seq = 3", []).expect("edit");
    let reader = Reader::open(&home.files().ledger()).expect("reader");
    let error = reader.entry(3).expect_err("damaged");
    assert!(error.to_string().starts_with("entry 3 is damaged"), "{error}");
    assert!(reader.entry(2).expect("whole").is_some());
}
