//! Appends: one after the other, by many producers, and to a long ledger.

use crate::entries::{self, open};
use crate::floors::{Flat, Group};
use crate::{Aim, Table, median, percentile};
use par::ledger::{Draft, Filter, Follower, Ledger, Order, Reader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Appends of one entry, each next to a sync of as many bytes.
const SINGLES: usize = 1_500;
/// Rounds of ledger and floor in turn, so that the machine's drift affects both.
const ROUNDS: usize = 3;
/// Duration of one round of many producers.
const ROUND: Duration = Duration::from_secs(3);
/// The longest acceptable stall of an append, in microseconds.
const STALL_US: f64 = 50_000.0;

/// Bytes of an entry of the floor: mean header, salt and mean payload.
const ENTRY_BYTES: usize = 590 + 32 + 1_130;

pub fn single(below: &Path, table: &mut Table) {
    let folder = entries::home(below);
    let ledger = open(folder.path());
    let mut flat = Flat::make(below);
    let bytes = vec![7; ENTRY_BYTES];
    let (mut synced, mut appended) = (Vec::new(), Vec::new());
    let mut drafts = Vec::new();
    for round in 0..SINGLES + 100 {
        if drafts.is_empty() {
            drafts = entries::run(ledger.head().size + 2);
            drafts.reverse();
        }
        let draft = drafts.pop().expect("draft");
        let began = Instant::now();
        flat.append(&bytes);
        let sync = began.elapsed();
        let began = Instant::now();
        let _receipts = ledger.append_blocking(vec![draft]).expect("appended");
        if round >= 100 {
            appended.push(began.elapsed());
            synced.push(sync);
        }
    }
    for (name, percent, aim) in [("p50", 50, Aim::AtMost(1.05)), ("p99", 99, Aim::None)] {
        let (is, floor) = (percentile(&mut appended, percent), percentile(&mut synced, percent));
        table.row(
            format!("single append, {name}"),
            format!("{is:.0} µs"),
            format!("{floor:.0} µs"),
            is / floor,
            aim,
        );
    }
}

/// The result of one round of many producers.
struct Round {
    rate: f64,
    times: Vec<Duration>,
}

pub fn producers(below: &Path, table: &mut Table) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    for count in [64, 256, 1_000] {
        let folder = entries::home(below);
        let ledger = open(folder.path());
        let group = Group::start(Flat::make(below));
        let (mut ledgers, mut floors) = (Vec::new(), Vec::new());
        // The first round is a warm-up.
        for round in 0..=ROUNDS {
            let floor = floor_round(&runtime, &group, count);
            let appended = ledger_round(&runtime, &ledger, count);
            if round > 0 {
                floors.push(floor);
                ledgers.push(appended);
            }
        }
        tell(count, ledgers, floors, table);
    }
}

fn tell(count: usize, mut ledgers: Vec<Round>, mut floors: Vec<Round>, table: &mut Table) {
    let ratios = ledgers.iter().zip(&floors).map(|(ledger, floor)| ledger.rate / floor.rate);
    let ratio = median(ratios.collect());
    let rate = |rounds: &[Round]| median(rounds.iter().map(|round| round.rate).collect());
    let (is, floor) = (rate(&ledgers), rate(&floors));
    let name = format!("{count} producers, rate");
    table.row(name, format!("{is:.0}/s"), format!("{floor:.0}/s"), ratio, Aim::AtLeast(0.7));
    let at = |rounds: &mut [Round], percent| {
        median(rounds.iter_mut().map(|round| percentile(&mut round.times, percent)).collect())
    };
    for (name, percent, aim) in [("p50", 50, Aim::None), ("p99", 99, Aim::AtMost(2.0))] {
        let (is, floor) = (at(&mut ledgers, percent), at(&mut floors, percent));
        let name = format!("{count} producers, {name}");
        table.row(name, format!("{is:.0} µs"), format!("{floor:.0} µs"), is / floor, aim);
    }
    let longest = |rounds: &mut [Round]| {
        rounds.iter_mut().map(|round| percentile(&mut round.times, 100)).fold(0.0, f64::max)
    };
    let (is, floor) = (longest(&mut ledgers), longest(&mut floors));
    let name = format!("{count} producers, longest of 50 ms");
    table.row(name, format!("{is:.0} µs"), format!("{floor:.0} µs"), is / STALL_US, Aim::AtMost(1.0));
}

fn floor_round(runtime: &Runtime, group: &Group, producers: usize) -> Round {
    round(runtime, producers, || {
        let group = group.clone();
        move |_| {
            let group = group.clone();
            async move { group.append(vec![7; ENTRY_BYTES]).await }
        }
    })
}

fn ledger_round(runtime: &Runtime, ledger: &Ledger, producers: usize) -> Round {
    round(runtime, producers, || {
        let ledger = ledger.clone();
        // Made once for each producer: building an entry is not part of the measurement.
        let drafts: Vec<Draft> = entries::run(0);
        move |at: usize| {
            // A request would begin the same run again; the other five are appended in turn.
            let (ledger, draft) = (ledger.clone(), drafts[1 + at % 5].clone());
            async move { drop(ledger.append_one(draft).await.expect("appended")) }
        }
    })
}

/// Producers that each append one entry after the other, until the time is over.
fn round<A, F>(runtime: &Runtime, producers: usize, mut producer: impl FnMut() -> A) -> Round
where
    A: Fn(usize) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let began = Instant::now();
    let tasks: Vec<_> = (0..producers)
        .map(|_| {
            let append = producer();
            runtime.spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < ROUND {
                    let start = Instant::now();
                    append(times.len()).await;
                    times.push(start.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(runtime.block_on(task).expect("task"));
    }
    Round { rate: times.len() as f64 / began.elapsed().as_secs_f64(), times }
}

/// Appends of 64 producers, with and without two threads that read all the time, in turn, and the
/// longest write-ahead log seen meanwhile.
pub fn logs(below: &Path, table: &mut Table) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    let folder = entries::home(below);
    let ledger = open(folder.path());
    let (is_over, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let see = || longest.fetch_max(log_bytes(folder.path()), Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..=ROUNDS {
            let before = ledger_round(&runtime, &ledger, 64).rate;
            see();
            is_over.store(false, Ordering::Relaxed);
            let readers: Vec<_> = [Order::Ascending, Order::Descending]
                .into_iter()
                .map(|order| {
                    let (ledger, is_over, see) = (&ledger, &is_over, &see);
                    scope.spawn(move || {
                        let reader = Reader::open(&ledger.files().ledger()).expect("reader");
                        let filter = Filter::parse("kind:run.request -status:ok").expect("query");
                        while !is_over.load(Ordering::Relaxed) {
                            let from = if order == Order::Ascending { 0 } else { u64::MAX };
                            reader.headers(&filter, from, order, 20, 2_000).expect("read");
                            see();
                        }
                    })
                })
                .collect();
            let after = ledger_round(&runtime, &ledger, 64).rate;
            is_over.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().expect("read"));
            alone.push(before);
            beside.push(after);
        }
    });
    let ratio = median(beside.iter().zip(&alone).map(|(beside, alone)| beside / alone).collect());
    let (is, floor) = (format!("{:.0}/s", median(beside)), format!("{:.0}/s", median(alone)));
    table.row("appends beside two readers / alone".to_owned(), is, floor, ratio, Aim::None);
    let (bytes, max) = (longest.into_inner() as f64, (64_u64 << 20) as f64);
    let name = "longest write-ahead log of 64 MiB".to_owned();
    table.row(
        name,
        format!("{:.0} MiB", bytes / 1_048_576.0),
        "64 MiB".to_owned(),
        bytes / max,
        Aim::AtMost(1.1),
    );
}

/// Bytes of the write-ahead logs of all segments.
fn log_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("folder").filter_map(Result::ok);
    let logs = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("ledger") && name.ends_with("-wal")
    });
    logs.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}

/// Appends of 64 producers, with and without the index that follows them, in turn.
pub fn index(below: &Path, table: &mut Table) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    let folder = entries::home(below);
    let ledger = open(folder.path());
    let index = Arc::new(ledger.index().expect("index"));
    let (mut alone, mut followed) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let before = ledger_round(&runtime, &ledger, 64).rate;
        // Entries not indexed yet do not belong to the measured round.
        while index.follow().expect("followed") > 0 {}
        let follower = Follower::start(index.clone()).expect("follower");
        let beside = ledger_round(&runtime, &ledger, 64).rate;
        follower.stop();
        if round > 0 {
            alone.push(before);
            followed.push(beside);
        }
    }
    let cost = median(alone.iter().zip(&followed).map(|(alone, followed)| alone / followed).collect());
    let (is, floor) = (median(followed), median(alone));
    table.row(
        "appends without / with the index behind".to_owned(),
        format!("{is:.0}/s"),
        format!("{floor:.0}/s"),
        cost,
        Aim::AtMost(1.1),
    );
}

/// Appends of 64 producers to a ledger of ten thousand entries and to the big one, in turn.
pub fn at_size(below: &Path, big: &tempfile::TempDir, entries: u64, table: &mut Table) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    let small = entries::filled(below, 10_000);
    let (small, big) = (open(small.path()), open(big.path()));
    let (mut at_small, mut at_big) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let pair = (ledger_round(&runtime, &small, 64).rate, ledger_round(&runtime, &big, 64).rate);
        if round > 0 {
            at_small.push(pair.0);
            at_big.push(pair.1);
        }
    }
    let ratio = median(at_big.iter().zip(&at_small).map(|(big, small)| big / small).collect());
    let (is, floor) = (median(at_big), median(at_small));
    let name = format!("appends at {entries} / at 10,000");
    table.row(name, format!("{is:.0}/s"), format!("{floor:.0}/s"), ratio, Aim::AtLeast(0.95));
}
