//! A home with a launcher, and calls made through it.

use super::super::{Launcher, LinkSeed, PrepareError, start};
use crate::call::{End, Exclusion, Execution, Object, Prepared};
use crate::launcher::protocol::{Ask, Go};
use crate::launcher::{Report, Spec};
use crate::tools::{Catalog, Manifest, Places};
use crate::types::Digest;
use crate::types::json::canonical;
use crate::types::secret::{proof_of_all, proof_of_same};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A home with a workspace, manifests, and no launcher yet.
pub(super) struct World {
    pub(super) dir: tempfile::TempDir,
    pub(super) spec: Spec,
}

impl World {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("mode");
        for name in ["workspace", "tools.d", "outside"] {
            std::fs::create_dir(dir.path().join(name)).expect("made");
        }
        let real = dir.path().canonicalize().expect("real");
        let names = BTreeMap::from([
            ("workspace".to_owned(), real.join("workspace")),
            ("logs".to_owned(), real.join("absent-logs")),
        ]);
        let places = Places { names, private: vec![] };
        let world = Self {
            spec: Spec {
                tools_dir: real.join("tools.d"),
                places,
                user: None,
                slot_uids: None,
                minimum: None,
                landlock_abi_max: None,
                ca_file: None,
                secrets: None,
                key_variables: Vec::new(),
                journal: None,
            },
            dir,
        };
        world.tool("read_file", include_str!("../../../tools.d/read_file.toml"));
        world.tool("list_dir", include_str!("../../../tools.d/list_dir.toml"));
        world.tool("search_files", include_str!("../../../tools.d/search_files.toml"));
        world.tool("health_check", include_str!("../../../tools.d/health_check.toml"));
        world.tool("tail_file", include_str!("../../../tools.d/tail_file.toml"));
        world.tool("tail", include_str!("../../../tests/it/tools/tail.toml"));
        world
    }

    pub(super) fn tool(&self, name: &str, manifest: &str) {
        std::fs::write(self.spec.tools_dir.join(name).with_extension("toml"), manifest).expect("written");
    }

    /// A tool that runs `command` without arguments.
    pub(super) fn program(&self, name: &str, command: &[&str]) {
        let manifest = format!(
            "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\ncommand = {command:?}\n\
             runtime = \"dynamic\"\nuntrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n\
             [sandbox]\n[limits]\nwall_ms_max = 700\noutput_bytes_max = 65536\nmemory_bytes_max = 268435456\n\
             processes_max = 8\n[input]\ntype = \"object\"\nadditionalProperties = false\n"
        );
        self.tool(name, &manifest);
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("real").join(name)
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    pub(super) fn catalog(&self) -> Catalog {
        Catalog::load(&self.spec.tools_dir, &self.spec.places).expect("a catalog")
    }

    /// Starts a launcher under this process and plays `scene` with it.
    pub(super) fn with<F: Future<Output = ()>>(&self, scene: impl FnOnce(Stage) -> F) {
        let seed = start(&self.spec).expect("a launcher");
        self.with_seed(seed, scene);
    }

    pub(super) fn with_seed<F: Future<Output = ()>>(&self, seed: LinkSeed, scene: impl FnOnce(Stage) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let stage = Stage {
                spec: self.spec.clone(),
                launcher: seed.connect().expect("connected"),
                catalog: Arc::new(self.catalog()),
            };
            scene(stage).await;
        });
    }
}

#[derive(Clone)]
pub(super) struct Stage {
    pub(super) spec: Spec,
    pub(super) launcher: Launcher,
    pub(super) catalog: Arc<Catalog>,
}

impl Stage {
    pub(super) fn manifest(&self, tool: &str) -> &Arc<Manifest> {
        self.catalog.find(tool).expect("a tool")
    }

    pub(super) fn ask(&self, tool: &str, arguments: &Value) -> Ask {
        Ask {
            tool: tool.to_owned(),
            manifest: self.manifest(tool).digest.hex(),
            arguments: canonical(arguments).expect("canonical"),
            named: Vec::new(),
        }
    }

    pub(super) async fn prepare(&self, tool: &str, arguments: &Value) -> Result<Prepared, PrepareError> {
        self.launcher.prepare_ask(self.ask(tool, arguments), self.manifest(tool).prepare_ms_max()).await
    }

    /// Retries while released children are being reaped or a launcher is being replaced.
    pub(super) async fn prepare_soon(&self, tool: &str, arguments: &Value) -> Prepared {
        loop {
            if let Ok(prepared) = self.prepare(tool, arguments).await {
                return prepared;
            }
        }
    }

    pub(super) async fn object(&self, path: impl AsRef<Path>) -> Object {
        let path = path.as_ref().to_str().expect("UTF-8");
        self.prepare("read_file", &json!({ "path": path })).await.expect("prepared").object
    }

    pub(super) async fn run(&self, tool: &str, arguments: &Value, prepared: Prepared) -> Execution {
        self.run_without(tool, arguments, prepared, Vec::new()).await
    }

    pub(super) async fn run_without(
        &self,
        tool: &str,
        arguments: &Value,
        prepared: Prepared,
        exclusions: Vec<Exclusion>,
    ) -> Execution {
        let ask = self.ask(tool, arguments);
        let Prepared { object, held } = prepared;
        let go = Go {
            tool: ask.tool,
            manifest: ask.manifest,
            arguments: Digest::sha256(ask.arguments.as_bytes()),
            decision: 1,
            object,
            exclusions,
            secrets: self.secrets(tool),
        };
        self.launcher.run_go(go, None, &held, self.manifest(tool).limits).await
    }

    /// The proof of a front that knows the secrets, whose values are those of [`Stage::value`].
    pub(super) fn secrets(&self, tool: &str) -> Option<String> {
        let (names, salt) = (&self.manifest(tool).secrets, self.launcher.report().salt);
        let proof = |name: &String| proof_of_same(&salt, Self::value(name).as_bytes());
        (!names.is_empty()).then(|| proof_of_all(names.iter().map(proof)).hex())
    }

    /// The secret called `name`.
    pub(super) fn value(name: &str) -> String {
        format!("value-of-{name}")
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Execution {
        let prepared = self.prepare(tool, &arguments).await.expect("prepared");
        self.run(tool, &arguments, prepared).await
    }

    /// A builtin's answer, with its exit code.
    pub(super) async fn answer(&self, tool: &str, arguments: Value) -> (i32, Value) {
        let execution = self.call(tool, arguments).await;
        let End::Exit { code } = execution.end else { panic!("{execution:?}") };
        (code, serde_json::from_slice(&execution.stdout).expect("JSON"))
    }
}

pub(super) fn has(report: &Report, layer: &str) -> bool {
    report.layers.iter().any(|name| name.starts_with(layer))
}

/// Compiles a C program; `None`, with a message, without a compiler.
pub(super) fn compile(world: &World, name: &str, source: &str) -> Option<String> {
    let path = world.path(name);
    let file = path.with_extension("c");
    std::fs::write(&file, source).expect("written");
    match Command::new("cc").arg("-w").arg("-o").arg(&path).arg(&file).status() {
        Ok(status) => {
            assert!(status.success(), "cc");
            Some(path.to_str().expect("UTF-8").to_owned())
        }
        Err(_) => {
            println!("skipped: no C compiler");
            None
        }
    }
}

/// Waits until `there` holds, by polling.
pub(super) fn until(what: &str, there: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !there() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

pub(super) fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
