//! The whole room against real processes.
//!
//! Forking is for a process with one thread, which a test harness is not: each scenario runs in a
//! process of its own, this binary again, as the user who runs the tests and, where that is root, as an
//! ordinary user too.
#![expect(clippy::disallowed_methods, reason = "tests start themselves again and look at the environment")]

use super::{Launcher, LinkSeed, PrepareError, lock_front, serve, start};
use crate::call::{End, Exclusion, Execution, FileKind, Object, Prepared};
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::confine::seccomp::filters::without_namespaces;
use crate::launcher::protocol::{self, Ask, Go, Request};
use crate::launcher::{Report, Spec};
use crate::tools::{Catalog, Manifest, Places};
use crate::types::json::canonical;
use crate::types::limits::PREPARE_MS_MAX;
use crate::types::secret::{proof_of_all, proof_of_same};
use rustix::thread::{Gid, Uid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod content;
mod crash;
mod flood;
mod front;
mod given;
mod layer_off;
mod left;
mod levels;
mod limits;
mod proc;
mod reach;
mod search;
mod soak;
mod spare;
mod view;

const SCENARIO: &str = "PAR_SANDBOX_SCENARIO";
const AS_UID: &str = "PAR_SANDBOX_UID";
/// An ordinary user who owns nothing.
const ORDINARY: u32 = 65_534;

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test] fn $name() { play(stringify!($name)); })*

        fn perform(name: &str) {
            match name {
                $(stringify!($name) => scenario::$name(),)*
                other => panic!("no scenario `{other}`"),
            }
        }
    };
}

scenarios! {
    reports_what_it_enforces
    reads_lists_checks_and_tails
    resolves_what_is_there
    keeps_what_is_outside_outside
    asks_again_when_the_object_was_swapped
    strange_files_are_answered
    refuses_what_the_manifest_does_not_say
    ends_what_does_not_end
    takes_a_program_apart_from_the_machine
    releases_what_nobody_waits_for
    ends_what_gets_no_go
    does_without_namespaces
    keeps_time_when_the_front_does_not_read
    survives_the_death_of_a_launcher
    dies_with_its_front
    passes_signals_on
    locks_the_front
    the_front_reaches_nothing_else
    a_front_that_was_taken_over_asks_in_vain
    a_front_beside_its_own_launcher_asks_in_vain
    a_front_that_dials_launchers_asks_in_vain
    a_front_has_few_launchers
    unfinished_messages_fill_no_memory
    answers_that_nobody_takes_fill_no_memory
    a_launcher_that_hangs_is_ended_and_replaced
    first_look_at_latency
    finds_lines_below_a_folder
    leaves_out_what_is_excluded
    tells_what_lies_below
    stays_on_its_mount
    programs_read_below_only_where_they_say_so
    no_excluded_byte_is_found
    no_layer_is_decoration
    every_layer_has_its_case
    tells_nothing_of_the_rest
    shows_what_is_named_as_it_is_named
    cannot_be_changed_from_below
    follows_no_later_mount
    closes_the_way_to_the_host
    does_without_proc
    older_kernels_are_told_apart
    less_than_the_minimum_is_refused
    a_crash_starts_no_program_of_the_host
    no_limit_of_cores_is_a_protection_that_is_missing
    a_call_leaves_nothing_on_what_others_are_given
    a_loop_of_forks_is_made_to_wait
    programs_come_last
    gives_arguments_on_standard_input
    gives_secrets_by_descriptor
    connects_to_named_sockets
    each_call_has_a_group_of_its_own
    what_a_dead_launcher_left_is_cleared
    a_group_that_was_given_is_divided
    a_group_bounds_what_its_call_uses
    a_call_adds_no_more_than_it_may
    who_moves_folders_is_counted_all_the_same
    no_program_gives_up_the_lock_or_the_limits_of_its_call
    no_folder_stops_the_calls_behind_it
    a_thousand_calls_leave_nothing
    calls_that_write_nothing_have_uids_of_their_own
    a_call_takes_the_spare
    does_without_a_spare
    a_spare_is_no_call
    spares_are_few
    a_spare_is_confined_and_holds_nothing_of_a_call
    a_proc_of_its_own_shows_its_call_alone
    a_script_finds_itself_in_proc
    what_lies_below_is_told_as_without_it
    content_is_read_and_given_as_a_copy
    content_that_is_not_plain_is_refused
    content_that_changed_after_prepare_is_not_run
    what_is_given_is_what_was_decided_on
}

/// Returns at once, unless a scenario is asked for.
#[test]
fn driver() {
    let Ok(name) = std::env::var(SCENARIO) else { return };
    if let Ok(uid) = std::env::var(AS_UID) {
        become_user(uid.parse().expect("a uid"));
    }
    perform(&name);
}

fn play(name: &str) {
    let root = rustix::process::geteuid().is_root();
    let users: &[Option<u32>] = if root { &[None, Some(ORDINARY)] } else { &[None] };
    for user in users {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "sandbox::tests::driver", "--nocapture", "--test-threads=1"]);
        command.env(SCENARIO, name);
        command.envs(user.map(|uid| (AS_UID, uid.to_string())));
        // The harness's first thread must not take what is meant for a supervisor.
        let mut term = nix::sys::signal::SigSet::empty();
        term.add(nix::sys::signal::Signal::SIGTERM);
        term.thread_block().expect("blocked");
        let output = command.output().expect("started");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "as {user:?}: {text}");
        print!("{text}");
    }
}

/// This thread only, which is the one that forks.
fn become_user(id: u32) {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[]).expect("groups");
    rustix::thread::set_thread_res_gid(gid, gid, gid).expect("gid");
    rustix::thread::set_thread_res_uid(uid, uid, uid).expect("uid");
    // As after an exec; else this process could not write its own id maps.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).expect("dumpable");
}

/// A home with a workspace, manifests, and no launcher yet.
struct World {
    dir: tempfile::TempDir,
    spec: Spec,
}

impl World {
    fn new() -> Self {
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
                journal: None,
            },
            dir,
        };
        world.tool("read_file", include_str!("../../tools.d/read_file.toml"));
        world.tool("list_dir", include_str!("../../tools.d/list_dir.toml"));
        world.tool("search_files", include_str!("../../tools.d/search_files.toml"));
        world.tool("health_check", include_str!("../../tools.d/health_check.toml"));
        world.tool("tail_file", include_str!("../../tools.d/tail_file.toml"));
        world
    }

    fn tool(&self, name: &str, manifest: &str) {
        std::fs::write(self.spec.tools_dir.join(name).with_extension("toml"), manifest).expect("written");
    }

    /// A tool that runs `command` without arguments.
    fn program(&self, name: &str, command: &[&str]) {
        let manifest = format!(
            "name = \"{name}\"\nsummary = \"t\"\nclass = \"exec\"\nrisk = \"low\"\ncommand = {command:?}\n\
             runtime = \"dynamic\"\nuntrusted_output = true\n[resource]\ntype = \"Host\"\nis = \"localhost\"\n\
             [sandbox]\n[limits]\nwall_ms_max = 700\noutput_bytes_max = 65536\nmemory_bytes_max = 268435456\n\
             processes_max = 8\n[input]\ntype = \"object\"\nadditionalProperties = false\n"
        );
        self.tool(name, &manifest);
    }

    fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("real").join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn catalog(&self) -> Catalog {
        Catalog::load(&self.spec.tools_dir, &self.spec.places).expect("a catalog")
    }

    /// Starts a launcher under this process and plays `scene` with it.
    fn with<F: Future<Output = ()>>(&self, scene: impl FnOnce(Stage) -> F) {
        let seed = start(&self.spec).expect("a launcher");
        self.with_seed(seed, scene);
    }

    fn with_seed<F: Future<Output = ()>>(&self, seed: LinkSeed, scene: impl FnOnce(Stage) -> F) {
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
struct Stage {
    spec: Spec,
    launcher: Launcher,
    catalog: Arc<Catalog>,
}

impl Stage {
    fn manifest(&self, tool: &str) -> &Arc<Manifest> {
        self.catalog.find(tool).expect("a tool")
    }

    fn ask(&self, tool: &str, arguments: &Value) -> Ask {
        Ask {
            tool: tool.to_owned(),
            manifest: self.manifest(tool).digest.hex(),
            arguments: canonical(arguments).expect("canonical"),
            named: Vec::new(),
        }
    }

    async fn prepare(&self, tool: &str, arguments: &Value) -> Result<Prepared, PrepareError> {
        self.launcher.prepare_ask(self.ask(tool, arguments), self.manifest(tool).prepare_ms_max()).await
    }

    /// Again and again, while released children are being reaped or a launcher is being replaced.
    async fn prepare_soon(&self, tool: &str, arguments: &Value) -> Prepared {
        loop {
            if let Ok(prepared) = self.prepare(tool, arguments).await {
                return prepared;
            }
        }
    }

    async fn object(&self, path: impl AsRef<Path>) -> Object {
        let path = path.as_ref().to_str().expect("UTF-8");
        self.prepare("read_file", &json!({ "path": path })).await.expect("prepared").object
    }

    async fn run(&self, tool: &str, arguments: &Value, prepared: Prepared) -> Execution {
        self.run_without(tool, arguments, prepared, Vec::new()).await
    }

    async fn run_without(
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
            arguments: ask.arguments,
            decision: 1,
            object,
            exclusions,
            secrets: self.secrets(tool),
        };
        self.launcher.run_go(go, None, &held, self.manifest(tool).limits).await
    }

    /// As a front tells that it knows them, whose values are what [`Stage::value`] says.
    fn secrets(&self, tool: &str) -> Option<String> {
        let (names, salt) = (&self.manifest(tool).secrets, self.launcher.report().salt);
        let proof = |name: &String| proof_of_same(&salt, Self::value(name).as_bytes());
        (!names.is_empty()).then(|| proof_of_all(names.iter().map(proof)).hex())
    }

    /// The secret called `name`.
    fn value(name: &str) -> String {
        format!("value-of-{name}")
    }

    async fn call(&self, tool: &str, arguments: Value) -> Execution {
        let prepared = self.prepare(tool, &arguments).await.expect("prepared");
        self.run(tool, &arguments, prepared).await
    }

    /// A builtin's answer, with its exit code.
    async fn answer(&self, tool: &str, arguments: Value) -> (i32, Value) {
        let execution = self.call(tool, arguments).await;
        let End::Exit { code } = execution.end else { panic!("{execution:?}") };
        (code, serde_json::from_slice(&execution.stdout).expect("JSON"))
    }
}

fn has(report: &Report, layer: &str) -> bool {
    report.layers.iter().any(|name| name.starts_with(layer))
}

/// Compiles a C program; `None`, with a word, where there is no compiler.
fn compile(world: &World, name: &str, source: &str) -> Option<String> {
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

/// Waits until `there` is as wished, by looking.
fn until(what: &str, there: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !there() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

mod scenario {
    pub(super) use super::content::{
        content_is_read_and_given_as_a_copy, content_that_changed_after_prepare_is_not_run,
        content_that_is_not_plain_is_refused, what_is_given_is_what_was_decided_on,
    };
    pub(super) use super::crash::{
        a_crash_starts_no_program_of_the_host, no_limit_of_cores_is_a_protection_that_is_missing,
    };
    pub(super) use super::flood::{
        a_front_has_few_launchers, a_launcher_that_hangs_is_ended_and_replaced,
        answers_that_nobody_takes_fill_no_memory, unfinished_messages_fill_no_memory,
    };
    pub(super) use super::front::the_front_reaches_nothing_else;
    pub(super) use super::given::{
        connects_to_named_sockets, gives_arguments_on_standard_input, gives_secrets_by_descriptor,
    };
    pub(super) use super::layer_off::{every_layer_has_its_case, no_layer_is_decoration};
    pub(super) use super::left::{
        a_call_leaves_nothing_on_what_others_are_given, a_loop_of_forks_is_made_to_wait, programs_come_last,
    };
    pub(super) use super::levels::{less_than_the_minimum_is_refused, older_kernels_are_told_apart};
    pub(super) use super::limits::{
        a_call_adds_no_more_than_it_may, a_group_bounds_what_its_call_uses,
        a_group_that_was_given_is_divided, calls_that_write_nothing_have_uids_of_their_own,
        each_call_has_a_group_of_its_own, no_folder_stops_the_calls_behind_it,
        no_program_gives_up_the_lock_or_the_limits_of_its_call, what_a_dead_launcher_left_is_cleared,
        who_moves_folders_is_counted_all_the_same,
    };
    pub(super) use super::proc::{
        a_proc_of_its_own_shows_its_call_alone, a_script_finds_itself_in_proc,
        what_lies_below_is_told_as_without_it,
    };
    pub(super) use super::reach::{
        a_front_beside_its_own_launcher_asks_in_vain, a_front_that_dials_launchers_asks_in_vain,
        a_front_that_was_taken_over_asks_in_vain,
    };
    pub(super) use super::search::{
        finds_lines_below_a_folder, leaves_out_what_is_excluded, no_excluded_byte_is_found,
        programs_read_below_only_where_they_say_so, stays_on_its_mount, tells_what_lies_below,
    };
    pub(super) use super::soak::a_thousand_calls_leave_nothing;
    pub(super) use super::spare::{
        a_call_takes_the_spare, a_spare_is_confined_and_holds_nothing_of_a_call, a_spare_is_no_call,
        does_without_a_spare, spares_are_few,
    };
    pub(super) use super::view::{
        cannot_be_changed_from_below, closes_the_way_to_the_host, does_without_proc, follows_no_later_mount,
        shows_what_is_named_as_it_is_named, tells_nothing_of_the_rest,
    };
    use super::*;

    pub(super) fn reports_what_it_enforces() {
        let world = World::new();
        world.tool(
            "bad",
            &include_str!("../../tools.d/tail_file.toml")
                .replace("tail_file", "bad")
                .replace("/usr/bin/tail", "/etc/passwd"),
        );
        world.with(|stage| async move {
            let report = stage.launcher.report();
            println!("{report:?}");
            for layer in ["landlock abi ", "seccomp", "no_new_privs", "no capabilities", "rlimits"] {
                assert!(has(&report, layer), "{layer}");
            }
            assert!(
                report
                    .skipped
                    .iter()
                    .any(|root| root.tool == "read_file" && root.path.ends_with("absent-logs"))
            );
            assert!(report.refused.iter().any(|tool| tool.tool == "bad"), "{report:?}");
            let bad = stage.prepare("bad", &json!({"path": "/x", "lines": 1})).await.expect_err("refused");
            assert_eq!(bad.to_string(), "program `/etc/passwd`: is no ELF program");
            assert!(alive(report.pid));
        });
    }

    pub(super) fn reads_lists_checks_and_tails() {
        let world = World::new();
        let file = world.write("workspace/a.txt", b"one\ntwo\nthree\n");
        let workspace = world.workspace();
        world.with(|stage| async move {
            let (code, answer) =
                stage.answer("read_file", json!({"path": file, "offset": 4, "limit": 3})).await;
            assert_eq!((code, &answer["text"], &answer["truncated"]), (0, &json!("two"), &json!(true)));
            let (code, answer) = stage.answer("list_dir", json!({"path": workspace.to_str()})).await;
            assert_eq!((code, &answer["entries"][0]["name"]), (0, &json!("a.txt")));
            let (code, answer) = stage.answer("health_check", json!({})).await;
            assert_eq!(code, 0, "{answer}");
            assert!(
                answer["memory"]["total_bytes"].as_u64().unwrap_or(0) > 0 && answer["disks"][0].is_object()
            );

            let read = stage.call("read_file", json!({"path": file})).await;
            println!("read_file: {:?} in {} us", read.layers, read.wall_us);
            let tail = stage.call("tail_file", json!({"path": file, "lines": 1})).await;
            println!("tail_file: {:?} in {} us", tail.layers, tail.wall_us);
            assert_eq!(
                (&tail.end, tail.stdout.as_slice()),
                (&End::Exit { code: 0 }, &b"three\n"[..]),
                "{tail:?}"
            );
            for layer in
                ["seccomp", "no_new_privs", "no capabilities", "rlimits", "pid namespace", "net namespace"]
            {
                assert!(read.layers.iter().any(|name| name == layer), "{layer}");
                assert!(tail.layers.iter().any(|name| name == layer), "{layer}");
            }
            assert!(tail.layers.iter().any(|name| name == "init"));
        });
    }

    pub(super) fn resolves_what_is_there() {
        let world = World::new();
        let file = world.write("workspace/f", b"x");
        let workspace = world.workspace();
        symlink(&file, workspace.join("link")).expect("linked");
        std::fs::create_dir_all(workspace.join("d/e")).expect("made");
        symlink(workspace.join("d"), workspace.join("dlink")).expect("linked");
        world.with(|stage| async move {
            let root = workspace.to_str().expect("UTF-8");
            for path in ["f", "./f", "/f", "d/../f", "link", "d/e/../../link"] {
                let Object::Path(found) = stage.object(format!("{root}/{path}")).await else {
                    panic!("{path}")
                };
                assert_eq!((found.canonical.as_str(), found.kind), (file.as_str(), FileKind::File), "{path}");
            }
            for (path, folder, rest) in [
                ("nope", "", "nope"),
                ("d/x/y", "/d", "x/y"),
                ("dlink//x/./y", "/d", "x/y"),
                ("d/../nope", "", "nope"),
            ] {
                let expect = Object::Absent { folder: format!("{root}{folder}"), rest: rest.to_owned() };
                assert_eq!(stage.object(format!("{root}/{path}")).await, expect, "{path}");
            }
            let mut ask = stage.ask("read_file", &json!({"path": format!("{root}/dlink/e")}));
            ask.named = ["/", "/etc", root].map(str::to_owned).to_vec();
            ask.named.extend([format!("{root}/dlink"), format!("{root}/f"), format!("{root}/d/e")]);
            let prepared = stage.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect("prepared");
            let Object::Path(found) = prepared.object else { panic!("{:?}", prepared.object) };
            let expect = ["/", root].map(str::to_owned).into_iter();
            let expect: Vec<String> =
                expect.chain([format!("{root}/dlink"), format!("{root}/d/e")]).collect();
            assert_eq!(found.within, expect);
        });
    }

    pub(super) fn keeps_what_is_outside_outside() {
        let world = World::new();
        let workspace = world.workspace();
        let secret = world.write("outside/secret", b"secret");
        world.write("workspace/f", b"x");
        std::fs::hard_link(&secret, world.path("outside/second")).expect("linked");
        symlink(&secret, workspace.join("out")).expect("linked");
        symlink("/", workspace.join("slash")).expect("linked");
        symlink("/proc/self/root", workspace.join("magic")).expect("linked");
        symlink("loop", workspace.join("loop")).expect("linked");
        std::fs::write(workspace.join("mine"), "x").expect("written");
        std::fs::set_permissions(workspace.join("mine"), PermissionsExt::from_mode(0o000)).expect("mode");
        world.with(|stage| async move {
            let root = workspace.to_str().expect("UTF-8");
            for path in [
                "/etc/passwd",
                "/etc/shadow",
                "/proc/self/root/etc/passwd",
                "/proc/self/fd/0",
                "/proc/1/environ",
                "/dev/null",
                "/",
                &secret,
                &format!("{root}/../outside/secret"),
                &format!("{root}/..//outside/nope"),
                &format!("{root}/out"),
                &format!("{root}/slash/etc/passwd"),
                &format!("{root}/magic/etc/passwd"),
                &format!("{root}/loop"),
                &format!("{root}/f/below"),
                &format!("{root}/nope/../f"),
                &format!("{root}/nope/../../outside/secret"),
                &format!("{root}/mine"),
                &format!("{root}x"),
                &format!("{root}/{}", "n".repeat(300)),
            ] {
                assert_eq!(stage.object(path).await, Object::Outside, "{path}");
            }
            // A front that lies about the decision gets nothing either.
            let execution = stage.call("read_file", json!({"path": secret})).await;
            assert!(
                matches!(execution.end, End::Refused { .. }) && execution.stdout.is_empty(),
                "{execution:?}"
            );
            let absent = stage.answer("read_file", json!({"path": format!("{root}/nope")})).await;
            assert_eq!(absent, (1, json!({"error": "not permitted or not found"})));
        });
    }

    pub(super) fn asks_again_when_the_object_was_swapped() {
        let world = World::new();
        let workspace = world.workspace();
        let secret = world.write("outside/secret", b"secret");
        let file = world.write("workspace/f", b"x");
        let folder = workspace.join("d");
        world.with(|stage| async move {
            for tool in ["read_file", "tail_file"] {
                let arguments = match tool {
                    "read_file" => json!({"path": file}),
                    _ => json!({"path": file, "lines": 1}),
                };
                let prepared = stage.prepare(tool, &arguments).await.expect("prepared");
                std::fs::rename(&file, format!("{file}.old")).expect("moved");
                symlink(&secret, &file).expect("linked");
                let execution = stage.run(tool, &arguments, prepared).await;
                let reason = "the object changed between decision and start".to_owned();
                assert_eq!(execution.end, End::Refused { reason }, "{tool}");
                assert!(execution.stdout.is_empty());
                std::fs::remove_file(&file).expect("removed");
                std::fs::rename(format!("{file}.old"), &file).expect("moved back");

                // By a plain file of the same folder, which only device and inode tell apart.
                let prepared = stage.prepare(tool, &arguments).await.expect("prepared");
                std::fs::rename(&file, format!("{file}.old")).expect("moved");
                std::fs::write(&file, "another").expect("written");
                let execution = stage.run(tool, &arguments, prepared).await;
                let reason = "the object changed between decision and start".to_owned();
                assert_eq!(execution.end, End::Refused { reason }, "{tool}: another file");
                std::fs::rename(format!("{file}.old"), &file).expect("moved back");
            }
            std::fs::create_dir(&folder).expect("made");
            std::fs::write(folder.join("g"), "y").expect("written");
            let arguments = json!({"path": folder.join("g").to_str()});
            let prepared = stage.prepare("read_file", &arguments).await.expect("prepared");
            std::fs::rename(&folder, workspace.join("moved")).expect("moved");
            symlink(Path::new(&secret).parent().expect("a parent"), &folder).expect("linked");
            let execution = stage.run("read_file", &arguments, prepared).await;
            assert!(matches!(execution.end, End::Refused { .. }), "{execution:?}");
            // Another object than the prepared one, as a front that was taken over might ask for.
            let arguments = json!({"path": file});
            let mut prepared = stage.prepare("read_file", &arguments).await.expect("prepared");
            if let Object::Path(path) = &mut prepared.object {
                path.canonical = secret.clone();
            }
            let execution = stage.run("read_file", &arguments, prepared).await;
            let reason = "the permitted object is not the one that was prepared".to_owned();
            assert_eq!(execution.end, End::Refused { reason });
        });
    }

    pub(super) fn strange_files_are_answered() {
        let world = World::new();
        let workspace = world.workspace();
        let at = |name: &str| workspace.join(name).to_str().expect("UTF-8").to_owned();
        nix::unistd::mkfifo(&workspace.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o644))
            .expect("fifo");
        let sparse = std::fs::File::create(at("sparse")).expect("made");
        sparse.set_len(10 << 30).expect("a hole");
        std::fs::create_dir(at("many")).expect("made");
        for name in 0..100_000 {
            std::fs::File::create(workspace.join(format!("many/{name:06}"))).expect("made");
        }
        let growing = at("growing");
        std::fs::write(&growing, vec![b'x'; 100_000]).expect("written");
        let paths = ["fifo", "sparse", "many"].map(at);
        world.with(|stage| async move {
            let [fifo, sparse, many] = paths;
            let (code, answer) = stage.answer("read_file", json!({"path": fifo})).await;
            assert_eq!((code, &answer["error"]), (1, &json!(format!("`{fifo}` is not a regular file"))));
            let (code, answer) = stage.answer("read_file", json!({"path": many})).await;
            assert_eq!((code, &answer["error"]), (1, &json!(format!("`{many}` is not a regular file"))));
            let (code, answer) =
                stage.answer("read_file", json!({"path": sparse, "offset": 5_u64 << 30})).await;
            assert_eq!((code, &answer["size"], &answer["bytes"]), (0, &json!(10_u64 << 30), &json!(16_384)));
            let (code, answer) = stage.answer("read_file", json!({"path": growing, "limit": 65_536})).await;
            assert_eq!((code, &answer["bytes"], &answer["truncated"]), (0, &json!(65_536), &json!(true)));
            let began = Instant::now();
            let (code, answer) = stage.answer("list_dir", json!({"path": many, "limit": 1000})).await;
            println!("1,000 of 100,000 entries in {:?}", began.elapsed());
            let entries = answer["entries"].as_array().map(Vec::len);
            assert_eq!((code, entries, &answer["truncated"]), (0, Some(1000), &json!(true)));
        });
    }

    pub(super) fn refuses_what_the_manifest_does_not_say() {
        let world = World::new();
        let file = world.write("workspace/f", b"x");
        world.with(|stage| async move {
            let good = stage.ask("read_file", &json!({"path": file}));
            for (what, ask) in [
                ("no tool is named `nope`", Ask { tool: "nope".to_owned(), ..good.clone() }),
                (
                    "is not the one that this launcher loaded",
                    Ask { manifest: "00".repeat(32), ..good.clone() },
                ),
                ("required", Ask { arguments: "{}".to_owned(), ..good.clone() }),
                ("canonical", Ask { arguments: format!("{{ \"path\":\"{file}\"}}"), ..good.clone() }),
                (
                    "over",
                    Ask { arguments: format!("{{\"path\":\"/{}\"}}", "x".repeat(70_000)), ..good.clone() },
                ),
            ] {
                let refused =
                    stage.launcher.prepare_ask(ask, PREPARE_MS_MAX).await.expect_err(what).to_string();
                assert!(refused.contains(what), "{refused} does not tell `{what}`");
            }
            // More names than one packet holds.
            let named = (0..20_000).map(|at| format!("/named/{at}")).collect();
            stage.launcher.prepare_ask(Ask { named, ..good }, PREPARE_MS_MAX).await.expect("prepared");
            assert_eq!(stage.answer("read_file", json!({"path": file})).await.0, 0);
        });
    }

    pub(super) fn ends_what_does_not_end() {
        let world = World::new();
        world.program("sleeps", &["/usr/bin/sleep", "1000"]);
        world.program("floods", &["/usr/bin/yes"]);
        world.program("random", &["/usr/bin/head", "-c8", "/dev/urandom"]);
        let code = "#include <signal.h>\n#include <unistd.h>\n#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n\
            int main(int n,char**a){ if(!strcmp(a[1],\"ignore\")){for(int i=1;i<65;i++)signal(i,SIG_IGN);for(;;);}\n\
            if(!strcmp(a[1],\"orphan\")){ if(!fork()){setsid();if(!fork()){for(;;)pause();}_exit(0);} puts(\"main\"); return 7;}\n\
            if(!strcmp(a[1],\"stderr\")){for(;;)write(2,\"eeeeeeeeeeeeeeee\",16);}\n\
            if(!strcmp(a[1],\"bomb\")){int c=0;for(int i=0;i<100;i++){int p=fork();if(!p){for(;;)pause();}if(p>0)c++;}printf(\"%d\",c);return 0;}\n\
            if(!strcmp(a[1],\"abort\"))abort();\n\
            if(!strcmp(a[1],\"memory\")){char*p=malloc(1<<30);puts(p?\"got\":\"none\");return 0;}\n\
            if(!strcmp(a[1],\"close\")){close(1);close(2);for(;;)pause();}\n return 99;}\n";
        let Some(helper) = compile(&world, "helper", code) else { return };
        for mode in ["ignore", "orphan", "stderr", "bomb", "abort", "memory", "close"] {
            world.program(mode, &[helper.as_str(), mode]);
        }
        world.with(|stage| async move {
            for tool in ["sleeps", "ignore", "close"] {
                let execution = stage.call(tool, json!({})).await;
                assert_eq!(execution.end, End::Timeout, "{tool}");
                assert!((700_000..1_500_000).contains(&execution.wall_us), "{tool}: {}", execution.wall_us);
            }
            let flood = stage.call("floods", json!({})).await;
            assert_eq!((&flood.end, flood.stdout.len()), (&End::OutputCap, 65_536));
            // However soon it is over: what it ran under is on record.
            assert!(flood.layers.iter().any(|layer| layer == "init"), "{flood:?}");
            let flood = stage.call("stderr", json!({})).await;
            assert_eq!((flood.end, flood.stderr.len()), (End::OutputCap, 65_536));
            let orphan = stage.call("orphan", json!({})).await;
            assert_eq!((orphan.end, orphan.stdout.as_slice()), (End::Exit { code: 7 }, &b"main\n"[..]));
            assert!(orphan.wall_us < 500_000, "{}", orphan.wall_us);
            let bomb = stage.call("bomb", json!({})).await;
            assert_eq!((bomb.end, bomb.stdout.as_slice()), (End::Exit { code: 0 }, &b"7"[..]));
            assert_eq!(stage.call("abort", json!({})).await.end, End::Signal { signal: 6 });
            assert_eq!(stage.call("memory", json!({})).await.stdout, b"none\n");
            let random = stage.call("random", json!({})).await;
            assert_eq!((random.end, random.stdout.len()), (End::Exit { code: 0 }, 8));
            let sleepers = (0..8).map(|_| stage_sleep(stage.clone()));
            let began = Instant::now();
            for sleeper in sleepers.map(tokio::spawn).collect::<Vec<_>>() {
                assert_eq!(sleeper.await.expect("joined"), End::Timeout);
            }
            assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
        });
    }

    pub(super) fn takes_a_program_apart_from_the_machine() {
        let world = World::new();
        let Some(probe) = compile(&world, "probe", PROBE) else { return };
        world.write("outside/secret", b"secret");
        let outside = world.path("outside");
        world.program("probe", &[probe.as_str(), outside.to_str().expect("UTF-8")]);
        world.with(|stage| async move {
            let execution = stage.call("probe", json!({})).await;
            let text = String::from_utf8_lossy(&execution.stdout).into_owned();
            println!("{text}{}", String::from_utf8_lossy(&execution.stderr));
            assert_eq!(execution.end, End::Exit { code: 0 }, "{text}");
            assert!(!text.contains("ALLOWED"), "{text}");
            assert!(text.lines().filter(|line| line.contains("refused")).count() >= 30, "{text}");
            assert!(text.contains("env PATH=/usr/bin\nenv LANG=C.UTF-8\nfds 0 1 2 \n"), "{text}");
        });
    }

    pub(super) fn releases_what_nobody_waits_for() {
        let world = World::new();
        let file = world.write("workspace/f", b"x");
        world.program("sleeps", &["/usr/bin/sleep", "1000"]);
        world.with(|stage| async move {
            let arguments = json!({"path": file});
            // More than may be there at once, one after the other.
            for _ in 0..100 {
                drop(stage.prepare("read_file", &arguments).await.expect("prepared"));
            }
            let mut held = Vec::new();
            loop {
                match stage.prepare("read_file", &arguments).await {
                    Ok(prepared) => held.push(prepared),
                    Err(refused) => {
                        assert_eq!(refused.to_string(), "64 calls are there already");
                        break;
                    }
                }
            }
            // Some of the hundred may not have been reaped yet when the last were asked for.
            assert!((1..=64).contains(&held.len()), "{}", held.len());
            drop(held);
            let prepared = stage.prepare_soon("sleeps", &json!({})).await;
            let none = json!({});
            let running = stage.run("sleeps", &none, prepared);
            assert!(tokio::time::timeout(Duration::from_millis(100), running).await.is_err());
            let prepared = stage.prepare_soon("read_file", &arguments).await;
            let execution = stage.run("read_file", &arguments, prepared).await;
            assert_eq!(execution.end, End::Exit { code: 0 });
        });
    }

    pub(super) fn ends_what_gets_no_go() {
        let world = World::new();
        let file = world.write("workspace/f", b"x");
        world.with(|stage| async move {
            let arguments = json!({"path": file});
            let held = stage.prepare("read_file", &arguments).await.expect("prepared");
            // The front's own bound on a permit is shorter than the child's life.
            tokio::time::sleep(Duration::from_millis(3_300)).await;
            let execution = stage.run("read_file", &arguments, held).await;
            let reason = "the child that was prepared is gone".to_owned();
            assert_eq!(execution.end, End::Refused { reason });
        });
    }

    pub(super) fn does_without_namespaces() {
        let world = World::new();
        let file = world.write("workspace/f", b"x");
        load(&without_namespaces()).expect("loaded");
        world.with(|stage| async move {
            let report = stage.launcher.report();
            assert!(report.missing.iter().any(|line| line.starts_with("namespaces: ")), "{report:?}");
            assert!(!has(&report, "pid namespace") && has(&report, "landlock abi "), "{report:?}");
            let read = stage.call("read_file", json!({"path": file})).await;
            assert_eq!(read.end, End::Exit { code: 0 });
            println!("{:?}", read.layers);
            let refused = stage.prepare("tail_file", &json!({"path": file, "lines": 1})).await.expect_err("refused");
            let expect = "programs need a PID namespace and an empty network namespace, which this machine does \
                          not give";
            assert_eq!(refused.to_string(), expect);
        });
    }

    pub(super) fn keeps_time_when_the_front_does_not_read() {
        let world = World::new();
        world.program("floods", &["/usr/bin/yes"]);
        let seed = start(&world.spec).expect("a launcher");
        let catalog = world.catalog();
        let (tool, manifest) = ("floods".to_owned(), catalog.find("floods").expect("a tool").digest.hex());
        let (arguments, named) = ("{}".to_owned(), vec![]);
        let ask = Ask { tool: tool.clone(), manifest: manifest.clone(), arguments: arguments.clone(), named };
        let go = Go {
            tool,
            manifest,
            arguments,
            decision: 1,
            object: Object::Fixed,
            exclusions: vec![],
            secrets: None,
        };
        let send = |id: u64, request: &Request| {
            for packet in protocol::packets(id, request).expect("packets") {
                assert_eq!(protocol::send_packet(&seed.socket, &packet), Ok(true));
            }
        };
        let mut assembler = protocol::Assembler::default();
        let mut next = || match protocol::receive(&seed.socket, protocol::PACKET_BYTES_MAX) {
            protocol::Received::Packet(packet) => {
                assembler.take::<protocol::Reply>(&packet).expect("an arrival")
            }
            other => panic!("{other:?}"),
        };
        for id in 1..=16 {
            send(id, &Request::Prepare(ask.clone()));
            assert!(matches!(
                next(),
                protocol::Arrival::Message(_, protocol::Reply::Prepared(Object::Fixed))
            ));
        }
        (1..=16).for_each(|id| send(id, &Request::Go(go.clone())));
        // Longer than the wall limit: what is not read by then was ended by the clock.
        std::thread::sleep(Duration::from_millis(1_200));
        let mut ends = Vec::new();
        while ends.len() < 16 {
            if let protocol::Arrival::Message(_, protocol::Reply::Ended(ended)) = next() {
                assert!(ended.wall_us < 1_100_000, "{ended:?}");
                ends.push(ended.end);
            }
        }
        assert!(ends.contains(&End::Timeout), "{ends:?}");
        assert!(ends.iter().all(|end| matches!(end, End::Timeout | End::OutputCap)), "{ends:?}");
    }

    fn kill_launcher(report: &Report) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(report.pid).expect("a pid")).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    }

    pub(super) fn survives_the_death_of_a_launcher() {
        let world = &World::new();
        let file = world.write("workspace/f", b"x");
        world.program("sleeps", &["/usr/bin/sleep", "1000"]);
        world.with(|stage| async move {
            let arguments = json!({"path": file});
            let held = stage.prepare("read_file", &arguments).await.expect("prepared");
            let running = tokio::spawn(stage_sleep(stage.clone()));
            tokio::time::sleep(Duration::from_millis(100)).await;
            kill_launcher(&stage.launcher.report());
            assert_eq!(running.await.expect("joined"), End::Killed);
            let late = stage.run("read_file", &arguments, held).await;
            assert!(matches!(late.end, End::Killed | End::Refused { .. }), "{late:?}");
            let refused = stage.prepare("read_file", &arguments).await.expect_err("ended");
            assert_eq!(refused.to_string(), "the launcher ended");
        });
        // With a supervisor there is another one.
        let code = serve(&world.spec, |seed| {
            world.with_seed(seed, |stage| async move {
                let arguments = json!({"path": world.path("workspace/f").to_str()});
                let first = stage.launcher.report();
                kill_launcher(&first);
                until("the launcher is gone", || !alive(first.pid));
                let prepared = stage.prepare_soon("read_file", &arguments).await;
                let execution = stage.run("read_file", &arguments, prepared).await;
                assert_eq!(execution.end, End::Exit { code: 0 });
                assert_ne!(stage.launcher.report().pid, first.pid);
                // A reload: what is prepared goes on where it is.
                let second = stage.launcher.report();
                let held = stage.prepare("read_file", &arguments).await.expect("prepared");
                let renewal = stage.launcher.renew().await.expect("renewed");
                assert_eq!(stage.launcher.report().pid, second.pid, "in use until the other is installed");
                renewal.install();
                assert_ne!(stage.launcher.report().pid, second.pid);
                let execution = stage.run("read_file", &arguments, held).await;
                assert_eq!(execution.end, End::Exit { code: 0 });
                while alive(second.pid) {
                    tokio::task::yield_now().await;
                }
            });
            3
        });
        assert_eq!(code, Ok(3));
    }

    async fn stage_sleep(stage: Stage) -> End {
        stage.call("sleeps", json!({})).await.end
    }

    pub(super) fn dies_with_its_front() {
        let world = &World::new();
        world.program("sleeps", &["/usr/bin/sleep", "987"]);
        let seed = start(&world.spec).expect("a launcher");
        let pid = seed.report().pid;
        assert!(alive(pid));
        drop(seed);
        until("the launcher ends with its socket", || !alive(pid));

        // A front that is killed in the middle of a call.
        let note = &world.path("workspace/pids");
        let code = serve(&world.spec, |seed| {
            world.with_seed(seed, |stage| async move {
                let running = stage.call("sleeps", json!({}));
                tokio::time::timeout(Duration::from_millis(200), running).await.ok();
                let held = stage.prepare("sleeps", &json!({})).await.expect("prepared");
                std::fs::write(note, stage.launcher.report().pid.to_string()).expect("written");
                let me = rustix::process::getpid();
                rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("killed");
                drop(held);
            });
            0
        });
        assert_eq!(code, Ok(1));
        let pid: u32 =
            std::fs::read_to_string(world.path("workspace/pids")).expect("read").parse().expect("a pid");
        until("the launcher ends with its front", || !alive(pid));
        until("no tool is left", || {
            let all = std::fs::read_dir("/proc").expect("proc").filter_map(Result::ok);
            !all.map(|item| std::fs::read(item.path().join("cmdline")).unwrap_or_default())
                .any(|line| line.ends_with(b"sleep\x00987\x00"))
        });
    }

    pub(super) fn passes_signals_on() {
        if std::env::var_os(AS_UID).is_some() {
            // The harness's first thread is still root, and no ordinary user may signal it.
            return println!("skipped: the supervisor's process is another user's");
        }
        let world = World::new();
        let code = serve(&world.spec, |seed| {
            world.with_seed(seed, |_| async {
                use tokio::signal::unix::{SignalKind, signal};
                let mut term = signal(SignalKind::terminate()).expect("a handler");
                nix::sys::signal::SigSet::all().thread_unblock().expect("unblocked");
                let supervisor = rustix::process::getppid().expect("a parent");
                rustix::process::kill_process(supervisor, rustix::process::Signal::TERM).expect("sent");
                term.recv().await.expect("heard");
            });
            9
        });
        assert_eq!(code, Ok(9));
    }

    pub(super) fn locks_the_front() {
        let world = World::new();
        let code = serve(&world.spec, |seed| {
            let layers = lock_front(&[world.path("workspace")]).expect("locked");
            println!("{layers:?}");
            std::fs::write(world.path("workspace/mine"), "x").expect("written");
            std::fs::rename(world.path("workspace/mine"), world.path("workspace/yours")).expect("renamed");
            std::fs::write("/dev/null", "x").expect("written");
            std::fs::read(world.path("tools.d/read_file.toml")).expect("read");
            let denied = |done: std::io::Result<()>| done.expect_err("denied").kind();
            let no = std::io::ErrorKind::PermissionDenied;
            assert_eq!(denied(std::fs::write(world.path("tools.d/new.toml"), "x")), no);
            assert_eq!(denied(std::fs::write(world.path("tools.d/read_file.toml"), "x")), no);
            assert_eq!(denied(std::fs::remove_file(world.path("tools.d/read_file.toml"))), no);
            assert_eq!(denied(std::fs::create_dir(world.path("outside/d"))), no);
            assert_eq!(denied(Command::new("/usr/bin/true").status().map(drop)), no);
            assert!(start(&world.spec).is_err());
            assert_eq!(std::thread::spawn(|| 5).join().expect("a thread"), 5);
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.expect("a runtime");
            let stage = runtime.block_on(async {
                Stage {
                    spec: world.spec.clone(),
                    launcher: seed.connect().expect("connected"),
                    catalog: Arc::new(world.catalog()),
                }
            });
            let path = world.path("workspace/yours");
            let file = path.to_str().expect("UTF-8").to_owned();
            let end = runtime.spawn(async move { stage.call("read_file", json!({"path": file})).await.end });
            assert_eq!(runtime.block_on(end).expect("joined"), End::Exit { code: 0 });
            let signal = rustix::process::getppid().expect("a parent");
            assert!(rustix::process::kill_process(signal, rustix::process::Signal::WINCH).is_err());
            5
        });
        assert_eq!(code, Ok(5));
    }

    pub(super) fn first_look_at_latency() {
        let world = World::new();
        let file = world.write("workspace/f", &[b'x'; 4096]);
        let cat: Vec<u128> = (0..200)
            .map(|_| {
                let began = Instant::now();
                Command::new("/bin/cat").arg(&file).output().expect("cat");
                began.elapsed().as_micros()
            })
            .collect();
        world.with(|stage| async move {
            let mut read = Vec::new();
            for _ in 0..200 {
                let began = Instant::now();
                let execution = stage.call("read_file", json!({"path": file})).await;
                read.push(began.elapsed().as_micros());
                assert_eq!(execution.end, End::Exit { code: 0 });
            }
            println!("read_file {} us, cat {} us (median)", median(read), median(cat));
        });
    }

    fn median(mut times: Vec<u128>) -> u128 {
        times.sort_unstable();
        times[times.len() / 2]
    }
}

/// A program that was taken over: it tries, and tells what was allowed.
const PROBE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#define T(call) do { errno = 0; long r = (long)(call); printf("%s %s (%s)\n", r < 0 ? "refused" : "ALLOWED", #call, strerror(errno)); } while (0)
int main(int n, char **a) {
  char secret[4096], made[4096];
  snprintf(secret, 4096, "%s/secret", a[1]); snprintf(made, 4096, "%s/made", a[1]);
  setvbuf(stdout, 0, _IOLBF, 0);
  T(socket(AF_INET, SOCK_STREAM, 0)); T(socket(AF_UNIX, SOCK_STREAM, 0)); T(socket(AF_NETLINK, SOCK_RAW, 0));
  int sp[2]; T(socketpair(AF_UNIX, SOCK_STREAM, 0, sp));
  T(ptrace(PTRACE_ATTACH, 1, 0, 0)); T(ptrace(PTRACE_TRACEME, 0, 0, 0));
  T(unshare(CLONE_NEWUSER)); T(unshare(CLONE_NEWNS)); T(unshare(CLONE_NEWPID));
  T(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); T(syscall(SYS_clone3, 0, 0));
  T(setns(0, 0)); T(mount("x", "/tmp", "tmpfs", 0, 0)); T(chroot("/tmp")); T(syscall(SYS_pivot_root, ".", "."));
  T(open("/etc/shadow", O_RDONLY)); T(open("/etc/passwd", O_RDONLY)); T(open(secret, O_RDONLY)); T(open("/", O_RDONLY));
  T(open("/proc/1/environ", O_RDONLY)); T(open("/proc/self/mem", O_RDWR)); T(open("/proc/self/maps", O_RDONLY)); T(open("/dev/tty", O_RDWR));
  T(open("/tmp/par-probe", O_CREAT | O_WRONLY, 0600)); T(open(made, O_CREAT | O_WRONLY, 0600)); T(open(secret, O_WRONLY | O_TRUNC));
  T(truncate(secret, 0)); T(unlink(secret)); T(rename(secret, made)); T(mkdir(made, 0755)); T(symlink("/", made)); T(chmod(secret, 0777)); T(link(secret, made));
  T(syscall(SYS_memfd_create, "x", 0)); T(syscall(SYS_bpf, 0, 0, 0)); T(syscall(SYS_keyctl, 0, 0)); T(syscall(SYS_io_uring_setup, 1, 0));
  T(syscall(SYS_userfaultfd, 0)); T(syscall(SYS_perf_event_open, 0, 0, -1, -1, 0)); T(syscall(SYS_pidfd_open, 1, 0)); T(syscall(SYS_seccomp, 0, 0, 0));
  T(syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0)); T(syscall(SYS_open_by_handle_at, 0, 0, 0)); T(syscall(SYS_personality, 0xffffffff));
  T(setuid(0)); T(setgid(0)); T(setgroups(0, 0)); T(prctl(PR_SET_DUMPABLE, 1)); T(prctl(PR_SET_PDEATHSIG, 0));
  T(ioctl(0, TIOCSTI, "x")); T(fcntl(1, F_SETOWN, 1)); T(kill(1, 9) == 0 && kill(1, 0) != 0 ? 0 : -1);
  struct rlimit more = {1 << 20, 1 << 20}; T(setrlimit(RLIMIT_NOFILE, &more));
  char *args[] = {"true", 0}; T(execve("/bin/true", args, environ)); T(execve("/usr/bin/su", args, environ));
  for (char **e = environ; *e; e++) printf("env %s\n", *e);
  printf("fds "); for (int i = 0; i < 1024; i++) if (fcntl(i, F_GETFD) >= 0) printf("%d ", i); printf("\n");
  /* Everybody that can be signalled is within this call. */
  signal(SIGTERM, SIG_IGN); kill(-1, SIGTERM);
  return 0;
}
"#;
