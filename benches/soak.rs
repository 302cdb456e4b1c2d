//! What very many calls of every kind leave behind, and whether they affect other calls.
//!
//! `cargo bench --bench soak -- --calls 100000` makes that many, 64 at a time, through the gate and
//! a real launcher: reads, programs, floods, fork bombs, memory bombs, sleepers, crashes, calls
//! that are released before they start and killed while they run, and calls that lock every
//! descriptor they have. It prints the launcher's memory and the size of the write-ahead log at 10
//! %, 50 % and 100 %, the latency of reading calls when idle and under load, and what is left at
//! the end; it fails if a process, descriptor, group, mount, lock or file is left. Run it as root,
//! if possible, to be able to read the launcher's state.

#![expect(clippy::disallowed_methods, reason = "a bench builds its program")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

#[path = "house/mod.rs"]
#[expect(dead_code, reason = "other benches have other uses of it")]
mod house;

use house::{Caller, House, Permitted, make_home, temporary};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CALLS: usize = 2_000;
const WIDTH: usize = 64;
/// Time from the last answer until everything of the call is gone.
const LEAVE: Duration = Duration::from_secs(10);
/// Interval between two checks, and delay after a launcher has its 64 calls.
const LOOK: Duration = Duration::from_millis(1);

/// For each hundred calls: how many, of which kind, and the caller's patience in milliseconds.
const MIX: [(usize, &str, Option<u64>); 11] = [
    (60, "read", None),
    (8, "quiet", None),
    (5, "read", Some(0)),
    (5, "sleep", Some(20)),
    (4, "sleep", None),
    (2, "locks", None),
    (4, "flood", None),
    (4, "forks", None),
    (4, "memory", None),
    (2, "threads", Some(10)),
    (2, "crash", None),
];

const HARM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
static void lock_all(void) {
    struct flock lock = {.l_type = F_RDLCK, .l_len = 1};
    for (int fd = 0; fd < 64; fd++) {
        for (lock.l_start = 0; lock.l_start < 64; lock.l_start += 2) fcntl(fd, F_OFD_SETLK, &lock);
        flock(fd, LOCK_SH | LOCK_NB);
        fcntl(fd, F_SETPIPE_SZ, 1 << 20);
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
}
static void *stay(void *unused) { for (;;) pause(); }
int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t thread;
    if (!strcmp(how, "sleep")) for (;;) pause();
    if (!strcmp(how, "flood")) for (;;) puts("flood");
    if (!strcmp(how, "forks")) for (;;) fork();
    if (!strcmp(how, "threads")) for (;;) pthread_create(&thread, 0, stay, 0);
    if (!strcmp(how, "memory")) for (char *more; (more = malloc(1 << 20));) memset(more, 1, 1 << 20);
    if (!strcmp(how, "crash")) abort();
    if (!strcmp(how, "locks")) lock_all();
    return 0;
}
"#;

fn main() {
    let memory = temporary(Path::new("/dev/shm"));
    let programs = temporary(&std::env::temp_dir());
    let file = make_home(memory.path());
    build(programs.path());
    declare(&memory.path().join("home/etc/tools.d"), &programs.path().join("harm"));
    let house = House::start(memory.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let caller = house.connect().caller(memory.path());
        let soak = Soak { caller, file, quiet: Arc::default(), loud: Arc::default(), ends: Arc::default() };
        let calls = calls();
        tokio::spawn(async move { soak.all(calls, memory.path()).await }).await.expect("made");
    });
}

fn calls() -> usize {
    let words: Vec<String> = std::env::args().collect();
    let said = words.iter().position(|word| word == "--calls").and_then(|at| words.get(at + 1));
    said.map_or(CALLS, |number| number.parse().expect("a number"))
}

#[derive(Clone)]
struct Soak {
    caller: Caller,
    file: PathBuf,
    quiet: Arc<Mutex<Vec<Duration>>>,
    loud: Arc<Mutex<Vec<Duration>>>,
    ends: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Soak {
    async fn all(&self, calls: usize, below: &Path) {
        let pid = self.caller.launcher.report().pid;
        // Every kind once: what the first use creates is not a leak.
        self.make(200, kind, &self.quiet, |_| {}).await;
        self.quiet.lock().expect("held").clear();
        self.settled(pid).await;
        let before = Left::new(pid, below);
        self.make(calls.min(5_000), |_| ("read", None), &self.quiet, |_| {}).await;
        self.ends.lock().expect("held").clear();
        let marks = [calls / 10, calls / 2, calls];
        println!("{:<10} {:>12} {:>12} {:>18}", "calls", "RSS, KiB", "heap, KiB", "-wal of all, KiB");
        let tell = |made: usize| {
            if marks.contains(&made) {
                let (rss, heap) = (status(pid, "VmRSS:"), status(pid, "RssAnon:"));
                println!("{made:<10} {rss:>12} {heap:>12} {:>18}", write_ahead(below) / 1024);
            }
        };
        let start = Instant::now();
        self.make(calls, kind, &self.loud, tell).await;
        let rate = f64::from(u32::try_from(calls).expect("so many")) / start.elapsed().as_secs_f64();
        println!("{calls} calls, {WIDTH} at a time: {rate:.0} a second");
        for (end, count) in self.ends.lock().expect("held").iter() {
            println!("  {end:<14} {count:>8}");
        }
        compare(&self.quiet, &self.loud);
        self.settled(pid).await;
        let mut after = Left::new(pid, below);
        let until = Instant::now() + LEAVE;
        // While the ledger changes to its next segment, after some 100,000 calls, the files of both
        // are open.
        while !after.is_no_more_than(&before) && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            after = Left::new(pid, below);
        }
        println!("before: {before:?}\nafter:  {after:?}");
        println!("write-ahead logs at the end: {} KiB", write_ahead(below) / 1024);
        assert!(self.caller.launcher.renewals() == 0 && after.is_no_more_than(&before), "something is left");
    }

    /// Makes calls of these kinds; the latency of reading calls is added to `times`.
    async fn make(
        &self,
        calls: usize,
        kind: impl Fn(usize) -> (&'static str, Option<u64>) + Copy + Send + 'static,
        times: &Arc<Mutex<Vec<Duration>>>,
        tell: impl Fn(usize),
    ) {
        let next = Arc::new(AtomicUsize::new(0));
        let made = Arc::new(AtomicUsize::new(0));
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..WIDTH {
            let (soak, next, made) = (self.clone(), next.clone(), made.clone());
            let (times, sender) = (times.clone(), sender.clone());
            tokio::spawn(async move {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= calls {
                        break;
                    }
                    let (what, patience) = kind(at);
                    let took = soak.once(what, patience).await;
                    if (what, patience) == ("read", None) {
                        times.lock().expect("held").push(took);
                    }
                    sender.send(made.fetch_add(1, Ordering::Relaxed) + 1).expect("heard");
                }
            });
        }
        drop(sender);
        while let Some(made) = receiver.recv().await {
            tell(made);
        }
    }

    /// Makes one call; returns its duration.
    async fn once(&self, what: &str, patience: Option<u64>) -> Duration {
        let (tool, arguments) = match what {
            "read" => ("read_file", json!({ "path": self.file })),
            how => ("harm", json!({ "path": self.file, "how": how })),
        };
        let mut start = Instant::now();
        let Permitted { order, running, .. } = loop {
            match self.caller.begin(tool, arguments.clone()).await {
                Ok(permitted) => break permitted,
                // Those that were released are still being reaped.
                Err(e) if e.to_string().contains("calls already") => {
                    tokio::time::sleep(LOOK).await;
                    start = Instant::now();
                }
                Err(e) => panic!("{e}"),
            }
        };
        let end = match patience {
            Some(0) => "released".to_owned(),
            Some(ms) => {
                let run =
                    tokio::time::timeout(Duration::from_millis(ms), self.caller.launcher.run(order, None));
                run.await.map_or_else(|_| "killed".to_owned(), |execution| format!("{:?}", execution.end))
            }
            None => {
                let execution = self.caller.launcher.run(order, None).await;
                let told = self.caller.gate.settle(vec![(running, execution)], None).await.expect("settled");
                told.0[0].record().status.to_string()
            }
        };
        *self.ends.lock().expect("held").entry(format!("{what} {end}")).or_default() += 1;
        start.elapsed()
    }

    /// Waits until the launcher has no child left.
    async fn settled(&self, pid: u32) {
        let until = Instant::now() + LEAVE;
        while !children(pid).is_empty() {
            assert!(Instant::now() < until, "left behind: {:?}", children(pid));
            tokio::time::sleep(LOOK).await;
        }
        // Descriptors of ended calls are closed after the first answer.
        for _ in 0..2 {
            self.caller.launcher.check_or_replace().await.expect("an answer");
        }
    }
}

fn kind(at: usize) -> (&'static str, Option<u64>) {
    // Spread, so that different kinds run concurrently: 37 and 100 are coprime.
    let mut place = at * 37 % 100;
    for (count, what, patience) in MIX {
        if place < count {
            return (what, patience);
        }
        place -= count;
    }
    panic!("the mix is of a hundred")
}

fn compare(quiet: &Mutex<Vec<Duration>>, loud: &Mutex<Vec<Duration>>) {
    let (mut quiet, mut loud) = (quiet.lock().expect("held"), loud.lock().expect("held"));
    quiet.sort();
    loud.sort();
    println!("{:<46} {:>8} {:>8} {:>8}", "read_file, 64 at a time, microseconds", "p10", "median", "p99");
    let at =
        |times: &[Duration], percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    for (name, times) in [("among themselves", &quiet), ("among all kinds", &loud)] {
        println!("{name:<46} {:>8.0} {:>8.0} {:>8.0}", at(times, 10), at(times, 50), at(times, 99));
    }
    println!(
        "among all kinds / among themselves: median {:.2}, p99 {:.2}  (aim: at most 3)",
        at(&loud, 50) / at(&quiet, 50),
        at(&loud, 99) / at(&quiet, 99)
    );
}

/// A count of everything that could be left behind; `None` if this user may not read it.
#[derive(Debug)]
struct Left {
    front_descriptors: Option<usize>,
    launcher_descriptors: Option<usize>,
    mounts: Option<usize>,
    launcher_mounts: Option<usize>,
    /// Locks on files, except those of other living processes.
    locks: usize,
    /// Groups of calls with a process in them.
    groups: usize,
    /// Files below the home, except for `data/`.
    files: BTreeSet<PathBuf>,
}

impl Left {
    fn new(pid: u32, below: &Path) -> Self {
        let count = |path: String| std::fs::read_dir(path).ok().map(Iterator::count);
        let lines = |path: String| std::fs::read_to_string(path).ok().map(|text| text.lines().count());
        let mut files = BTreeSet::new();
        list(&below.join("home"), &mut files);
        Self {
            front_descriptors: count("/proc/self/fd".to_owned()),
            launcher_descriptors: count(format!("/proc/{pid}/fd")),
            mounts: lines("/proc/self/mountinfo".to_owned()),
            launcher_mounts: lines(format!("/proc/{pid}/mountinfo")),
            locks: locks(pid),
            groups: groups(pid),
            files,
        }
    }

    fn is_no_more_than(&self, before: &Self) -> bool {
        self.front_descriptors <= before.front_descriptors
            && self.launcher_descriptors <= before.launcher_descriptors
            && self.mounts <= before.mounts
            && self.launcher_mounts <= before.launcher_mounts
            && self.locks <= before.locks
            && self.groups == 0
            && self.files == before.files
    }
}

fn list(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for path in std::fs::read_dir(folder).expect("folder").map(|one| one.expect("entry").path()) {
        if path.is_dir() && !path.ends_with("data") {
            list(&path, files);
        }
        files.insert(path);
    }
}

/// Locks of this process, of the launcher, of descriptors (proc_locks(5) has -1 for them), and of
/// ended processes.
fn locks(launcher: u32) -> usize {
    let own = [launcher, std::process::id()].map(|pid| pid.to_string());
    let is_others = |pid: &str| !own.iter().any(|own| own == pid) && Path::new("/proc").join(pid).exists();
    let table = std::fs::read_to_string("/proc/locks").expect("table");
    let pids = table.lines().filter_map(|line| line.split_whitespace().nth(4));
    pids.filter(|pid| !is_others(pid)).count()
}

/// The write-ahead logs of all databases below a home, in bytes.
fn write_ahead(below: &Path) -> u64 {
    let data = std::fs::read_dir(below.join("home/data")).expect("folder").flatten();
    let logs = data.filter(|one| one.file_name().to_string_lossy().ends_with("-wal"));
    logs.filter_map(|one| one.metadata().ok()).map(|found| found.len()).sum()
}

/// Groups of calls with a process in them, below the launcher's own.
fn groups(pid: u32) -> usize {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("table");
    let mount =
        table.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("launcher");
    let own = own.lines().find_map(|line| line.strip_prefix("0::")?.strip_suffix("/main"));
    let (Some(mount), Some(own)) = (mount, own) else { return 0 };
    let inside = std::fs::read_dir(Path::new(mount).join(own.trim_start_matches('/'))).expect("group");
    let events =
        inside.flatten().filter(|one| one.file_name() != "main").map(|one| one.path().join("cgroup.events"));
    let texts: Vec<String> = events.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    println!("groups of calls: {}", texts.len());
    texts.iter().filter(|text| text.contains("populated 1")).count()
}

fn children(pid: u32) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let stats = all.filter_map(|one| std::fs::read_to_string(one.path().join("stat")).ok());
    // After the name, which may contain anything: state and parent.
    let is_child = |stat: &String| {
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&pid.to_string())
    };
    stats.filter(is_child).collect()
}

fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().trim_end_matches(" kB").to_owned())
}

fn build(below: &Path) {
    let (source, program) = (below.join("harm.c"), below.join("harm"));
    std::fs::write(&source, HARM).expect("source");
    let built = Command::new("cc")
        .args(["-O1", "-w", "-static", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .output();
    let built = built.expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

fn declare(tools: &Path, program: &Path) {
    let text = format!(
        r#"name = "harm"
summary = "Harm of a kind, for a bench."
class = "read"
risk = "high"
command = ["{}", "{{how}}"]
runtime = "static"
untrusted_output = true

[resource]
type = "Path"
from = "/path"
canonical = "path"

[sandbox]
read = ["@workspace"]

[limits]
wall_ms_max = 100
output_bytes_max = 65536
memory_bytes_max = 33554432
processes_max = 16

[input]
type = "object"
additionalProperties = false
required = ["path", "how"]

[input.properties.path]
type = "string"

[input.properties.how]
type = "string"
maxLength = 16
"#,
        program.display()
    );
    std::fs::write(tools.join("harm.toml"), text).expect("manifest");
}
