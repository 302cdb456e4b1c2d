//! The write-ahead log stays within its bound: under load, with readers, and with a reader that
//! does not end.

use super::{LedgerHome, PROJECTIONS, one};
use crate::ledger::{Files, Filter, Ledger, Lock, Order, audit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MAX: u64 = 1 << 20;
/// Bytes of one commit of this load, including the pages that are not full.
const COMMIT: u64 = 512 << 10;

fn files(home: &LedgerHome) -> Files {
    Files { wal_bytes_max: MAX, ..home.files() }
}

fn open(files: &Files) -> Ledger {
    let lock = Lock::take(files, Duration::from_secs(5)).expect("lock");
    Ledger::open(files.clone(), lock, &PROJECTIONS).expect("ledger")
}

/// The longest log of a single segment. A reader keeps the log of a sealed segment for as long as
/// it reads, so on a busy machine there may be several logs.
fn longest_log(files: &Files) -> u64 {
    let segments = files.segments().unwrap_or_default();
    segments.into_iter().map(|first| crate::store::log_bytes(&files.segment(first))).max().unwrap_or_default()
}

/// The bound of a segment's log, in bytes.
const BOUND: u64 = MAX + COMMIT;

/// Appends `mib` MiB with three threads. Returns the longest write-ahead log of a segment that was
/// seen.
fn load(ledger: &Ledger, mib: u64) -> u64 {
    let longest = AtomicU64::new(0);
    let words = "x".repeat(64 << 10);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..mib * 16 / 3 {
                    let _receipts = ledger.append_blocking(one(&words)).expect("appended");
                    longest.fetch_max(longest_log(ledger.files()), Ordering::Relaxed);
                }
            });
        }
    });
    longest.into_inner()
}

#[test]
fn a_load_with_readers_keeps_the_log_within_its_bound() {
    let home = LedgerHome::empty();
    let ledger = open(&files(&home));
    let is_over = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        for order in [Order::Ascending, Order::Descending] {
            let (ledger, is_over) = (&ledger, &is_over);
            scope.spawn(move || {
                let filter = Filter::parse("kind:model.reply -nginx").expect("query");
                while !is_over.load(Ordering::Relaxed) {
                    let from = if order == Order::Ascending { 0 } else { u64::MAX };
                    ledger.reader().headers(&filter, from, order, 20, 20).expect("read");
                }
            });
        }
        let longest = load(&ledger, 24);
        is_over.store(true, Ordering::Relaxed);
        longest
    });
    assert!(longest <= BOUND, "{longest} bytes of write-ahead log, expected at most {BOUND}");
    assert!(longest > MAX / 4, "{longest}: the log was there at all");
    drop(ledger);
    drop(Lock::take(&home.files(), Duration::from_secs(5)).expect("the writer ends"));
    assert!(home.audit().verdict.holds());
}

/// A reader keeps its snapshot, and the ledger continues in another file.
#[test]
fn a_reader_that_stays_ends_the_segment_and_not_the_disk() {
    let home = LedgerHome::empty();
    let files = files(&home);
    let ledger = open(&files);
    let _receipts = ledger.append_blocking(one("before")).expect("appended");
    let reader = home.db();
    reader.execute_batch("BEGIN").expect("begun");
    let count =
        || reader.query_row("SELECT count(*) FROM entry", [], |row| row.get::<_, i64>(0)).expect("read");
    let seen = count();
    let longest = load(&ledger, 24);
    assert_eq!(count(), seen, "a snapshot");
    assert!(files.segments().expect("segments").len() >= 2, "it continues in another file");
    assert!(longest <= BOUND, "{longest} bytes of write-ahead log in one file");
    reader.execute_batch("COMMIT").expect("ended");
    drop(reader);
    let began = Instant::now();
    while home.folder.path().join("ledger.db-wal").exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "the sealed segment keeps its log");
        std::thread::sleep(Duration::from_millis(50));
    }
    let report = audit(&files, &PROJECTIONS, &[]);
    assert!(report.verdict.holds() && report.segments >= 2, "{report:?}");
}
