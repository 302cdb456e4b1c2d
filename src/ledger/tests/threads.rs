//! Verification with several threads finds what one thread would, wherever pages end.

use super::{ChainWalk, Draft, Kind, Ledger, LedgerHome, Ref, Verdict, Verification, call_drafts, named};
use crate::ledger::read::schema;
use crate::ledger::verify::Reading;
use crate::ledger::verify::{checkpoints, entries_until};
use rusqlite::Connection;
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Entries at the beginnings and ends of pages and tiles, in a ledger of `size` entries.
fn edges(size: u64) -> Vec<u64> {
    let mut edges = vec![1, 2, 254, 255, 256, 257, 511, 512, 513, 1_023, 1_024, 1_025, 2_047, 2_048];
    edges.retain(|edge| *edge < size - 3);
    edges.extend([size - 3, size - 2]);
    edges
}

#[test]
fn what_is_damaged_at_the_edges_of_pages_is_named() {
    let home = LedgerHome::filled(2_600);
    let size = home.audit().entries;
    let check = |sql: String, expect: Verdict, seqs: &[u64]| {
        let copy = home.copy();
        copy.db().execute_batch(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let report = copy.audit();
        assert_eq!(report.verdict, expect, "{sql}: {:?}", report.findings);
        assert_eq!(named(&report), seqs, "{sql}: {:?}", report.findings);
    };
    for seq in edges(size) {
        let of = format!("WHERE seq = {seq};");
        check(format!("DELETE FROM entry {of} DELETE FROM payload {of}"), Verdict::Incomplete, &[seq]);
        check(format!("DELETE FROM entry {of}"), Verdict::Incomplete, &[seq]);
        check(format!("UPDATE payload SET body = x'7b7d' {of}"), Verdict::Invalid, &[seq]);
        let put = "CAST(replace(CAST(header AS TEXT), '\"wall_us\":1', '\"wall_us\":2') AS BLOB)";
        check(format!("UPDATE entry SET header = {put} {of}"), Verdict::Invalid, &[seq]);
        check(format!("UPDATE entry SET header = x'7b7d' {of}"), Verdict::Invalid, &[seq]);
    }
    // A whole page, and several; an entry far beyond the end; a payload there.
    check("DELETE FROM entry WHERE seq >= 512 AND seq < 768;".to_owned(), Verdict::Incomplete, &[512]);
    check("DELETE FROM entry WHERE seq >= 300 AND seq < 2000;".to_owned(), Verdict::Incomplete, &[300]);
    let far = "INSERT INTO entry SELECT 9223372036854775807, header FROM entry WHERE seq = 5;";
    check(far.to_owned(), Verdict::Invalid, &[size, i64::MAX as u64]);
    let lone = "INSERT INTO payload SELECT 9223372036854775807, salt, body FROM payload WHERE seq = 5;";
    check(lone.to_owned(), Verdict::Incomplete, &[i64::MAX as u64]);
    check("DELETE FROM payload WHERE seq = 700;".to_owned(), Verdict::Invalid, &[700]);
}

fn followed(home: &LedgerHome, db: &Connection) -> Verification {
    let mut walk = ChainWalk::new(None);
    walk.expect(&checkpoints(db).expect("checkpoints"), &[]);
    walk.segment(0);
    let reading = Reading {
        file: home.files().ledger(),
        first: 0,
        schema: &schema(db).expect("schema"),
        replayed: 0,
        projections: &[],
    };
    let go_on = |_: &mut ChainWalk, _, _, _| Ok(ControlFlow::Continue(()));
    assert!(reading.follow(db, 0, &mut walk, go_on).expect("followed"));
    walk.finish().0
}

/// A payload that is erased after the deciding snapshot counts as present; a later snapshot shows
/// it missing, with its redaction.
#[test]
fn a_payload_erased_between_two_snapshots_is_not_a_finding() {
    let home = LedgerHome::filled(600);
    let ledger = home.open();
    let before = home.db();
    before.execute_batch("BEGIN").expect("begin");
    let size = entries_until(&before).expect("entries");
    let target = (300..400).find(|seq| {
        let stored = ledger.reader().entry(*seq).expect("read").expect("entry");
        stored.header.is(Kind::ModelReply)
    });
    let target = target.expect("a reply");
    erase(&ledger, target);
    let later = home.db();
    let gone = "SELECT body IS NULL FROM payload WHERE seq = ?1";
    let gone = |db: &Connection| -> bool {
        db.query_row(gone, [i64::try_from(target).expect("seq")], |row| row.get(0)).expect("row")
    };
    assert_eq!((gone(&before), gone(&later)), (false, true));
    let early = followed(&home, &before);
    assert!(early.verdict.holds(), "{:?}", early.findings);
    assert_eq!((early.entries, early.payloads, early.redacted), (size, size, 0));
    let late = followed(&home, &later);
    assert!(late.verdict.holds(), "{:?}", late.findings);
    assert_eq!(late.redacted, 1);
}

/// Erases as `redact` makes the writer do it, without waiting for the write-ahead log, which a
/// reader holds.
fn erase(ledger: &Ledger, target: u64) {
    let payload = json!({ "reason": "asked for", "kind": "model.reply", "bytes": 1 });
    let draft = Draft { answers: Some(Ref::Seq(target)), ..Draft::untyped(Kind::Redaction, payload) };
    let _receipts = ledger.queue().append_erasing(vec![draft], vec![target]).expect("appended");
}

/// Every verification passes while a writer appends without a pause.
#[test]
fn a_writer_at_work_causes_no_finding() {
    let home = LedgerHome::filled(1_500);
    let ledger = home.open();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let at = ledger.head().size as usize - 1;
                let _receipts = ledger.append_blocking(call_drafts(at)).expect("appended");
            }
        });
        let mut entries = 0;
        for _ in 0..12 {
            let report = home.audit();
            assert!(report.verdict.holds(), "{:?}", report.findings);
            assert!(report.entries >= entries);
            entries = report.entries;
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
