//! Verification from an entry on relies on a checkpoint from outside, and on nothing else.

use super::{LedgerHome, Verdict, audit_from, named};
use crate::ledger::{Checkpoint, Erasure, Note, Outside, Reader, Targets, Verification};

fn newest(home: &LedgerHome) -> Note {
    let reader = Reader::open(&home.files().ledger()).expect("reader");
    Note::parse(&reader.newest_checkpoint().expect("read").expect("there")).expect("note")
}

fn since(home: &LedgerHome, from: u64, note: &Note) -> Verification {
    let outside = Outside { from: "kept.note".to_owned(), note: note.clone(), key: None };
    audit_from(&home.files(), from, &[outside], &|_, _| {})
}

/// From every starting point, root and tiles are the same as for the whole ledger.
#[test]
fn every_beginning_leads_to_the_same_root() {
    let home = LedgerHome::filled(1_200);
    let (whole, note) = (home.audit(), newest(&home));
    let size = whole.entries;
    assert_eq!(Checkpoint::parse(note.text()).expect("checkpoint").head.size, size);
    for from in [1, 2, 255, 256, 257, 511, 512, 513, 1_023, 1_024, 1_025, size - 1, size] {
        let report = since(&home, from, &note);
        assert_eq!(report.verdict, Verdict::Verified, "{from}: {:?}", report.findings);
        assert_eq!((report.from, report.entries, report.payloads), (from, size - from, size - from));
        assert_eq!((&report.root, report.anchored), (&whole.root, Some(size)), "{from}");
        assert!(report.warnings.iter().any(|warning| warning.contains("were not read")), "{from}");
    }
}

/// A change after the start is named; a change of the tree before it contradicts the checkpoint.
#[test]
fn a_change_after_the_start_is_found() {
    let home = LedgerHome::filled(1_200);
    let (size, note) = (home.audit().entries, newest(&home));
    let check = |from: u64, sql: &str, expect: Verdict, seqs: &[u64]| {
        let copy = home.copy();
        copy.db().execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let report = since(&copy, from, &note);
        assert_eq!(report.verdict, expect, "{sql}: {:?}", report.findings);
        assert_eq!(named(&report), seqs, "{sql}: {:?}", report.findings);
    };
    let tool = |seq: u64| {
        let put = "UPDATE entry SET header = CAST(replace(CAST(header AS TEXT), '\"wall_us\":1', '\"wall_us\":2') AS BLOB)";
        format!("{put} WHERE seq = {seq};")
    };
    for seq in [600, 700, size - 2] {
        check(600, &tool(seq), Verdict::Invalid, &[seq]);
    }
    check(600, "DELETE FROM entry WHERE seq = 800;", Verdict::Incomplete, &[800]);
    check(600, "UPDATE payload SET body = x'7b7d' WHERE seq = 800;", Verdict::Invalid, &[800]);
    // The tree of the earlier entries: a tile that the root depends on, a missing one, one too
    // many.
    let other = "UPDATE tile SET hashes = CAST(zeroblob(32) || substr(hashes, 33) AS BLOB) WHERE k = 0;";
    check(600, other, Verdict::Invalid, &[size - 1]);
    check(600, "DELETE FROM tile WHERE k = 0;", Verdict::Unreadable, &[]);
    check(600, "INSERT INTO tile SELECT 99, hashes FROM tile WHERE k = 0;", Verdict::Invalid, &[]);
    check(600, "UPDATE tile SET hashes = zeroblob(8192) WHERE k = 3;", Verdict::Invalid, &[]);
    check(600, "CREATE VIEW v AS SELECT 1;", Verdict::Invalid, &[]);
    // Entries that were not read have no findings.
    check(600, &tool(5), Verdict::Verified, &[]);
}

/// A redaction of an entry that was not read is not a finding.
#[test]
fn an_erasure_of_an_unread_entry_is_not_a_finding() {
    let home = LedgerHome::filled(40);
    let ledger = home.open();
    let (reason, principal) = ("asked for".to_owned(), "os:root".to_owned());
    let targets = Targets::Entries(vec![2]);
    ledger.redact(&Erasure { targets, reason, principal, power: None }).expect("redacted");
    drop(ledger);
    home.settle();
    let (whole, note) = (home.audit(), newest(&home));
    assert!(whole.verdict.holds() && whole.redacted == 1, "{whole:?}");
    for (from, redacted) in [(1, 1), (2, 1), (3, 0), (20, 0), (whole.entries - 1, 0)] {
        let report = since(&home, from, &note);
        assert_eq!((report.verdict, report.redacted), (Verdict::Verified, redacted), "{from}: {report:?}");
    }
}

/// A checkpoint that does not reach the start, or belongs to another log, proves nothing.
#[test]
fn without_a_checkpoint_nothing_is_verified() {
    let home = LedgerHome::filled(40);
    let early = newest(&home);
    let size = Checkpoint::parse(early.text()).expect("checkpoint").head.size;
    let ledger = home.open();
    let _receipts = ledger.append_blocking(super::call_drafts(7)).expect("appended");
    drop(ledger);
    home.settle();
    assert!(since(&home, size, &early).verdict.holds());
    let late = since(&home, size + 1, &early);
    assert!(!late.verdict.holds() && late.entries == 0, "{late:?}");
    assert!(!audit_from(&home.files(), 10, &[], &|_, _| {}).verdict.holds());
    let foreign = since(&home, 10, &newest(&LedgerHome::filled(40)));
    assert_eq!(foreign.verdict, Verdict::Diverged, "{:?}", foreign.findings);
}
