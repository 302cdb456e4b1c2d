//! The cost of a sandboxed call, compared with starting a process without a sandbox, in one run.
//!
//! `cargo bench --bench sandbox` prints p10, median and p99 in microseconds from order to result,
//! with the child reaped: `cat` of 4 KiB spawned plainly, under bubblewrap with everything unshared
//! (if it is installed), as a builtin of PAR, as a dynamic and as a static program; at 1, 8 and 64
//! at a time; then the same, one at a time, 20 ms apart, and from a front that uses 1 GiB. Each row
//! ends with the page faults and the microseconds of processor time of one call: of the spawned
//! process, or of the launcher and its children. A call of PAR is prepared and run: validation,
//! prepare, run and the answer. Decision and ledger are not counted (`governed_read` has them),
//! except in PAR's calls per second. Arguments after `--` select the ways whose names contain one
//! of them: `cargo bench --bench sandbox -- cat builtin`.

#![expect(clippy::disallowed_methods, reason = "a bench starts `cat` to compare with")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

#[path = "house/mod.rs"]
mod house;

use house::{Caller, House, make_home, temporary};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Calls of each kind at each width.
const CALLS: usize = 320;
/// Calls of one kind in a row, before the next kind has its turn.
const TURN: usize = 64;
const WIDTHS: [usize; 3] = [1, 8, 64];
/// The pause between two calls of a person or a model, rather than of a loop.
const APART: Duration = Duration::from_millis(20);
/// The memory of the big front, in bytes.
const BIG: usize = 1 << 30;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Spawn,
    SpawnStatic,
    Bubblewrap,
    Builtin,
    Dynamic,
    Static,
}

const WAYS: [(Way, &str); 6] = [
    (Way::Spawn, "spawn of cat, no sandbox"),
    (Way::SpawnStatic, "spawn of a static cat, no sandbox"),
    (Way::Bubblewrap, "bubblewrap, all unshared"),
    (Way::Builtin, "PAR builtin"),
    (Way::Dynamic, "PAR program, dynamic"),
    (Way::Static, "PAR program, static"),
];

/// `cat` of one file, without loading a library.
const STATIC_CAT: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char buffer[65536];
    int file = open(argv[argc - 1], O_RDONLY);
    for (ssize_t length; (length = read(file, buffer, sizeof buffer)) > 0;)
        if (write(1, buffer, length) != length) return 1;
    return file < 0;
}
"#;

fn main() {
    let memory = temporary(Path::new("/dev/shm"));
    let programs = temporary(&std::env::temp_dir());
    let file = make_home(memory.path());
    let static_cat = build(programs.path());
    let tools = memory.path().join("home/etc/tools.d");
    manifest(&tools, "cat_dynamic", "dynamic", Path::new("/bin/cat"));
    if let Some(program) = &static_cat {
        manifest(&tools, "cat_static", "static", program);
    }
    let house = House::start(memory.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let caller = house.connect().caller(memory.path());
        let words = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
        let bench = Bench { caller, file, static_cat, has_bubblewrap: has_bubblewrap(), words };
        tokio::spawn(bench.all()).await.expect("measured");
    });
}

#[derive(Clone)]
struct Bench {
    caller: Caller,
    file: PathBuf,
    static_cat: Option<PathBuf>,
    has_bubblewrap: bool,
    words: Vec<String>,
}

impl Bench {
    async fn all(self) {
        for width in WIDTHS {
            self.table(&format!("{width} at a time"), width, Duration::ZERO).await;
        }
        self.table("1 at a time, 20 ms apart", 1, APART).await;
        // Written to, so that it is resident.
        let held = vec![7_u8; BIG];
        self.table("1 at a time, the front holds 1 GiB", 1, Duration::ZERO).await;
        assert_eq!(std::hint::black_box(&held)[BIG - 1], 7);
    }

    /// Measures each way in turn, so that the machine's drift affects all equally.
    async fn table(&self, title: &str, width: usize, pause: Duration) {
        println!(
            "\n{title:<47} {:>8} {:>8} {:>8} {:>9} {:>7} {:>7}",
            "p10", "median", "p99", "calls/s", "faults", "cpu µs"
        );
        let launcher = self.caller.launcher.report().pid;
        let ways: Vec<(Way, &str)> = WAYS.into_iter().filter(|(way, name)| self.can(*way, name)).collect();
        let mut all: Vec<(Vec<Duration>, Duration, Used)> = ways.iter().map(|_| Default::default()).collect();
        for turn in 0..=CALLS / TURN {
            for ((way, _), (times, whole, used)) in ways.iter().zip(&mut all) {
                let (start, before) = (Instant::now(), Used::so_far(launcher));
                let took = self.turn(*way, width, pause).await;
                // The first turn is a warm-up.
                if turn > 0 {
                    *whole += start.elapsed();
                    used.add(before, Used::so_far(launcher));
                    times.extend(took);
                }
            }
        }
        let (mut plain, mut plain_static) = (1.0, 1.0);
        for ((way, name), (mut times, whole, used)) in ways.into_iter().zip(all) {
            let calls = times.len() as u64;
            let rate = f64::from(u32::try_from(calls).expect("a few")) / whole.as_secs_f64();
            let (faults, cpu_us) = (used.faults / calls, used.cpu_us / calls);
            times.sort();
            let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
            let ratio = match way {
                Way::Spawn => {
                    plain = at(50);
                    String::new()
                }
                Way::SpawnStatic => {
                    plain_static = at(50);
                    String::new()
                }
                Way::Static => format!("{:.2} × static cat", at(50) / plain_static),
                Way::Bubblewrap | Way::Builtin | Way::Dynamic => format!("{:.2} × cat", at(50) / plain),
            };
            println!(
                "{name:<47} {:>8.0} {:>8.0} {:>8.0} {rate:>9.0} {faults:>7} {cpu_us:>7}  {ratio}",
                at(10),
                at(50),
                at(99)
            );
        }
    }

    fn can(&self, way: Way, name: &str) -> bool {
        let wanted = self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()));
        match way {
            Way::Bubblewrap => wanted && self.has_bubblewrap,
            Way::SpawnStatic | Way::Static => wanted && self.static_cat.is_some(),
            Way::Spawn | Way::Builtin | Way::Dynamic => wanted,
        }
    }

    async fn turn(&self, way: Way, width: usize, pause: Duration) -> Vec<Duration> {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..width {
            let bench = self.clone();
            tasks.spawn(async move {
                let mut times = Vec::new();
                for _ in 0..TURN / width {
                    tokio::time::sleep(pause).await;
                    times.push(bench.once(way).await);
                }
                times
            });
        }
        tasks.join_all().await.concat()
    }

    async fn once(&self, way: Way) -> Duration {
        let spawn = |command: Command| async {
            let start = Instant::now();
            let output = tokio::task::spawn_blocking(move || spawned(command)).await.expect("thread");
            assert_eq!(output, 4096);
            start.elapsed()
        };
        let tool = match way {
            Way::Spawn => return spawn(cat(Command::new("/bin/cat"), &self.file)).await,
            Way::SpawnStatic => {
                let program = self.static_cat.as_ref().expect("built");
                return spawn(cat(Command::new(program), &self.file)).await;
            }
            Way::Bubblewrap => return spawn(bubblewrap(&self.file)).await,
            Way::Builtin => "read_file",
            Way::Dynamic => "cat_dynamic",
            Way::Static => "cat_static",
        };
        let [prepare, _, _, run, _] = self.caller.call(tool, json!({ "path": self.file })).await;
        prepare + run
    }
}

/// The resources that processes used.
#[derive(Clone, Copy, Default)]
struct Used {
    /// Minor page faults.
    faults: u64,
    /// Microseconds of processor time; for the launcher in steps of 10,000.
    cpu_us: u64,
}

impl Used {
    /// For the children of this process that have ended, and for the launcher and its children.
    fn so_far(launcher: u32) -> Self {
        let spawned = getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage");
        let us = |time: nix::sys::time::TimeVal| {
            u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).expect("a time")
        };
        // proc_pid_stat(5): after the name, minflt and cminflt are the 8th and 9th fields, utime to
        // cstime the 12th to 15th.
        let stat = std::fs::read_to_string(format!("/proc/{launcher}/stat")).expect("the launcher");
        let words: Vec<&str> = stat.rsplit(") ").next().expect("words").split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let launcher_us = (11..15).map(number).sum::<u64>() * 10_000;
        let faults = u64::try_from(spawned.minor_page_faults()).expect("faults");
        Self {
            faults: faults + number(7) + number(8),
            cpu_us: us(spawned.user_time()) + us(spawned.system_time()) + launcher_us,
        }
    }

    fn add(&mut self, before: Self, after: Self) {
        self.faults += after.faults - before.faults;
        self.cpu_us += after.cpu_us - before.cpu_us;
    }
}

fn cat(mut command: Command, file: &Path) -> Command {
    command.arg(file);
    command
}

fn bubblewrap(file: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"]);
    command.args([
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
    ]);
    command.args(["--proc", "/proc", "--dev", "/dev", "--ro-bind"]).args([file, file]).arg("/bin/cat");
    cat(command, file)
}

fn spawned(mut command: Command) -> usize {
    let output = command.stdin(Stdio::null()).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.len()
}

fn has_bubblewrap() -> bool {
    let is_there =
        Command::new("bwrap").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        println!("bubblewrap is not installed: left out");
    }
    is_there
}

fn build(below: &Path) -> Option<PathBuf> {
    let (source, program) = (below.join("cat.c"), below.join("cat"));
    std::fs::write(&source, STATIC_CAT).expect("source");
    let built = Command::new("cc").args(["-O2", "-static", "-o"]).arg(&program).arg(source).output();
    if built.is_ok_and(|built| built.status.success()) {
        return Some(program);
    }
    println!("no C compiler, or no static C library: no static program");
    None
}

fn manifest(tools: &Path, name: &str, runtime: &str, program: &Path) {
    let text = format!(
        r#"name = "{name}"
summary = "A file's bytes, for a bench."
class = "read"
risk = "low"
command = ["{}", "{{path}}"]
runtime = "{runtime}"
untrusted_output = true

[resource]
type = "Path"
from = "/path"
canonical = "path"

[sandbox]
read = ["@workspace"]

[limits]
wall_ms_max = 20000
output_bytes_max = 65536
memory_bytes_max = 134217728
processes_max = 4

[input]
type = "object"
additionalProperties = false
required = ["path"]

[input.properties.path]
type = "string"
description = "absolute path of the file"
minLength = 1
maxLength = 4095
"#,
        program.display()
    );
    std::fs::write(tools.join(format!("{name}.toml")), text).expect("manifest");
}
