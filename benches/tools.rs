//! The cost of the tools that look at a host: each read once with everything around it, the walks
//! over many files compared with `du` and `grep` on the same files in the same run, the journal
//! compared with `journalctl` on the same files, and a start with every tool on.
//!
//! `cargo bench --bench tools` prints medians. `PAR_BENCH_FILES` is the number of files of the walk
//! (default: a million) and `PAR_BENCH_MIB` the size of the text that is searched (default: 1,000);
//! both are made in the temporary folder and removed. `PAR_BENCH_JOURNAL` is a folder with journal
//! files that any user may read (default: the small file of the tests), and `PAR_BENCH_UNIT` a unit
//! in them.

#![expect(clippy::disallowed_methods, reason = "a bench starts `du` and `grep` to compare with")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

#[path = "house/mod.rs"]
#[expect(dead_code, reason = "other benches have other uses of it")]
mod house;

use house::{Caller, House, make_home, temporary};
use par::policy::Session;
use par::tools::{Class, Manifest, ResourceSpec};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;
/// Text of one call, in MiB: a call of `search_files` reads at most 128.
const CALL_MIB: usize = 100;

/// Arguments of the tools that need some. The path is that of the folder `look`.
fn arguments(manifest: &Manifest, look: &Path) -> Option<Map<String, Value>> {
    let mut arguments = Map::new();
    let required = manifest.input.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        let value = match (manifest.name.as_str(), name) {
            ("read_file" | "tail_file" | "file_info", "path") => json!(look.join("a.toml")),
            ("read_config", "path") => json!(look.join("a.toml")),
            (_, "path") => json!(look),
            (_, "lines") => json!(20),
            (_, "pattern") => json!("nothing of the kind"),
            (_, "old") => json!("a.toml"),
            (_, "new") => json!("b.toml"),
            (_, "pid") => json!(1),
            ("service_status", _) => json!("ssh.service"),
            ("journal_query", _) => json!(unit()),
            _ => return None,
        };
        arguments.insert(name.to_owned(), value);
    }
    Some(arguments)
}

/// Tools that sample for a while, or wait for others.
const WAITS: [(&str, &str); 2] = [("process_list", "by processor: samples"), ("disk_io", "samples")];

fn main() {
    let disk = temporary(&std::env::temp_dir());
    make_home(disk.path());
    let home = disk.path().join("home");
    let look = home.join("workspace/look");
    std::fs::create_dir(&look).expect("folder");
    for name in ["a.toml", "b.toml"] {
        std::fs::write(look.join(name), "a = 1\nb = \"two\"\n").expect("file");
    }
    let journal = find_journal(disk.path(), &home);
    switch_all_on(&home);
    starts(&home);
    let files = make_files(&home.join("workspace/many"), setting("PAR_BENCH_FILES", 1_000_000));
    let texts = make_texts(&home.join("workspace/text"), setting("PAR_BENCH_MIB", 1_000));
    let house = House::whole(disk.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let caller = house.connect().caller(disk.path());
        // A separate task, as each run is: not on the thread that waits for the runtime.
        tokio::spawn(async move {
            list(&caller);
            reads(&caller, &look).await;
            walk(&caller, &files).await;
            search(&caller, &texts).await;
            query(&caller, &journal).await;
        })
        .await
        .expect("measured");
    });
}

fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn par(home: &Path, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_par")).arg("--home").arg(home).args(args).output().expect("par starts")
}

/// Enables every tool that is off as shipped and can be enabled on this host.
fn switch_all_on(home: &Path) {
    let off: Vec<PathBuf> = std::fs::read_dir(home.join("etc/tools.d"))
        .expect("tools")
        .map(|item| item.expect("an item").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "disabled"))
        .collect();
    for path in off {
        let name = path.file_name().and_then(|name| name.to_str()?.split('.').next()).expect("a name");
        let output = par(home, &["tool", "enable", name]);
        if !output.status.success() {
            println!("{name} stays off: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
}

/// A start: manifests and rules read and checked, a launcher tested, one call, and the end.
fn starts(home: &Path) {
    let mut starts = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let output = par(home, &["tool", "call", "disk_usage", "{}"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        starts.push(start.elapsed());
    }
    let took = median(&mut starts);
    println!("start with every tool on, one call and the end: {:.0} ms  (aim: at most 1000)", ms(took));
}

/// The list of tools that a model gets, before each of its requests.
fn list(caller: &Caller) {
    let rules = caller.gate.rules();
    let session = Session {
        id: "bench".to_owned(),
        ceiling: rules.catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
        taint: [].into(),
        seen: [].into(),
        tainted_by: Vec::new(),
        calls_used: 0,
        budget: 32,
        risk: 0,
    };
    let (mut times, mut count) = (Vec::new(), 0);
    for _ in 0..ROUNDS * 20 {
        let start = Instant::now();
        count = caller.gate.offered(&caller.principal, &session).1.len();
        times.push(start.elapsed());
    }
    let all = rules.catalog.manifests().count();
    let took = median(&mut times);
    println!("the model's list, {count} of {all} tools: {:.2} ms  (aim: at most 1)", ms(took));
}

/// Each read, once with decision, record and sandbox.
async fn reads(caller: &Caller, look: &Path) {
    let manifests: Vec<_> = caller.gate.rules().catalog.manifests().cloned().collect();
    let is_here = |one: &Manifest| !matches!(one.resource, ResourceSpec::Host { .. });
    for manifest in manifests.iter().filter(|one| one.class == Class::Read && is_here(one)) {
        let Some(arguments) = arguments(manifest, look) else {
            println!("{:<18} needs arguments that this bench does not have", manifest.name);
            continue;
        };
        measure_read(caller, &manifest.name, arguments, "").await;
        if manifest.name == "process_list" {
            let by = Map::from_iter([("sort".to_owned(), json!("memory"))]);
            measure_read(caller, "process_list", by, "by memory").await;
        }
    }
}

async fn measure_read(caller: &Caller, tool: &str, arguments: Map<String, Value>, note: &str) {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        if caller.try_call(tool, Value::Object(arguments.clone())).await.is_err() {
            println!("{tool:<18} cannot run on this host");
            return;
        }
        times.push(start.elapsed());
    }
    let waits = WAITS.iter().find(|(name, _)| *name == tool && note.is_empty()).map(|(_, why)| *why);
    let aim = waits.map_or("(aim: at most 20)".to_owned(), |why| format!("({why})"));
    println!("{tool:<18} {:>8.2} ms  {aim} {note}", ms(median(&mut times)));
}

/// `largest_paths` and `du` over the same folders, in turn.
async fn walk(caller: &Caller, folder: &Path) {
    let (mut tool, mut du) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        du.push(spawned(Command::new("du").arg("-a").arg(folder)));
        let start = Instant::now();
        caller.call("largest_paths", json!({ "path": folder })).await;
        tool.push(start.elapsed());
    }
    ratio("largest_paths", "du -a", median(&mut tool), median(&mut du), 1.5);
}

/// `search_files` and `grep -r` over the same folders, in turn: a call reads no more than one of
/// them.
async fn search(caller: &Caller, folders: &[PathBuf]) {
    let mut peers: Vec<(&str, Vec<&str>)> = vec![("grep -r", vec!["grep", "-rF"])];
    if Command::new("rg").arg("--version").output().is_ok() {
        peers.push(("rg, one thread", vec!["rg", "-F", "-j1", "--no-ignore"]));
        peers.push(("rg", vec!["rg", "-F", "--no-ignore"]));
    }
    let mut tool = Duration::ZERO;
    let mut took = vec![Duration::ZERO; peers.len()];
    for folder in folders {
        for (at, (_, words)) in peers.iter().enumerate() {
            took[at] +=
                spawned(Command::new(words[0]).args(&words[1..]).arg("nothing of the kind").arg(folder));
        }
        let start = Instant::now();
        let arguments = json!({ "path": folder, "pattern": "nothing of the kind" });
        caller.call("search_files", arguments).await;
        tool += start.elapsed();
    }
    for ((name, _), took) in peers.iter().zip(took) {
        ratio("search_files", name, tool, took, 1.5);
    }
}

/// `journal_query` and `journalctl` with the same options on the same files, in turn.
async fn query(caller: &Caller, folder: &Path) {
    let unit = unit();
    let arguments = json!({ "unit": unit, "limit": 200 });
    if caller.try_call("journal_query", arguments.clone()).await.is_err() {
        println!("journal_query      cannot run on this host");
        return;
    }
    let fields = "--output-fields=MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT,_TRANSPORT";
    let (mut tool, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut command = Command::new("/usr/bin/journalctl");
        command.arg(format!("--directory={}", folder.display())).arg("--output=json").arg(fields);
        alone.push(spawned(command.arg("--reverse").arg("--lines=200").arg(format!("--unit={unit}"))));
        let start = Instant::now();
        caller.call("journal_query", arguments.clone()).await;
        tool.push(start.elapsed());
    }
    ratio("journal_query", "journalctl", median(&mut tool), median(&mut alone), 1.2);
}

/// The unit whose entries are read.
fn unit() -> String {
    std::env::var("PAR_BENCH_UNIT").unwrap_or_else(|_| "many.service".to_owned())
}

/// The folder with journal files, which the tools of the journal then read, without a group.
fn find_journal(disk: &Path, home: &Path) -> PathBuf {
    let folder = std::env::var_os("PAR_BENCH_JOURNAL").map_or_else(|| disk.join("journal"), PathBuf::from);
    if !folder.exists() {
        std::fs::create_dir(&folder).expect("folder");
        let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/journal/system.journal.gz");
        let output = Command::new("gzip").arg("-dc").arg(packed).output().expect("gzip");
        std::fs::write(folder.join("system.journal"), output.stdout).expect("journal");
    }
    for tool in ["journal_query", "journal_search", "kernel_log"] {
        let file = home.join(format!("etc/tools.d/{tool}.toml.disabled"));
        let text = std::fs::read_to_string(&file).expect("shipped");
        let place = folder.display().to_string();
        let text = text.replace("--merge", &format!("--directory={place}"));
        let text = text.replace("/var/log/journal", &place);
        std::fs::write(&file, text.replace("groups = [\"systemd-journal\"]\n", "")).expect("written");
    }
    folder
}

fn spawned(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok(), "{command:?}");
    start.elapsed()
}

/// Empty files in folders of a thousand.
fn make_files(top: &Path, count: usize) -> PathBuf {
    for at in 0..count.div_ceil(1_000) {
        let folder = top.join(format!("{:03}/{:03}", at / 1_000, at % 1_000));
        std::fs::create_dir_all(&folder).expect("folder");
        for file in 0..1_000.min(count - at * 1_000) {
            std::fs::File::create(folder.join(format!("f{file:03}"))).expect("file");
        }
    }
    println!("{count} files in {}", top.display());
    top.to_owned()
}

/// Lines as logs have them, in files of one MiB, in folders of [`CALL_MIB`].
fn make_texts(top: &Path, mib: usize) -> Vec<PathBuf> {
    let mut text = String::new();
    for line in 0.. {
        if text.len() >= 1 << 20 {
            break;
        }
        writeln!(text, "2026-11-24T10:11:12Z host app[{line}]: request {line} took {} ms", line % 977)
            .expect("text");
    }
    let folders = (0..mib.div_ceil(CALL_MIB)).map(|at| {
        let folder = top.join(format!("{at:02}"));
        std::fs::create_dir_all(&folder).expect("folder");
        for file in 0..CALL_MIB.min(mib - at * CALL_MIB) {
            std::fs::write(folder.join(format!("{file:03}.log")), &text).expect("file");
        }
        folder
    });
    folders.collect()
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(tool: &str, peer: &str, took: Duration, peers: Duration, aim: f64) {
    println!(
        "{tool} {:.0} ms, {peer} {:.0} ms: {:.2}  (aim: at most {aim})",
        ms(took),
        ms(peers),
        took.as_secs_f64() / peers.as_secs_f64()
    );
}
