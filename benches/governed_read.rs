//! The cost of one governed `read_file` of 4 KiB (validated, prepared, authorised, recorded, sandboxed,
//! settled) against a plain spawn of `cat` on the same file, in one run.
//!
//! `cargo bench --bench governed_read` prints p10, median and p99 in microseconds, and ratios of
//! medians. The ledger is once on the disk under the temporary folder and once in memory
//! (`/dev/shm`, where a sync costs nothing). The floor of the disk is a 4 KiB append with `fdatasync`;
//! a governed call waits for two commits.

#![expect(clippy::disallowed_methods, reason = "a bench starts `cat` to compare with")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a bench that fails stops")]

use par::agent;
use par::auth::{self, Principal, Role};
use par::config::{Config, Home};
use par::gate::{self, Asking, Gate, Outcome, Rules};
use par::ledger::{Files, Ledger, Lock, Projection};
use par::policy::{Bundle, Session, Source};
use par::sandbox::{self, Launcher, Spec};
use par::secrets::Secrets;
use par::tools::{Catalog, Places, ProposedCall};
use par::types::{RunId, SessionId};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 400;
const WARM_UP: usize = 20;
/// The parts of a governed call, in order.
const PARTS: [&str; 5] = ["  validate and prepare", "  decide", "  commit", "  run", "  settle"];

static PROJECTIONS: [Projection; 3] = [auth::PROJECTION, gate::PROJECTION, agent::PROJECTION];

fn main() {
    let disk = temporary(&std::env::temp_dir());
    let memory = temporary(Path::new("/dev/shm"));
    let file = make_home(disk.path());
    make_home(memory.path());
    let config = Config::load(home(disk.path())).expect("configuration");
    let places = Places {
        names: config.paths.clone(),
        private: vec![config.home.etc.clone(), config.home.data.clone()],
    };
    let spec = Spec {
        tools_dir: config.home.etc.join("tools.d"),
        places: places.clone(),
        user: None,
        minimum: None,
        landlock_abi_max: None,
    };
    // The launcher is forked before any thread starts, as in the product.
    let seed = sandbox::start(&spec).expect("launcher");
    println!("layers: {}", seed.report().layers.join(", "));
    let catalog = Arc::new(Catalog::load(&spec.tools_dir, &places).expect("tools"));
    let names: BTreeSet<String> = config.paths.keys().cloned().collect();
    let bundle = Arc::new(Bundle::load(&policies(&config), &catalog, &names).expect("policies"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    let ledgers = [disk.path(), memory.path()].map(|below| open(&below.join("home/data")));
    runtime.block_on(async {
        let launcher = seed.connect().expect("connected");
        let caller = |below: &Path, ledger: Ledger| {
            let rules = Rules { catalog: catalog.clone(), bundle: bundle.clone() };
            let gate = Gate::new(ledger, rules, config.paths.clone(), Secrets::default()).expect("gate");
            let principal = principal(&below.join("home/data"));
            Caller { gate, launcher: launcher.clone(), principal, file: file.clone() }
        };
        let [on_disk, in_memory] = ledgers;
        let (on_disk, in_memory) = (caller(disk.path(), on_disk), caller(memory.path(), in_memory));
        let floor = disk.path().join("floor");
        // A task of its own, as each run is: not on the thread that waits for the runtime.
        tokio::spawn(async move { measure(&on_disk, &in_memory, &floor, &file).await })
            .await
            .expect("measured");
    });
}

/// Everything in turn, so that the machine's drift meets all alike.
async fn measure(on_disk: &Caller, in_memory: &Caller, floor: &Path, file: &Path) {
    let mut floor = File::create(floor).expect("floor");
    let (mut cat, mut memory, mut disk, mut sync) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut parts: [Vec<Duration>; 5] = Default::default();
    for round in 0..ROUNDS + WARM_UP {
        let spawned = timed(|| spawn_cat(file));
        let start = Instant::now();
        let took = in_memory.call().await;
        let governed_memory = start.elapsed();
        let start = Instant::now();
        on_disk.call().await;
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
        let caller = in_memory.clone();
        tasks.spawn(async move {
            for _ in 0..ROUNDS / 4 {
                caller.call().await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = calls as f64 / start.elapsed().as_secs_f64();
    println!("eight in flight, ledger in memory: {rate:.0} governed calls a second");
}

#[derive(Clone)]
struct Caller {
    gate: Gate,
    launcher: Launcher,
    principal: Principal,
    file: PathBuf,
}

impl Caller {
    /// One call, the whole way of the gate; returns how long each of [`PARTS`] took.
    async fn call(&self) -> [Duration; 5] {
        let (run, session_id) = (RunId::generate(), SessionId::generate());
        let session = Session {
            id: session_id.as_str().to_owned(),
            ceiling: self.gate.rules().catalog.manifests().map(|m| m.name.clone()).collect(),
            taint: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: 32,
            risk: 0,
        };
        let asking = Asking {
            principal: &self.principal,
            run: &run,
            session_id: &session_id,
            session: &session,
            source_ip: None,
            said: None,
        };
        let proposed = ProposedCall {
            id: "call_1".to_owned(),
            tool: "read_file".to_owned(),
            arguments: format!("{{\"path\":\"{}\"}}", self.file.display()),
        };
        let start = Instant::now();
        let valid = self.gate.validate(&asking, proposed).expect("valid");
        let pending = self.gate.open(valid);
        let prepared = self.launcher.prepare(&pending).await.expect("prepared");
        let prepare = start.elapsed();
        let decided = self.gate.decide(&asking, pending, prepared);
        let decide = start.elapsed();
        let outcome = self.gate.commit(Vec::new(), vec![decided]).await.expect("committed").pop();
        let Some(Outcome::Permit(permit)) = outcome else { panic!("not allowed: {outcome:?}") };
        let commit = start.elapsed();
        let (order, running) = permit.begin().expect("in time");
        let execution = self.launcher.run(order).await;
        let run = start.elapsed();
        let told = self.gate.settle(vec![(running, execution)]).await.expect("settled");
        assert!(told.iter().all(|result| result.record().status == "ok"), "{told:?}");
        let settle = start.elapsed();
        [prepare, decide - prepare, commit - decide, run - commit, settle - run]
    }
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

fn temporary(below: &Path) -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("par-bench-").tempdir_in(below).expect("temporary folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("mode");
    folder
}

/// A home by `par init`, with a file of 4 KiB in its workspace.
fn make_home(below: &Path) -> PathBuf {
    let made =
        Command::new(env!("CARGO_BIN_EXE_par")).arg("--home").arg(below.join("home")).arg("init").output();
    assert!(made.expect("par starts").status.success());
    let file = below.join("home/workspace/4k.txt");
    std::fs::write(&file, "0123456789abcde\n".repeat(256)).expect("file");
    file
}

fn home(below: &Path) -> Home {
    Home::locate(Some(&below.join("home")), None).expect("home")
}

fn policies(config: &Config) -> Vec<Source> {
    ["10-read.cedar", "90-never.cedar"]
        .iter()
        .map(|name| Source {
            name: format!("policies/{name}"),
            text: std::fs::read_to_string(config.home.etc.join("policies").join(name)).expect("policy"),
        })
        .collect()
}

fn open(data: &Path) -> Ledger {
    let files = Files { free_bytes_min: 0, ..Files::below(data) };
    let lock = Lock::take(&files, Duration::ZERO).expect("lock");
    Ledger::open(files, lock, &PROJECTIONS).expect("ledger")
}

fn principal(data: &Path) -> Principal {
    auth::local(data, Role::Operator).expect("the owner of data/")
}
