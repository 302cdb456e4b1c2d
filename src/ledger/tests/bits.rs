//! One changed bit of a file: it is detected, or no output changes.

use super::{LedgerHome, Verification, key_draft};
use crate::ledger::{Lock, Reader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

/// Default distance between two flipped bits.
const STRIDE: usize = 149;

/// The results of the flips.
#[derive(Clone, Copy, Debug, Default)]
struct FlipCount {
    detected: usize,
    without_effect: usize,
}

/// Everything that `audit verify` and `audit show` print for a ledger.
#[derive(Debug, PartialEq)]
struct ReadBack {
    report: String,
    entries: Vec<String>,
    /// The newest checkpoint.
    newest: String,
}

impl ReadBack {
    fn new(home: &LedgerHome, report: &Verification) -> Self {
        let reader = Reader::open(&home.files().ledger());
        let entry = |seq| format!("{:?}", reader.as_ref().map(|reader| reader.entry(seq)));
        let newest = format!("{:?}", reader.as_ref().map(Reader::newest_checkpoint));
        Self {
            report: format!("{report:?}"),
            // One more than the ledger has: a missing entry is output as well.
            entries: (0..=report.entries).map(entry).collect(),
            newest,
        }
    }
}

/// The distance between two flipped bits: `PAR_EVERY_BIT` (1 means all bits), or else `otherwise`.
#[expect(clippy::disallowed_methods, reason = "the caller decides how long the tests may take")]
fn stride(otherwise: usize) -> usize {
    let asked = std::env::var("PAR_EVERY_BIT").ok().and_then(|text| text.parse().ok());
    asked.filter(|stride| *stride > 0).unwrap_or(otherwise)
}

/// Flips the given `bits` of a file of `home` one after the other, and undoes each flip.
fn flip_each(home: &LedgerHome, name: &str, bits: impl Iterator<Item = usize>) -> FlipCount {
    let before = ReadBack::new(home, &home.audit());
    let path = home.folder.path().join(name);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("file");
    let mut count = FlipCount::default();
    for bit in bits {
        let (byte, mask) = ((bit / 8) as u64, 1 << (bit % 8));
        let mut held = [0];
        file.read_exact_at(&mut held, byte).expect("read");
        file.write_all_at(&[held[0] ^ mask], byte).expect("flipped");
        let report = home.audit();
        if report.verdict.holds() {
            let read = ReadBack::new(home, &report);
            assert_eq!(read, before, "{name}, bit {bit}");
            count.without_effect += 1;
        } else {
            assert!(!report.findings.is_empty(), "{name}, bit {bit}: {report:?}");
            count.detected += 1;
        }
        file.write_all_at(&held, byte).expect("undone");
    }
    assert_eq!(ReadBack::new(home, &home.audit()), before, "{name} is as it was");
    count
}

/// The same on two copies at once, each with every second bit of `bits`.
fn flip_all(home: &LedgerHome, name: &str, bits: &[usize]) -> FlipCount {
    let half = |at: usize| {
        let (copy, mine) = (copy(home), bits.iter().copied().skip(at).step_by(2).collect::<Vec<_>>());
        move || flip_each(&copy, name, mine.into_iter())
    };
    let counts = std::thread::scope(|scope| {
        let threads = [scope.spawn(half(0)), scope.spawn(half(1))];
        threads.map(|thread| thread.join().expect("each bit is detected, or changes no output"))
    });
    let all = FlipCount {
        detected: counts.iter().map(|count| count.detected).sum(),
        without_effect: counts.iter().map(|count| count.without_effect).sum(),
    };
    println!("{name}: {} bits flipped, {all:?}", bits.len());
    assert_eq!(all.detected + all.without_effect, bits.len());
    all
}

/// A copy of a home, including its `-wal`.
fn copy(home: &LedgerHome) -> LedgerHome {
    let copy = home.copy();
    for name in ["ledger.db-wal", "state.db-wal"] {
        let from = home.folder.path().join(name);
        if from.exists() {
            assert!(std::fs::copy(from, copy.folder.path().join(name)).is_ok(), "{name}");
        }
    }
    copy
}

fn bits_of(path: &Path, stride: usize) -> Vec<usize> {
    let bytes = std::fs::metadata(path).expect("file").len();
    (0..usize::try_from(bytes).expect("size") * 8).step_by(stride).collect()
}

#[test]
fn every_flipped_bit_of_a_settled_file_is_detected_or_changes_nothing() {
    let home = LedgerHome::filled(6);
    let count = flip_all(&home, "ledger.db", &bits_of(&home.files().ledger(), stride(STRIDE)));
    assert!(count.detected > 100 && count.without_effect > 100, "{count:?}");
}

/// The rows of a ledger that are still in its write-ahead log.
#[test]
fn every_flipped_bit_of_the_write_ahead_log_is_detected_or_changes_nothing() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let _receipts = ledger.append_blocking(vec![key_draft("Ab3dEf9h", "ops", "operator")]).expect("appended");
    // While a reader is active, the writer leaves the log in place.
    let reader = home.db();
    let read: i64 = reader.query_row("SELECT count(*) FROM entry", [], |row| row.get(0)).expect("read");
    assert_eq!(read, 2);
    drop(ledger);
    drop(Lock::take(&home.files(), Duration::from_secs(5)).expect("the writer ends"));
    let kept = copy(&home);
    drop(reader);
    assert!(kept.audit().verdict.holds());
    let log = kept.folder.path().join("ledger.db-wal");
    let count = flip_all(&kept, "ledger.db-wal", &bits_of(&log, stride(STRIDE)));
    assert!(count.detected > 100, "{count:?}");
    flip_all(&kept, "ledger.db", &bits_of(&kept.files().ledger(), stride(STRIDE)));
}

/// A tile, at its position in the file.
#[test]
fn every_flipped_bit_of_a_tile_is_detected() {
    let home = LedgerHome::filled(260);
    let hashes: Vec<u8> =
        home.db().query_row("SELECT hashes FROM tile", [], |row| row.get(0)).expect("one tile");
    let file = std::fs::read(home.files().ledger()).expect("file");
    let bits: Vec<usize> = hashes
        .chunks_exact(32)
        .filter_map(|hash| file.windows(32).position(|window| window == hash))
        .flat_map(|at| at * 8..(at + 32) * 8)
        .step_by(stride(STRIDE * 5))
        .collect();
    let count = flip_all(&home, "ledger.db", &bits);
    assert_eq!((count.without_effect, count.detected > 50), (0, true), "{count:?}");
}

#[test]
fn every_flipped_bit_of_the_mark_is_detected() {
    let home = LedgerHome::filled(6);
    let count = flip_all(&home, "high-water", &bits_of(&home.files().high_water(), 1));
    assert_eq!(count.without_effect, 0, "{count:?}");
}
