//! The cost of one governed `read_file` of 4 KiB (validated, prepared, authorised, recorded,
//! sandboxed, settled), compared with a plain spawn of `cat` on the same file, in one run.
//!
//! `cargo bench --bench governed_read` prints p10, median and p99 in microseconds, and ratios of
//! medians. The ledger is once on the disk of the temporary folder and once in memory (`/dev/shm`,
//! where a sync costs nothing). The floor of the disk is a 4 KiB append with `fdatasync`; a
//! governed call waits for two commits.

#![expect(clippy::disallowed_methods, reason = "a bench starts `cat` to compare with")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

#[path = "house/mod.rs"]
mod house;

use house::{Caller, House, make_home, temporary};
use serde_json::json;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 400;
const WARM_UP: usize = 20;
fn main() {
    let disk = temporary(&std::env::temp_dir());
    let memory = temporary(Path::new("/dev/shm"));
    let file = make_home(disk.path());
    make_home(memory.path());
    let house = House::start(disk.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let house = house.connect();
        let (on_disk, in_memory) = (house.caller(disk.path()), house.caller(memory.path()));
        let floor = disk.path().join("floor");
        // A separate task, as each run is: not on the thread that waits for the runtime.
        tokio::spawn(async move { measure(&on_disk, &in_memory, &floor, &file).await })
            .await
            .expect("measured");
    });
}

/// The parts of a governed call, in order.
const PARTS: [&str; 5] = ["  validate and prepare", "  decide", "  commit", "  run", "  settle"];

/// Measures everything in turn, so that the machine's drift affects all rows equally.
async fn measure(on_disk: &Caller, in_memory: &Caller, floor: &Path, file: &Path) {
    let mut floor = File::create(floor).expect("floor");
    let (mut cat, mut memory, mut disk, mut sync) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut parts: [Vec<Duration>; 5] = Default::default();
    for round in 0..ROUNDS + WARM_UP {
        let spawned = timed(|| spawn_cat(file));
        let start = Instant::now();
        let took = in_memory.call("read_file", json!({ "path": file })).await;
        let governed_memory = start.elapsed();
        let start = Instant::now();
        on_disk.call("read_file", json!({ "path": file })).await;
        let governed_disk = start.elapsed();
        let synced = timed(|| {
            floor.write_all(&[7; 4096]).expect("append");
            floor.sync_data().expect("sync");
        });
        if round >= WARM_UP {
            for (part, took) in parts.iter_mut().zip(took) {
                part.push(took);
            }
            cat.push(spawned);
            memory.push(governed_memory);
            disk.push(governed_disk);
            sync.push(synced);
        }
    }
    println!("{:<42} {:>8} {:>8} {:>8}", "microseconds", "p10", "median", "p99");
    let cat = row("spawn of cat, 4 KiB, no sandbox", &mut cat);
    let memory = row("governed read_file, ledger in memory", &mut memory);
    for (name, part) in PARTS.iter().zip(&mut parts) {
        row(name, part);
    }
    let disk = row("governed read_file, ledger on disk", &mut disk);
    let sync = row("4 KiB append and fdatasync", &mut sync);
    println!("governed without syncs / cat:        {:.2}  (aim: at most 0.7)", memory / cat);
    println!("governed with syncs / its two syncs: {:.2}  (aim: at most 1.2)", disk / (2.0 * sync));

    let start = Instant::now();
    let calls = 8 * ROUNDS / 4;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (caller, file) = (in_memory.clone(), file.to_owned());
        tasks.spawn(async move {
            for _ in 0..ROUNDS / 4 {
                caller.call("read_file", json!({ "path": file })).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = calls as f64 / start.elapsed().as_secs_f64();
    println!("eight in flight, ledger in memory: {rate:.0} governed calls a second");
}

fn spawn_cat(file: &Path) {
    let output = Command::new("/bin/cat").arg(file).stdin(Stdio::null()).output().expect("cat");
    assert_eq!(output.stdout.len(), 4096);
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn row(name: &str, times: &mut [Duration]) -> f64 {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    println!("{name:<42} {:>8.0} {:>8.0} {:>8.0}", at(10), at(50), at(99));
    at(50)
}
