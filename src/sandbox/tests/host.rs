//! Reports on the host, through the sandbox: what they show, and what they cannot.

use super::{Stage, World};
use crate::launcher::confine::layers::{Landlock, keep_capabilities, restrict};
use crate::launcher::host::kept_proc::KeptProc;
use crate::tools::Builtin;
use crate::tools::builtin::host::proc_names;
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};

const TOOLS: [(&str, &str); 8] = [
    ("connections", include_str!("../../../tools.d/connections.toml")),
    ("disk_io", include_str!("../../../tools.d/disk_io.toml")),
    ("disk_usage", include_str!("../../../tools.d/disk_usage.toml")),
    ("interfaces", include_str!("../../../tools.d/interfaces.toml")),
    ("listening_ports", include_str!("../../../tools.d/listening_ports.toml")),
    ("memory_usage", include_str!("../../../tools.d/memory_usage.toml")),
    ("process_info", include_str!("../../../tools.d/process_info.toml")),
    ("process_list", include_str!("../../../tools.d/process_list.toml")),
];

fn world() -> World {
    let world = World::new();
    for (name, manifest) in TOOLS {
        world.tool(name, manifest);
    }
    world
}

/// A process that holds secrets in its environment and in its arguments.
fn holder() -> Child {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "read line", "PLAIN-S3CRET", "--password=NAMED-S3CRET"]);
    command.env("DB_PASSWORD", "ENV-S3CRET").stdin(std::process::Stdio::piped());
    command.spawn().expect("started")
}

impl Stage {
    /// A report, held against the schema of its manifest.
    async fn report(&self, tool: &str, arguments: Value) -> Value {
        let (code, answer) = self.answer(tool, arguments).await;
        assert_eq!(code, 0, "{tool}: {answer}");
        let schema = self.manifest(tool).output_schema.clone().expect("a schema");
        assert_eq!(schema.check(answer.as_object().expect("an object")), Ok(()), "{tool}: {answer}");
        assert!(answer["observed_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{tool}: {answer}");
        answer
    }
}

/// H22: secrets in environments and command lines are in no report; those in arguments only where
/// the call asks for arguments, which is for a rule to permit.
pub(super) fn reports_on_the_host_show_no_secret() {
    let world = world();
    let mut holder = holder();
    let pid = holder.id();
    // C5: a process that calls itself what a parser or a model could take for something else.
    let hostile = world.path("outside").join(OsStr::from_bytes(b"a) R 0 (\x1b[2J\xff"));
    std::fs::copy("/bin/sleep", &hostile).expect("copied");
    let mut stranger = Command::new(&hostile).arg("60").spawn().expect("started");
    let stranger_pid = stranger.id();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    world.with(|stage| async move {
        let mut all = String::new();
        for (tool, _) in TOOLS.into_iter().filter(|(tool, _)| *tool != "process_info") {
            all += &stage.report(tool, json!({})).await.to_string();
        }
        for sort in ["memory", "io"] {
            let list = stage.report("process_list", json!({ "sort": sort, "limit": 200 })).await;
            let names = list["processes"].as_array().expect("a list");
            let own = names.iter().find(|one| one["pid"] == pid);
            assert!(own.is_some_and(|one| one["name"] == "sh") || list["truncated"] == true, "{list}");
            let strange = names.iter().find(|one| one["pid"] == stranger_pid);
            assert!(
                strange.is_none_or(|one| one["parent_pid"] == std::process::id()
                    && one["name_base64"] == "YSkgUiAwICgbWzJK/w=="
                    && one.get("name").is_none()),
                "{strange:?}"
            );
            assert!(strange.is_some() || list["truncated"] == true, "{list}");
            all += &list.to_string();
        }
        let one = stage.report("process_info", json!({ "pid": pid })).await;
        assert_eq!((&one["name"], one.get("arguments")), (&json!("sh"), None), "{one}");
        all += &one.to_string();
        assert!(!all.contains("S3CRET") && !all.contains("read line"), "{all}");
        let with = stage.report("process_info", json!({ "pid": pid, "arguments": true })).await;
        let shown = with["arguments"].to_string();
        assert!(shown.contains("PLAIN-S3CRET") && shown.contains("--password=[left out]"), "{with}");
        assert!(
            !with.to_string().contains("NAMED-S3CRET") && !with.to_string().contains("ENV-S3CRET"),
            "{with}"
        );

        let ports = stage.report("listening_ports", json!({ "limit": 500 })).await;
        let list = ports["ports"].as_array().expect("a list");
        let own = list.iter().find(|one| one["port"] == port).expect("the listener");
        assert_eq!(own["reachable_at"], "this_host", "{own}");
        let (code, gone) = stage.answer("process_info", json!({ "pid": 4_194_304 })).await;
        assert_eq!((code, &gone["error"]), (1, &json!("no process 4194304 is visible")));
    });
    holder.kill().expect("killed");
    holder.wait().expect("reaped");
    stranger.kill().expect("killed");
    stranger.wait().expect("reaped");
    drop(listener);
}

/// A tool's row of the table is a wall of the kernel's: other names are refused under its rule, and
/// what a process has in its memory is refused even to a tool that reads files of each process.
pub(super) fn the_kept_proc_opens_only_what_the_table_names() {
    let mut holder = holder();
    let pid = holder.id();
    let kept = KeptProc::open().expect("a /proc");
    let landlock = Landlock::probe(None).expect("Landlock");
    let open = |name: &str| kept.open_file(name).map(drop);
    for name in ["meminfo", "stat", "1/stat", "1/net/tcp", "pressure/memory"] {
        assert_eq!(open(name), Ok(()), "{name}, before");
    }
    let memory = format!("{pid}/environ");
    assert_eq!(open(&memory), Ok(()), "it is this user's own process");
    // As a call: without capabilities, one of which opens the memory of others to readers
    // (CAP_PERFMON). This process is the scenario's own: it stays restricted.
    keep_capabilities(CapabilitySet::empty()).expect("capabilities");
    let all = landlock.ruleset(&kept.grants(&proc_names(Builtin::ProcessList))).expect("a ruleset");
    restrict(all).expect("restricted");
    for name in ["1/stat", "1/status", "1/cmdline"] {
        assert_eq!(open(name), Ok(()), "{name}");
    }
    for name in ["environ", "maps", "mem", "auxv", "io"] {
        let found = kept.open_file(&format!("{pid}/{name}"));
        let read = found.and_then(|fd| rustix::io::read(&fd, &mut [0; 8]));
        assert!(matches!(read, Err(Errno::ACCESS | Errno::PERM)), "{name}: {read:?}");
    }
    let link = readlinkat(&kept.root, format!("{pid}/fd/0"), Vec::new());
    assert!(matches!(link, Err(Errno::ACCESS | Errno::PERM)), "{link:?}");
    for link in ["root/etc/passwd", "cwd", "exe"] {
        let found =
            openat(&kept.root, format!("{pid}/{link}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        assert!(matches!(found, Err(Errno::ACCESS | Errno::PERM)), "{link}: {found:?}");
    }
    let figures = landlock.ruleset(&kept.grants(&proc_names(Builtin::MemoryUsage))).expect("a ruleset");
    restrict(figures).expect("restricted");
    for name in ["meminfo", "vmstat", "pressure/memory"] {
        assert_eq!(open(name), Ok(()), "{name}");
    }
    for name in [
        "stat",
        "loadavg",
        "1/stat",
        "1/cmdline",
        "1/net/tcp",
        "kallsyms",
        "sys/kernel/hostname",
        "pressure/io",
    ] {
        assert_eq!(open(name), Err(Errno::ACCESS), "{name}");
    }
    // Landlock keeps this process from signalling it; it ends with its input.
    drop(holder.stdin.take());
    holder.wait().expect("reaped");
}

/// A builtin that reports on the host has `proc = "host"`, and no other builtin may have it.
pub(super) fn only_reports_have_the_hosts_proc() {
    let load = |manifest: &str| {
        let world = World::new();
        world.tool("t", &manifest.replacen("name = \"", "name = \"a_", 1));
        crate::tools::Catalog::load(&world.spec.tools_dir, &world.spec.places)
    };
    let memory = include_str!("../../../tools.d/memory_usage.toml");
    let catalog = load(&memory.replace("proc = \"host\"", "")).expect("a catalog");
    let proc = catalog.find("a_memory_usage").map(|manifest| manifest.proc);
    assert_eq!(proc, Some(crate::tools::ProcView::Host));
    let read = include_str!("../../../tools.d/read_file.toml");
    let refused = load(&read.replace("[sandbox]", "[sandbox]\nproc = \"host\"")).expect_err("refused");
    assert!(refused.to_string().contains("this builtin does not report on the host"), "{refused}");
}
