//! The signing keys: each epoch has its own, and the previous one is gone.

use super::{LedgerHome, Verdict, assert_verified, call_drafts, named, replace_checkpoints};
use crate::ledger::checkpoint::Signer;
use crate::ledger::tests::tampered::rechain;
use crate::ledger::{Checkpoint, Draft, Head, Kind, Lock, Note, OpenError, Reader};
use crate::types::Digest;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Sets the start of the current epoch to 1970, so that the next start ends it. A key that a crash
/// left half erased, or none, stays as it is.
pub(super) fn age(home: &LedgerHome) {
    let path = home.folder.path().join("epoch.key");
    let line = std::fs::read_to_string(&path).unwrap_or_default();
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, began, _] = words.as_mut_slice() else { return };
    *began = "0";
    std::fs::write(&path, words.join(" ") + "\n").expect("epoch key");
}

/// A home with three epochs and some entries in each.
pub(super) fn three_epochs() -> LedgerHome {
    let home = LedgerHome::filled(12);
    for _ in 0..2 {
        age(&home);
        let _receipts = home.open().append_blocking(call_drafts(12)).expect("appended");
        home.settle();
    }
    home
}

#[test]
fn an_epoch_that_is_over_is_sealed_and_its_key_is_gone() {
    let home = LedgerHome::filled(12);
    let before = std::fs::read_to_string(home.folder.path().join("epoch.key")).expect("key");
    age(&home);
    drop(home.open());
    home.settle();
    let report = assert_verified(&home);
    assert_eq!((report.epochs, report.entries, report.signed), (2, 13, 13));
    let seed = before.split_whitespace().nth(3).expect("seed").to_owned();
    for file in std::fs::read_dir(home.folder.path()).expect("folder") {
        let bytes = std::fs::read(file.expect("file").path()).expect("bytes");
        assert!(!bytes.windows(seed.len()).any(|window| window == seed.as_bytes()), "the old key is gone");
    }
    drop(home.open());
    home.settle();
    assert_eq!(assert_verified(&home).epochs, 2, "a young epoch stays");
}

/// A process may end before any work that follows its last entry.
#[test]
fn the_last_entries_of_a_process_are_signed() {
    let home = LedgerHome::filled(6);
    let ledger = home.open();
    let _receipts = ledger.append_blocking(call_drafts(6)).expect("appended");
    let stop = Draft::untyped(Kind::Stop, serde_json::json!({ "command": "a test" }));
    let receipts = ledger.append_blocking(vec![stop]).expect("appended");
    let note = Note::parse(receipts[0].checkpoint().expect("signed")).expect("note");
    assert_eq!(Checkpoint::parse(note.text()).expect("checkpoint").head, receipts[0].head());
}

/// A process that gets the lock finds no file open in a thread of the previous holder.
#[test]
fn the_lock_is_held_until_the_last_thread_is_done() {
    let home = LedgerHome::filled(6);
    for at in 0..30 {
        let ledger = home.open();
        let _receipts = ledger.append_blocking(call_drafts(6 + 5 * at)).expect("appended");
        drop(ledger);
        drop(Lock::take(&home.files(), Duration::from_secs(20)).expect("free"));
        assert_eq!(open_below(home.folder.path()), Vec::<PathBuf>::new(), "they are still open");
    }
}

/// The files below a folder that this process has open. Two connections that close at the same
/// moment may leave a write-ahead log, so the log's existence proves nothing.
fn open_below(folder: &Path) -> Vec<PathBuf> {
    let open = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let files = open.filter_map(|one| std::fs::read_link(one.path()).ok());
    files.filter(|file| file.starts_with(folder)).collect()
}

/// With all keys on the disk, an epoch that is over cannot be signed.
#[test]
fn earlier_epochs_cannot_be_rewritten_with_the_live_keys() {
    let home = three_epochs();
    let report = assert_verified(&home);
    assert_eq!(report.epochs, 3);
    let size = report.entries;
    // Entry 12 seals the first epoch, entry 18 the second.
    for (from, seal) in
        [(1, Some(12)), (11, Some(12)), (13, Some(18)), (17, Some(18)), (19, None), (size - 1, None)]
    {
        let copy = home.copy();
        rechain(&copy.db(), from);
        replace_checkpoints(&copy);
        std::fs::remove_file(copy.files().high_water()).expect("mark");
        let report = copy.audit();
        assert_eq!(report.verdict.holds(), seal.is_none(), "from {from}: {:?}", report.findings);
        assert_eq!(named(&report), Vec::from_iter(seal), "from {from}: {:?}", report.findings);
    }
}

#[test]
fn an_interrupted_change_is_finished() {
    let home = LedgerHome::filled(12);
    let path = |name: &str| home.folder.path().join(name);
    let first = std::fs::read(path("epoch.key")).expect("key");
    age(&home);
    drop(home.open());
    home.settle();
    let second = std::fs::read(path("epoch.key")).expect("key");
    for (change, key) in [
        ("before the old key was erased", Some(first.clone())),
        ("while it was", Some(vec![0; first.len()])),
        ("between the two", None),
    ] {
        std::fs::write(path("epoch.next"), &second).expect("next");
        match key {
            Some(key) => std::fs::write(path("epoch.key"), key).expect("key"),
            None => std::fs::remove_file(path("epoch.key")).expect("removed"),
        }
        drop(home.try_open().unwrap_or_else(|e| panic!("{change}: {e}")));
        home.settle();
        assert_eq!(std::fs::read(path("epoch.key")).expect("key"), second, "{change}");
        assert!(!path("epoch.next").exists(), "{change}");
    }
    // A next key whose entry was never written.
    std::fs::write(
        path("epoch.next"),
        String::from_utf8(second.clone()).expect("text").replace("2 12", "3 13"),
    )
    .expect("next");
    drop(home.open());
    assert!(!path("epoch.next").exists());
    assert_eq!(std::fs::read(path("epoch.key")).expect("key"), second);
    assert_verified(&home);
}

/// A key in force that could not be renamed is not mistaken for one that was never used.
#[test]
fn the_only_copy_of_a_key_in_force_is_not_erased() {
    let home = LedgerHome::empty();
    let (head, day) = (Head { size: 12, root: Digest::sha256(b"root") }, 86_400_000_000);
    let (first, _) = Signer::begin(home.files().keys(), 0).expect("keys");
    let (second, _) = first.next(head, day).expect("next");
    // Its entry is written, and the file keeps its old name. A day later the third epoch begins.
    let in_force = std::fs::read(home.folder.path().join("epoch.next")).expect("next");
    let _third = second.next(Head { size: 24, ..head }, 2 * day).expect("next");
    assert_eq!(std::fs::read(home.folder.path().join("epoch.key")).expect("key"), in_force);
    assert_ne!(std::fs::read(home.folder.path().join("epoch.next")).expect("next"), in_force);
}

/// The host's clock is recorded as it is, and does not affect the order.
#[test]
fn a_clock_that_goes_back_changes_no_order() {
    let home = LedgerHome::filled(12);
    // As if these had been written some minutes in the future.
    for _ in 0..300 {
        rechain(&home.db(), 1);
    }
    replace_checkpoints(&home);
    std::fs::remove_file(home.files().high_water()).expect("mark");
    let receipts = home.open().append_blocking(call_drafts(12)).expect("appended");
    assert_eq!(receipts.iter().map(|receipt| receipt.seq()).collect::<Vec<_>>(), [12, 13, 14, 15, 16]);
    home.settle();
    assert_eq!(assert_verified(&home).entries, 17);
    let reader = Reader::open(&home.files().ledger()).expect("ledger");
    let times: Vec<(u64, u64)> = (0..17)
        .map(|seq| reader.entry(seq).expect("read").expect("there").header)
        .map(|header| (header.u64("wall_us").expect("time"), header.u64("mono_us").expect("time")))
        .collect();
    assert!(
        times[12].0 + 60_000_000 < times[11].0,
        "the clock went back, and the ledger shows it: {times:?}"
    );
    assert!(times.is_sorted_by_key(|(_, mono)| *mono), "{times:?}");
}

/// A copy of the files without the right keys cannot be continued.
#[test]
fn other_keys_sign_nothing() {
    let home = three_epochs();
    let refused = |change: &str, edit: &dyn Fn(&LedgerHome)| {
        let copy = home.copy();
        edit(&copy);
        match copy.try_open() {
            Err(OpenError::Keys(what)) => assert!(what.to_string().contains("key"), "{change}: {what}"),
            Err(other) => panic!("{change}: {other}"),
            Ok(_) => panic!("{change}: was opened"),
        }
        assert_eq!(copy.audit().verdict, Verdict::VerifiedUnanchored, "{change}");
    };
    let epoch = |home: &LedgerHome| home.folder.path().join("epoch.key");
    let older = LedgerHome::filled(12);
    let put = |from: &Path, to: &Path| assert!(std::fs::copy(from, to).is_ok());
    refused("no epoch key", &|copy| std::fs::remove_file(epoch(copy)).expect("removed"));
    refused("no log key", &|copy| std::fs::remove_file(copy.files().log_key()).expect("removed"));
    refused("another's epoch key", &|copy| put(&epoch(&older), &epoch(copy)));
    refused("another's log key", &|copy| put(&older.files().log_key(), &copy.files().log_key()));
    refused("a torn epoch key", &|copy| std::fs::write(epoch(copy), "3 18").expect("torn"));
}
