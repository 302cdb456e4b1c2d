//! Opening: what is refused, and what is brought up to date.

use super::{LedgerHome, assert_verified, call_drafts, replace_checkpoints};
use crate::ledger::{Ledger, Lock, LockError, OpenError};
use std::time::Duration;

fn refused(home: &LedgerHome, change: &str) {
    match home.try_open() {
        Err(OpenError::Incomplete(what)) => assert!(!what.is_empty()),
        Err(other) => panic!("{change}: {other}"),
        Ok(_) => panic!("{change}: was opened"),
    }
}

#[test]
fn a_ledger_that_lost_entries_is_refused() {
    let home = LedgerHome::filled(12);
    let last = home.audit().entries - 1;
    let cut = |files: &[&str]| {
        let copy = home.copy();
        let sql = format!("DELETE FROM entry WHERE seq >= {last}; DELETE FROM payload WHERE seq >= {last};");
        copy.db().execute_batch(&sql).expect("cut");
        for name in files {
            std::fs::remove_file(copy.folder.path().join(name)).expect("remove");
        }
        copy
    };
    refused(&cut(&[]), "both know of it");
    refused(&cut(&["high-water"]), "state.db knows of it");
    refused(&cut(&["state.db"]), "the mark knows of it");
    let copy = cut(&["high-water", "state.db"]);
    refused(&copy, "the checkpoint knows of it");
    copy.db().execute("DELETE FROM checkpoint", []).expect("checkpoints");
    refused(&copy, "no checkpoint");
    // Nothing on this disk records the lost entries any more: the rest is complete in itself for a
    // holder of the keys.
    replace_checkpoints(&copy);
    drop(copy.open());

    // The entries after an older checkpoint could have been forged, so they must not be signed.
    let long = LedgerHome::filled(1_200);
    let one = long.open();
    let _more = one.append_blocking(call_drafts(1_200)).expect("appended");
    drop(one);
    long.settle();
    assert_eq!(long.db().execute("DELETE FROM checkpoint WHERE size > 1203", []).expect("deleted"), 1);
    refused(&long, "the newest checkpoint");

    let copy = home.copy();
    copy.db().execute_batch("DELETE FROM entry; DELETE FROM payload;").expect("emptied");
    refused(&copy, "emptied");
    let copy = home.copy();
    std::fs::remove_file(copy.files().ledger()).expect("removed");
    refused(&copy, "removed");
    let copy = home.copy();
    std::fs::write(copy.files().high_water(), format!("{:020} {:064}\n", last + 1, 0)).expect("mark");
    refused(&copy, "another root");
    let copy = home.copy();
    std::fs::remove_file(copy.files().high_water()).expect("mark");
    copy.db().execute_batch("DELETE FROM entry WHERE seq = 5;").expect("gap");
    refused(&copy, "a gap");
}

#[test]
fn tiles_that_are_missing_or_changed_are_not_built_on() {
    let home = LedgerHome::filled(600);
    for sql in ["DELETE FROM tile WHERE k = 1", "UPDATE tile SET hashes = zeroblob(8192) WHERE k = 1"] {
        let copy = home.copy();
        copy.db().execute(sql, []).expect("edit");
        refused(&copy, sql);
    }
}

#[test]
fn state_db_is_built_again_and_equal() {
    let home = LedgerHome::filled(1_100);
    let rows = assert_verified(&home).state_rows;
    std::fs::remove_file(home.files().state()).expect("remove");
    drop(home.open());
    assert_eq!(assert_verified(&home).state_rows, rows);
    // A state.db that lags is brought up to date.
    home.settle();
    home.state().execute_batch("DELETE FROM api_key; UPDATE applied SET size = 0;").expect("back");
    drop(home.open());
    assert_eq!(assert_verified(&home).state_rows, rows);
}

#[test]
fn a_reopened_ledger_continues_where_it_was() {
    let home = LedgerHome::empty();
    for round in 0..4_usize {
        let ledger = home.open();
        let before = ledger.head().size;
        let receipts = ledger.append_blocking(call_drafts(before as usize - 1)).expect("appended");
        let seqs: Vec<u64> = receipts.iter().map(crate::ledger::Receipt::seq).collect();
        assert_eq!(seqs, (before..before + 5).collect::<Vec<_>>(), "round {round}");
        let head = ledger.head();
        assert!(receipts.iter().all(|receipt| receipt.head() == head));
        drop((receipts, ledger));
        let report = assert_verified(&home);
        assert_eq!((report.entries, report.root), (head.size, head.root.hex()));
    }
}

#[test]
fn a_second_writer_is_refused() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let held = Lock::take(&home.files(), Duration::from_millis(30)).expect_err("held");
    assert!(
        matches!(&held, LockError::Held(holder) if holder.contains(&std::process::id().to_string())),
        "{held}"
    );
    assert!(Lock::holder(&home.files()).is_some());
    // The lock lives as long as any clone, and the writer's thread.
    let clone: Ledger = ledger.clone();
    drop(ledger);
    assert!(matches!(Lock::take(&home.files(), Duration::ZERO), Err(LockError::Held(_))));
    drop(clone);
    drop(Lock::take(&home.files(), Duration::from_secs(5)).expect("free again"));
}
