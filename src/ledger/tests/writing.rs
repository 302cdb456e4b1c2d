//! Writing to a file that is removed or replaced.

use super::{LedgerHome, assert_verified, one};
use crate::ledger::{AppendError, Draft, Files, HighWater, Kind, key};
use serde_json::json;
use std::path::Path;

#[test]
fn a_ledger_whose_file_is_gone_accepts_nothing() {
    type Harm = fn(&Files);
    let wal = |files: &Files| files.data.join("ledger.db-wal");
    let remove: Harm = |files| std::fs::remove_file(files.ledger()).expect("remove");
    let replace: Harm = |files| {
        std::fs::copy(files.ledger(), files.data.join("copy")).expect("copy");
        std::fs::rename(files.data.join("copy"), files.ledger()).expect("rename");
    };
    let unlog: Harm = |files| std::fs::remove_file(files.data.join("ledger.db-wal")).expect("remove");
    for (name, harm) in [("removed", remove), ("replaced", replace), ("log removed", unlog)] {
        let home = LedgerHome::empty();
        let ledger = home.open();
        let _receipts = ledger.append_blocking(one("before")).expect("appended");
        assert!(wal(&home.files()).exists());
        harm(&home.files());
        for _ in 0..2 {
            let refused = ledger.append_blocking(one("after")).expect_err(name);
            assert!(matches!(refused, AppendError::Poisoned(_)), "{name}: {refused}");
            assert!(ledger.obstacle().is_some(), "{name}");
        }
        assert_eq!(ledger.head().size, 2, "{name}");
    }
}

/// The writer's lock on the database keeps a foreign `sqlite3` process from removing the
/// write-ahead log when it ends. It is still held after opening.
#[test]
fn the_databases_stay_locked_against_strangers() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let _receipts = ledger.append_blocking(one("before")).expect("appended");
    for path in [home.files().ledger(), home.files().state()] {
        let file = std::fs::File::open(&path).expect("database");
        let mut lock = nix::libc::flock {
            l_type: nix::libc::F_WRLCK as i16,
            l_whence: 0,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        // Asked from another open file description: the kernel then reports this process's locks
        // too.
        nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_OFD_GETLK(&mut lock)).expect("asked");
        assert_ne!(i32::from(lock.l_type), nix::libc::F_UNLCK, "{}", path.display());
    }
}

/// An invalid draft affects no other caller's draft.
#[test]
fn an_invalid_draft_is_refused_alone() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let fraction = vec![Draft::untyped(Kind::ModelReply, json!({ "n": 0.00001 }))];
    let mut long = one("x");
    long[0].policies = vec!["p".repeat(70_000)];
    let mut mixed = one("y");
    mixed.extend(fraction.clone());
    for drafts in [fraction, long, mixed] {
        assert!(matches!(ledger.append_blocking(drafts), Err(AppendError::Draft(_))));
    }
    let _receipts = ledger.append_blocking(one("z")).expect("appended");
    assert_eq!(assert_verified(&home).entries, 2);
}

/// The write-ahead logs of both databases are copied into them while the writer runs.
#[test]
fn write_ahead_logs_do_not_grow_for_ever() {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    let home = LedgerHome { folder: folder.expect("folder") };
    key::make(&home.files().log_key()).expect("log key");
    let ledger = home.open();
    let bytes = |name: &str| std::fs::metadata(home.files().data.join(name)).expect("log").len();
    let logs = || ["ledger.db-wal", "state.db-wal"].map(bytes);
    // 1,600 commits of at least one page each would make both longer if none were ever copied. On a
    // loaded machine the thread that copies them may fall behind for a while.
    let stays_short = |_| {
        let before = logs();
        for _ in 0..1_600 {
            let _receipts = ledger.append_blocking(one("a line")).expect("appended");
        }
        logs().iter().zip(before).all(|(now, before)| *now <= before)
    };
    assert!((0..20).any(stays_short), "{:?} bytes", logs());
}

/// The mark is one write; a concurrent reader sees one state or another, never a mixture.
#[test]
fn a_mark_is_read_whole() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let path = home.files().high_water();
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for _ in 0..20_000 {
            seen.push(HighWater::read(&path).expect("a mark"));
        }
        seen
    });
    let mut roots = std::collections::BTreeMap::from([(1, ledger.head().root)]);
    while !reader.is_finished() && roots.len() < 5_000 {
        let head = ledger.append_blocking(one("a")).expect("appended")[0].head();
        roots.insert(head.size, head.root);
    }
    for mark in reader.join().expect("reader") {
        assert!(roots.get(&mark.size).is_none_or(|root| *root == mark.root), "{mark:?}");
    }
}

/// A receipt comes after the mark: from then on the loss of its entry is detected.
#[test]
fn a_receipt_comes_after_its_mark() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    for _ in 0..200 {
        let head = ledger.append_blocking(one("a")).expect("appended")[0].head();
        assert_eq!(HighWater::read(&home.files().high_water()), Some(head));
    }
}
