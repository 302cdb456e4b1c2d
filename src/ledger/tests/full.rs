//! A full disk: nothing is half written, what has already happened is not lost, and everything
//! continues by itself once there is space.

use super::{PROJECTIONS, call_drafts, one};
use crate::ledger::{AppendError, Draft, Files, Kind, Ledger, Lock, Receipt, audit, key};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs `work` on a disk of about one megabyte. Prints that it is skipped if none can be mounted.
fn on_small_disk(work: fn(&Path)) {
    if !super::is_root() {
        eprintln!("skipped: only root can mount the small disk that this test fills");
        return;
    }
    // Namespaces belong to a thread, and the threads that it starts inherit them.
    let done = std::thread::spawn(move || {
        let at = tempfile::tempdir().expect("folder");
        if let Err(e) = mount_small_disk(at.path()) {
            eprintln!("skipped: no small disk can be mounted here: {e}");
            return;
        }
        work(at.path());
        nix::mount::umount2(at.path(), nix::mount::MntFlags::MNT_DETACH).expect("unmount");
    });
    done.join().expect("thread");
}

fn mount_small_disk(at: &Path) -> nix::Result<()> {
    use nix::mount::{MsFlags, mount};
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some("size=1300k"))
}

/// A ledger on that disk.
struct SmallDisk {
    files: Files,
}

impl SmallDisk {
    fn new(data: &Path, reserve_kib: u64) -> Self {
        let files = Files { free_bytes_min: 0, reserve_bytes: reserve_kib << 10, ..Files::below(data) };
        key::make(&files.log_key()).expect("log key");
        Self { files }
    }

    fn open(&self) -> Ledger {
        let lock = Lock::take(&self.files, Duration::from_secs(5)).expect("lock");
        Ledger::open(self.files.clone(), lock, &PROJECTIONS).expect("ledger")
    }

    /// Fills the disk except for `left_kib`.
    fn fill(&self, left_kib: u64) {
        let free = self.files.free_bytes().expect("space");
        let ballast = usize::try_from(free.saturating_sub(left_kib << 10)).expect("size");
        std::fs::write(self.files.data.join("ballast"), vec![0; ballast]).expect("ballast");
    }

    fn empty(&self) {
        std::fs::remove_file(self.files.data.join("ballast")).expect("ballast");
    }

    /// Number of entries of a ledger that verifies.
    fn verified(&self, when: &str) -> u64 {
        let report = audit(&self.files, &PROJECTIONS, &[]);
        assert!(report.verdict.holds(), "{when}: {:?}", report.findings);
        report.entries
    }
}

fn is_full(ledger: &Ledger) -> bool {
    ledger.obstacle().is_some_and(|what| what.contains("full"))
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A result of `kib` KiB, as the gate settles it. Returns once it is on the ledger.
fn owed(ledger: &Ledger, kib: usize) -> Result<Vec<Receipt>, AppendError> {
    let drafts = vec![Draft::untyped(Kind::CallResult, json!({ "result": "x".repeat(kib << 10) }))];
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    runtime.block_on(ledger.append_owed(drafts))
}

#[test]
fn a_full_disk_rolls_back_and_passes() {
    on_small_disk(|data| {
        let disk = SmallDisk::new(data, 64);
        let ledger = disk.open();
        // Each round leaves another number of bytes, so that each write of a commit is once the
        // first that finds no space.
        for left_kib in [4, 8, 12, 16, 24, 36, 48] {
            disk.fill(left_kib);
            let mut refusals = 0;
            for round in 0..40_usize {
                let size = ledger.head().size;
                match ledger.append_blocking(call_drafts(usize::try_from(size).expect("size") - 1)) {
                    Ok(receipts) => assert_eq!(receipts[0].seq(), size, "{left_kib} KiB, round {round}"),
                    Err(AppendError::Full) => refusals += 1,
                    Err(other) => panic!("{left_kib} KiB, round {round}: {other}"),
                }
            }
            assert!(refusals > 0, "{left_kib} KiB left, and the disk was never full");
            assert!(is_full(&ledger));
            disk.verified("while full");
            disk.empty();
            let receipts = ledger.append_blocking(one("again")).expect("space again");
            assert_eq!(ledger.obstacle(), None);
            assert_eq!(disk.verified("after"), receipts[0].head().size);
            let applied: i64 = ledger
                .state(|state| state.query_row("SELECT size FROM applied", [], |row| row.get(0)))
                .expect("state");
            assert_eq!(applied as u64, receipts[0].head().size);
        }
        drop(ledger);
        drop(disk.open());
        disk.verified("opened again");
    });
}

/// No append and no restart is necessary.
#[test]
fn a_full_disk_recovers_by_itself_once_there_is_space() {
    on_small_disk(|data| {
        let disk = SmallDisk::new(data, 64);
        let ledger = disk.open();
        disk.fill(4);
        while ledger.append_blocking(one("x")).is_ok() {}
        assert!(is_full(&ledger));
        disk.empty();
        soon("new runs are taken", || ledger.obstacle().is_none());
        let _receipts = ledger.append_blocking(one("again")).expect("space again");
        disk.verified("after");
    });
}

#[test]
fn results_are_written_with_the_reserve_and_then_wait_for_space() {
    on_small_disk(|data| {
        let disk = SmallDisk::new(data, 64);
        let ledger = disk.open();
        let reserve = disk.files.reserve();
        assert_eq!(std::fs::metadata(&reserve).expect("reserve").len(), 64 << 10);
        disk.fill(4);
        while ledger.append_blocking(one("x")).is_ok() {}
        assert!(reserve.exists(), "an append that is not owed uses nothing of the reserve");
        let receipts = owed(&ledger, 20).expect("written with the reserve");
        assert_eq!(receipts[0].head().size, disk.verified("with the reserve"));
        assert!(!reserve.exists() && is_full(&ledger));
        assert_eq!(ledger.append_blocking(one("x")).expect_err("not owed"), AppendError::Full);
        assert_eq!(ledger.obstacle().as_deref(), Some("the disk under the ledger is full"));
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let ledger = ledger.clone();
                std::thread::spawn(move || owed(&ledger, 200).map(|receipts| receipts[0].seq()))
            })
            .collect();
        let size = ledger.head().size;
        // Longer than the pause between two tries.
        std::thread::sleep(Duration::from_millis(2_500));
        assert!(!waiting.iter().all(std::thread::JoinHandle::is_finished), "600 KiB are too much");
        assert!(is_full(&ledger));
        disk.verified("while results wait");
        disk.empty();
        let mut seqs: Vec<u64> =
            waiting.into_iter().map(|one| one.join().expect("thread").expect("written")).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, [size, size + 1, size + 2]);
        soon("new runs are taken", || ledger.obstacle().is_none());
        disk.verified("after");
    });
}

/// A start without space for the reserve accepts no run, and says why.
#[test]
fn a_start_on_a_full_disk_says_so() {
    on_small_disk(|data| {
        let disk = SmallDisk::new(data, 64);
        drop(disk.open());
        drop(Lock::take(&disk.files, Duration::from_secs(5)).expect("the writer ends"));
        std::fs::remove_file(disk.files.reserve()).expect("reserve");
        // Enough for the files that SQLite creates at opening.
        disk.fill(120);
        let ledger = disk.open();
        assert!(is_full(&ledger) && !disk.files.reserve().exists());
        assert_eq!(ledger.append_blocking(one("x")).expect_err("no reserve"), AppendError::Full);
        let _receipts = owed(&ledger, 1).expect("what a crash left open is closed");
        disk.empty();
        soon("the reserve is made", || disk.files.reserve().exists() && ledger.obstacle().is_none());
        disk.verified("after");
    });
}
