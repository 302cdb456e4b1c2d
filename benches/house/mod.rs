//! A home from `par init`, and a caller that goes through the whole gate, for the benches of calls.

use par::agent;
use par::auth::{self, Principal, Role};
use par::config::{Config, Home};
use par::gate::{self, CallContext, Gate, Order, Outcome, Rules, Running};
use par::launcher::Spec;
use par::ledger::{Files, Ledger, Lock, Projection};
use par::policy::{Bundle, Session, SourceFile};
use par::rules;
use par::sandbox::{self, Launcher, LinkSeed, PrepareError};
use par::secrets::Secrets;
use par::tools::{Catalog, Places, ProposedCall};
use par::types::{RunId, SessionId};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

static PROJECTIONS: [Projection; 3] = [auth::PROJECTION, gate::PROJECTION, agent::PROJECTION];

/// A temporary folder that every user may read.
pub fn temporary(below: &Path) -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("par-bench-").tempdir_in(below).expect("temporary folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("mode");
    folder
}

/// A home from `par init` in `below`, with a file of 4 KiB in its workspace.
pub fn make_home(below: &Path) -> PathBuf {
    let made =
        Command::new(env!("CARGO_BIN_EXE_par")).arg("--home").arg(below.join("home")).arg("init").output();
    assert!(made.expect("par starts").status.success());
    let file = below.join("home/workspace/4k.txt");
    std::fs::write(&file, "0123456789abcde\n".repeat(256)).expect("file");
    file
}

/// A home's configuration, and the launcher that reads the same.
pub struct House<L> {
    config: Config,
    catalog: Arc<Catalog>,
    bundle: Arc<Bundle>,
    launcher: L,
}

impl House<LinkSeed> {
    /// Opens the home that [`make_home`] made in `below`. Called before any thread starts, as in
    /// the product.
    pub fn start(below: &Path) -> Self {
        Self::with(below, |config, catalog| {
            let names: BTreeSet<String> = config.paths.keys().cloned().collect();
            Arc::new(Bundle::load(&policies(config), catalog, &names).expect("policies"))
        })
    }

    /// Does the same with every policy of the home.
    #[allow(dead_code, reason = "not every bench calls every tool")]
    pub fn whole(below: &Path) -> Self {
        Self::with(below, |config, _| rules::load_rules(config).expect("rules").bundle)
    }

    fn with(below: &Path, bundle: impl FnOnce(&Config, &Catalog) -> Arc<Bundle>) -> Self {
        let home = Home::locate(Some(&below.join("home")), None).expect("home");
        let config = Config::load(home).expect("configuration");
        let places = Places {
            names: config.paths.clone(),
            private: vec![config.home.etc.clone(), config.home.data.clone()],
        };
        let spec = Spec {
            tools_dir: config.home.etc.join("tools.d"),
            places: places.clone(),
            user: None,
            slot_uids: None,
            minimum: None,
            landlock_abi_max: None,
            ca_file: None,
            secrets: None,
            key_variables: Vec::new(),
            journal: None,
        };
        let seed = sandbox::start(&spec).expect("launcher");
        println!("layers: {}", seed.report().layers.join(", "));
        let catalog = Arc::new(Catalog::load(&spec.tools_dir, &places).expect("tools"));
        let bundle = bundle(&config, &catalog);
        Self { config, catalog, bundle, launcher: seed }
    }

    /// Must be called within a runtime.
    pub fn connect(self) -> House<Launcher> {
        let Self { config, catalog, bundle, launcher } = self;
        House { config, catalog, bundle, launcher: launcher.connect().expect("connected") }
    }
}

impl House<Launcher> {
    /// A caller with a ledger in `below`, which may be the folder of another home.
    pub fn caller(&self, below: &Path) -> Caller {
        let data = below.join("home/data");
        let rules = Rules { catalog: self.catalog.clone(), bundle: self.bundle.clone() };
        let ledger = tokio::task::block_in_place(|| open(&data));
        let gate = Gate::new(ledger, rules, self.config.paths.clone(), Secrets::default()).expect("gate");
        let principal = auth::local(&data, Role::Operator).expect("the owner of data/");
        Caller { gate, launcher: self.launcher.clone(), principal }
    }
}

fn policies(config: &Config) -> Vec<SourceFile> {
    ["10-read.cedar", "90-never.cedar"]
        .iter()
        .map(|name| SourceFile {
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

#[derive(Clone)]
pub struct Caller {
    pub gate: Gate,
    pub launcher: Launcher,
    pub principal: Principal,
}

/// A permitted call, and the time it took to validate and prepare, to decide and to commit.
pub struct Permitted {
    pub order: Order,
    pub running: Running,
    pub took: [Duration; 3],
}

impl Caller {
    /// Makes one call through the whole gate; returns the time it took to validate and prepare, to
    /// decide, to commit, to run and to settle.
    pub async fn call(&self, tool: &str, arguments: Value) -> [Duration; 5] {
        let start = Instant::now();
        let Permitted { order, running, took } = self.begin(tool, arguments).await.expect("prepared");
        let begun = start.elapsed();
        let execution = self.launcher.run(order, None).await;
        let run = start.elapsed();
        let told = self.gate.settle(vec![(running, execution)], None).await.expect("settled").0;
        assert!(told.iter().all(|result| result.record().status.as_str() == "ok"), "{told:?}");
        let settle = start.elapsed();
        let [prepare, decide, commit] = took;
        [prepare, decide, commit, run - begun, settle - run]
    }

    /// Makes one call through the whole gate; an error comes from prepare, or is how it ended.
    #[allow(dead_code, reason = "other benches call what must work")]
    pub async fn try_call(&self, tool: &str, arguments: Value) -> Result<(), String> {
        let permitted = self.begin(tool, arguments).await.map_err(|e| format!("{e:?}"))?;
        let execution = self.launcher.run(permitted.order, None).await;
        let told = self.gate.settle(vec![(permitted.running, execution)], None).await.expect("settled").0;
        match told.iter().find(|result| result.record().status.as_str() != "ok") {
            None => Ok(()),
            Some(result) => Err(result.text()),
        }
    }

    /// Goes as far as the permit; an error comes from prepare.
    pub async fn begin(&self, tool: &str, arguments: Value) -> Result<Permitted, PrepareError> {
        let (run, session_id) = (RunId::generate(), SessionId::generate());
        let session = Session {
            id: session_id.as_str().to_owned(),
            ceiling: self.gate.rules().catalog.manifests().map(|m| m.name.clone()).collect(),
            taint: BTreeSet::new(),
            seen: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: 32,
            risk: 0,
        };
        let asking = CallContext {
            principal: &self.principal,
            run: &run,
            session_id: &session_id,
            session: &session,
            source_ip: None,
            channel: par::types::Channel::Cli,
            message: "",
            sources: None,
            ceiling: &par::types::Ceiling::OPEN,
            said: None,
        };
        let (id, tool) = ("call_1".to_owned(), tool.to_owned());
        let proposed = ProposedCall { id, tool, arguments: arguments.to_string() };
        let start = Instant::now();
        let valid = self.gate.validate(&asking, proposed).expect("valid");
        let pending = self.gate.open(valid);
        let prepared = self.launcher.prepare(&pending).await?;
        let prepare = start.elapsed();
        let decided = self.gate.decide(&asking, pending, prepared);
        let decide = start.elapsed();
        let outcome = self.gate.commit(Vec::new(), vec![decided], None).await.expect("committed").0.pop();
        let Some(Outcome::Permit(permit)) = outcome else { panic!("not allowed: {outcome:?}") };
        let commit = start.elapsed();
        let (order, running) = permit.begin().expect("in time");
        Ok(Permitted { order, running, took: [prepare, decide - prepare, commit - decide] })
    }
}
