//! Each layer switched off alone, or with the second one that holds the same: some attempt goes through then, so
//! that none of them is decoration. The child here is made of the same steps as a call's, minus those; what came of it
//! is `tests/it/golden/layers-off.txt`.

use super::view::one;
use super::{ORDINARY, World, become_user};
use crate::call::End;
use crate::launcher::confine::layers::{self, Landlock, PathRule};
use crate::launcher::confine::protection;
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::confine::seccomp::filters::{Does, of_program};
use crate::launcher::sys;
use crate::launcher::view::namespaces::{self, SecondStage};
use crate::launcher::view::root::{self, MountUse, Plan};
use crate::launcher::view::{files, own_proc};
use crate::tools::Limits;
use Layer::{
    Added, Capabilities, Clock, ControlGroups, Descriptors, Environment, Filter, Group, HostName, Identity,
    Init, Locked, Network, OwnProc, OwnUsers, Processes, Resources, Rules, SharedMemory, SuId, View,
};
use landlock::AccessFs;
use nix::sched::CloneFlags;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    /// Landlock.
    Rules,
    /// The last seccomp filter.
    Filter,
    /// The mount view.
    View,
    /// The second user and mount namespace, which lock the view's mounts.
    Locked,
    /// The PID namespace.
    Processes,
    /// The network namespace.
    Network,
    /// The IPC namespace.
    SharedMemory,
    /// The UTS namespace.
    HostName,
    /// The cgroup namespace.
    ControlGroups,
    /// The call's own control group.
    Group,
    /// The bound on what a call adds to its folders.
    Added,
    /// The `/proc` of the call's own, where it is granted one: without it that of the view.
    OwnProc,
    /// The user namespace of the call's own.
    OwnUsers,
    /// The uid of tools, where the tests run as root.
    Identity,
    /// No capability, where the tests run as root.
    Capabilities,
    /// That no exec gives a privilege.
    SuId,
    /// The rlimits.
    Resources,
    /// That every other descriptor is closed.
    Descriptors,
    /// That the environment is made from nothing.
    Environment,
    /// The first process of the call's namespace, which is not the program.
    Init,
    /// The launcher's clock and caps.
    Clock,
}

/// By the names that records and tables have for them. What is in no record stands for itself.
const NAMES: [(Layer, &str); 21] = [
    (Rules, "landlock"),
    (Filter, "seccomp"),
    (View, "mount view"),
    (Locked, "locked mounts"),
    (Processes, "pid namespace"),
    (Network, "net namespace"),
    (SharedMemory, "ipc namespace"),
    (HostName, "uts namespace"),
    (ControlGroups, "cgroup namespace"),
    (OwnProc, own_proc::LAYER),
    (OwnUsers, "user namespace"),
    (Identity, "own uid"),
    (Capabilities, "no capabilities"),
    (SuId, "no_new_privs"),
    (Resources, "rlimits"),
    (Descriptors, "(closed descriptors)"),
    (Environment, "(environment)"),
    (Init, "init"),
    (Clock, "launcher"),
    (Group, "cgroup"),
    (Added, "quota"),
];

impl Layer {
    fn name(self) -> &'static str {
        NAMES.iter().find(|(layer, _)| *layer == self).expect("a name").1
    }

    /// By its name in a record; with a number behind it, where it has one.
    fn named(name: &str) -> Self {
        let name = if name.starts_with("uid ") { "own uid" } else { name };
        let found = NAMES.iter().find(|(_, known)| name == *known || name.starts_with(&format!("{known} ")));
        found.unwrap_or_else(|| panic!("no case for the layer `{name}`")).0
    }

    /// A layer that is added to the table of protections has to be given a case here.
    fn of(layer: protection::Layer) -> Self {
        match layer {
            protection::Layer::Landlock => Rules,
            protection::Layer::MountView => View,
            protection::Layer::OwnUid => Identity,
            protection::Layer::Seccomp => Filter,
            protection::Layer::NetNamespace => Network,
            protection::Layer::PidNamespace => Processes,
            protection::Layer::Rlimits => Resources,
            protection::Layer::Launcher => Clock,
            protection::Layer::Cgroup => Group,
            protection::Layer::NoCapabilities => Capabilities,
        }
    }
}

/// Without `off`: what goes through, and what another layer still holds.
struct LayerCase {
    off: &'static [Layer],
    through: &'static [&'static str],
    held: &'static [&'static str],
}

const fn case(
    off: &'static [Layer],
    through: &'static [&'static str],
    held: &'static [&'static str],
) -> LayerCase {
    LayerCase { off, through, held }
}

/// The table. Layers that hold the same are switched off one by one, and then together.
#[rustfmt::skip]
const CASES: &[LayerCase] = &[
    // Landlock and the view: files. Modes, links and what is deep in the kernel are the filter's; root's files also the uid's.
    case(&[Rules], &["list"],
         &["absolute", "change", "run_own", "modes", "hard_link", "special_files", "trace", "passwords", "tcp_connect"]),
    case(&[View], &["look", "map_own"], &["absolute", "list", "change", "own_proc", "run_other", "devices", "passwords"]),
    case(&[Rules, View], &["absolute", "list", "change", "own_proc", "proc_words", "run_other", "run_own", "move_out", "devices"],
         &["modes", "hard_link", "special_files", "trace", "passwords", "tcp_connect"]),
    // seccomp: the kernel's surface, sockets, modes and times. Files stay closed; what takes a capability stays
    // without one, and who has an unmapped user namespace makes no other.
    case(&[Filter], &["memory_program", "watches", "own_modes", "own_times", "pair", "hidden_flags", "own_filter",
           "core_lowered", "pipe_size"],
         &["absolute", "change", "hard_link", "special_files", "trace", "signal_stranger", "namespaces", "raw", "segments",
           "take_away", "host_name"]),
    case(&[Rules, Filter], &["special_files"], &["hard_link", "trace", "signal_stranger", "raw"]),
    case(&[Rules, Filter, View], &["hard_link"], &["trace", "signal_stranger", "raw"]),
    case(&[OwnUsers, Filter], &["namespaces"], &[]),
    // The PID namespace: Landlock's scope holds signals too.
    case(&[Processes], &[], &["trace", "signal_stranger"]),
    case(&[Processes, Rules], &["signal_stranger"], &["trace"]),
    // Who is in a user namespace of its own traces nobody outside of it.
    case(&[Processes, Rules, Filter], &["signal_stranger"], &["trace"]),
    case(&[Identity, Capabilities, Locked, Processes, Rules, Filter], &["trace"], &[]),
    // The network namespace: without a socket there is nobody to send to.
    case(&[Network], &[], &["udp_send", "tcp_connect"]),
    // Who is granted a `/proc`.
    case(&[OwnProc], &["kernel_words"], &["own_memory"]),
    case(&[SharedMemory], &[], &["segments"]),
    case(&[SharedMemory, Filter], &["segments"], &[]),
    // Where the host has this process, which no tool can read: `/proc` is not granted.
    case(&[ControlGroups], &[], &["own_group"]),
    // Who is root, without a capability: the view and Landlock close root's files.
    case(&[Identity], &[], &["passwords", "new_root"]),
    case(&[Identity, Rules, View], &["passwords"], &["new_root"]),
    // With all capabilities: the filter stops the calls that would use them, and those that are asked in the
    // namespaces of the host find them lacking in a second user namespace.
    case(&[Identity, Capabilities], &[], &["new_root", "whole_watches", "raw", "passwords", "take_away", "host_name"]),
    case(&[Identity, Capabilities, Filter], &["new_root", "whole_watches"], &["absolute", "raw", "take_away", "host_name"]),
    case(&[Identity, Capabilities, Filter, Rules], &[], &["take_away"]),
    case(&[Identity, Capabilities, Filter, Locked], &["raw"], &["absolute", "take_away"]),
    case(&[Identity, Capabilities, Filter, Locked, Rules], &["take_away"], &[]),
    // A file that lends root's rights: the view, the call's user namespace and no_new_privs, which Landlock and the
    // filter cannot do without, each make nothing of it.
    case(&[View, Rules, Filter, OwnUsers], &[], &["run_lent"]),
    case(&[SuId, View, Rules, Filter, OwnUsers], &["run_lent"], &[]),
    case(&[Resources], &["memory", "forks", "threads", "open_files", "sparse", "core_lowered"], &[]),
    // A file that is open already is nothing that Landlock looks at; a folder is.
    case(&[Descriptors], &["descriptors"], &["folder_descriptors"]),
    case(&[Descriptors, Rules], &["folder_descriptors"], &[]),
    case(&[Environment], &["environment"], &[]),
];

/// Attempts that are made with a `/proc` granted to be read.
const IN_PROC: [&str; 2] = ["kernel_words", "own_memory"];

/// Steps of one attempt that got as far as the network: a socket, and then somebody who is there.
const REACHES: [(&[Layer], u64); 3] =
    [(&[Filter, Rules], 1), (&[Network, Filter, Rules], 2), (&[Network, Rules], 0)];

/// Layers that are shown by what comes of it outside: the host's name, a program's end, its output. Of a group and of
/// what is added to folders `limits.rs` tells.
const BESIDE: [Layer; 6] = [HostName, ControlGroups, Init, Clock, Group, Added];

const SOURCES: [(&str, &str); 8] = [
    ("taken.h", include_str!("../../../tests/it/attempts/taken/taken.h")),
    ("main.c", include_str!("../../../tests/it/attempts/taken/main.c")),
    ("files.c", include_str!("../../../tests/it/attempts/taken/files.c")),
    ("box.c", include_str!("../../../tests/it/attempts/taken/box.c")),
    ("outward.c", include_str!("../../../tests/it/attempts/taken/outward.c")),
    ("network.c", include_str!("../../../tests/it/attempts/taken/network.c")),
    ("kernel.c", include_str!("../../../tests/it/attempts/taken/kernel.c")),
    ("bounds.c", include_str!("../../../tests/it/attempts/taken/bounds.c")),
];

pub(super) fn no_layer_is_decoration() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    if is_root() {
        // The name that is changed below is this process's alone.
        sys::unshare(CloneFlags::CLONE_NEWUTS).expect("a UTS namespace");
    }
    let Some(stage) = LayerStage::make(port) else { return };
    let lends = stage.lends();
    // What scopes signals is Landlock's from its sixth version on.
    let scopes = sys::landlock_abi().is_some_and(|abi| abi >= 6);
    let keeps_core = rustix::process::getrlimit(rustix::process::Resource::Core).maximum != Some(0);
    let (mut told, mut with_all) = (Outcomes::default(), BTreeMap::new());
    for case in CASES {
        if !is_root() && case.off.iter().any(|off| [Identity, SuId].contains(off)) {
            continue;
        }
        if case.off.contains(&SuId) && !lends {
            println!("\nSKIPPED: no file lends rights where the tests are: {:?}\n", case.off);
            continue;
        }
        for (names, goes) in [(case.through, true), (case.held, false)] {
            let can = |name: &str| match name {
                "signal_stranger" => scopes,
                "core_lowered" => keeps_core,
                _ => true,
            };
            for name in names.iter().filter(|name| can(name)) {
                // With every layer on it is held, or it would tell nothing of the one that is off.
                let before = with_all.entry(*name).or_insert_with(|| stage.attempt(&[], name)).clone();
                let line = stage.attempt(case.off, name);
                let is_through = line["outcome"] == "SUCCEEDED";
                if before["outcome"] != "held" {
                    told.wrong.push(format!("with all {name}: {before}"));
                }
                told.tell(case.off, name, is_through, goes, &line);
            }
        }
    }
    for (off, steps) in REACHES {
        let line = stage.attempt(off, "tcp_connect");
        let what = format!("tcp_connect, {} of 2 steps", line["through"]);
        told.tell(off, &what, line["through"] != 0, steps > 0, &line);
        assert_eq!(line["through"], steps, "without {off:?}");
    }
    beside(&stage, &mut told);
    assert!(told.wrong.is_empty(), "{}", told.wrong.join("\n"));
    told.compare();
}

/// What is shown by what comes of it outside.
fn beside(stage: &LayerStage, told: &mut Outcomes) {
    if is_root() {
        let name = || rustix::system::uname().nodename().to_owned();
        for (more, goes) in [(&[][..], false), (&[HostName][..], true)] {
            let off = [&[Identity, Capabilities, Filter, Locked], more].concat();
            let before = name();
            let line = stage.attempt(&off, "host_name");
            told.tell(&off, "the host is renamed", name() != before, goes, &line);
        }
    }
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("groups");
    if own.lines().all(|line| line.ends_with(":/")) {
        println!("\nSKIPPED: the tests are in no control group of their own: nothing could be told of it\n");
    } else {
        // That it can be read is not enough: without its namespace it says where on the host.
        for (off, goes) in [(&[Rules][..], false), (&[Rules, ControlGroups][..], true)] {
            let line = stage.attempt(off, "own_group");
            told.tell(off, "own_group", line["outcome"] == "SUCCEEDED", goes, &line);
        }
    }
    // The first process of a namespace is not ended by a signal of its own, and nobody reads here what it writes.
    let (code, _) = stage.end(&[], "killed");
    told.tell(&[Init], "goes on behind its own KILL", code == Some(64), true, &json!(code));
    let (_, bytes) = stage.end(&[Filter], "flood");
    let is_over = bytes > LayerStage::LIMITS.output_bytes_max as u64;
    told.tell(&[Clock], "writes more than its cap", is_over, true, &json!(bytes));
    stage.are_ended_by_the_launcher();
}

/// What came of it, a line for what is off.
#[derive(Default)]
struct Outcomes {
    lines: Vec<(Vec<Layer>, Vec<String>, Vec<String>)>,
    wrong: Vec<String>,
}

impl Outcomes {
    fn tell(&mut self, off: &[Layer], what: &str, is_through: bool, goes: bool, line: &Value) {
        println!("without {off:?}: {what}: {line}");
        if is_through != goes {
            self.wrong.push(format!("without {off:?} {what}: {line}"));
        }
        if self.lines.last().is_none_or(|(last, ..)| last != off) {
            self.lines.push((off.to_vec(), Vec::new(), Vec::new()));
        }
        if let Some((_, through, held)) = self.lines.last_mut() {
            if is_through { through } else { held }.push(what.to_owned());
        }
    }

    /// Every layer that a record or the table of protections names has a line in which something goes through, and
    /// does not with that layer on.
    fn compare(&self) {
        let mut all = String::new();
        for (off, through, held) in &self.lines {
            let names: Vec<&str> = off.iter().map(|layer| layer.name()).collect();
            writeln!(all, "without {}", names.join(", ")).expect("a line");
            for (what, list) in [("through", through), ("held", held)] {
                if !list.is_empty() {
                    writeln!(all, "    {what:<8} {}", list.join(", ")).expect("a line");
                }
            }
        }
        let golden = include_str!("../../../tests/it/golden/layers-off.txt");
        let lines: BTreeSet<&str> = golden.lines().collect();
        let other = all.lines().find(|line| !lines.contains(line));
        assert!(other.is_none(), "tests/it/golden/layers-off.txt has no `{other:?}`:\n{all}");
        assert!(!is_root() || all == golden, "tests/it/golden/layers-off.txt is not:\n{all}");
    }
}

/// Every layer has its case: those of the table of protections, and those that calls here are told to have had.
pub(super) fn every_layer_has_its_case() {
    let has_case = |layer: Layer| {
        let shown = CASES.iter().filter(|case| !case.through.is_empty()).flat_map(|case| case.off);
        let reached = REACHES.iter().filter(|(_, steps)| *steps > 0).flat_map(|(off, _)| off.iter());
        shown.chain(reached).chain(&BESIDE).any(|shown| *shown == layer)
    };
    for layer in protection::named() {
        assert!(has_case(Layer::of(layer)), "{layer:?}");
    }
    for (layer, name) in NAMES {
        assert!(has_case(layer), "{name}");
    }
    let world = World::new();
    world.program("says", &["/usr/bin/true"]);
    let says = std::fs::read_to_string(world.spec.tools_dir.join("says.toml")).expect("written");
    let sees = says.replace("\"says\"", "\"sees\"").replace("[sandbox]", "[sandbox]\nproc = \"self\"");
    world.tool("sees", &sees);
    world.with(|stage| async move {
        for tool in ["health_check", "says", "sees"] {
            let ended = stage.call(tool, json!({})).await;
            assert_eq!(ended.end, End::Exit { code: 0 });
            for name in &ended.layers {
                assert!(has_case(Layer::named(name)), "{name}");
            }
        }
    });
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program, a folder for it, and a process that is none of its own.
struct LayerStage {
    world: World,
    program: PathBuf,
    stranger: std::process::Child,
}

impl Drop for LayerStage {
    fn drop(&mut self) {
        self.stranger.kill().expect("killed");
        self.stranger.wait().expect("ended");
    }
}

impl LayerStage {
    const LIMITS: Limits = Limits {
        wall_ms_max: 20_000,
        output_bytes_max: 65_536,
        memory_bytes_max: 64 << 20,
        processes_max: 16,
        file_bytes_max: 16 << 20,
        network_bytes_max: 0,
        written_bytes_max: 0,
        written_files_max: 0,
    };

    fn make(port: u16) -> Option<Self> {
        let world = World::new();
        let (outside, folder) = (world.path("outside"), world.path("workspace").join("box"));
        std::fs::create_dir(&folder).expect("made");
        let is_root = is_root();
        for (path, mode) in [(&outside, 0o777), (&folder, 0o777)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode");
        }
        let program = build(&world, port)?;
        let mut stranger = Command::new(&program);
        stranger.arg("share").stdin(Stdio::null()).stdout(Stdio::piped());
        if is_root {
            stranger.uid(ORDINARY).gid(ORDINARY);
        }
        let mut stranger = stranger.spawn().expect("the program starts");
        let mut line = String::new();
        let says = stranger.stdout.take().expect("its output");
        BufReader::new(says).read_line(&mut line).expect("a line");
        assert_eq!(line, "shares\n");
        Some(Self { world, program, stranger })
    }

    /// Whether a file here lends its owner's rights at all.
    fn lends(&self) -> bool {
        use rustix::fs::{StatVfsMountFlags, statvfs};
        !statvfs(&self.program).expect("a mount").f_flag.contains(StatVfsMountFlags::NOSUID)
    }

    /// The same programs in a launcher's hands.
    fn are_ended_by_the_launcher(&self) {
        for what in ["killed", "flood"] {
            self.world.program(what, &[self.program.to_str().expect("UTF-8"), what]);
        }
        self.world.with(|stage| async move {
            assert_eq!(stage.call("killed", json!({})).await.end, End::Signal { signal: 9 });
            assert_eq!(stage.call("flood", json!({})).await.end, End::OutputCap);
        });
    }

    /// Everything as it was before any attempt.
    fn plant(&self) {
        let (outside, folder) = (self.world.path("outside"), self.world.path("workspace").join("box"));
        for at in [&outside, &folder] {
            for left in std::fs::read_dir(at).expect("a folder") {
                let left = left.expect("an entry").path();
                let gone = std::fs::remove_file(&left).or_else(|_| std::fs::remove_dir(&left));
                gone.expect("removed");
            }
        }
        for name in ["secret", "lure", "gone", "moved"] {
            std::fs::write(outside.join(name), name).expect("written");
            std::fs::set_permissions(outside.join(name), PermissionsExt::from_mode(0o666)).expect("mode");
        }
        for (name, mode) in [("program", 0o755), ("lender", 0o6755)] {
            std::fs::copy(&self.program, folder.join(name)).expect("copied");
            std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(mode)).expect("mode");
        }
        let owner = is_root().then_some(ORDINARY);
        for name in ["inside", "leaving"] {
            std::fs::write(folder.join(name), name).expect("written");
            chown(folder.join(name), owner, owner).expect("owner");
        }
    }

    /// What the program says of the attempt `name`, without the layers `off`.
    fn attempt(&self, off: &[Layer], name: &str) -> Value {
        let _ended = self.end(off, name);
        let text = std::fs::read_to_string(self.world.path("told")).expect("read");
        let line = text.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{off:?} {name}: {e}: {text}"))
    }

    /// How the program ends that is told `what`, and how much it has written.
    fn end(&self, off: &[Layer], what: &str) -> (Option<i32>, u64) {
        self.plant();
        let told = self.world.path("told");
        let out = OwnedFd::from(std::fs::File::create(&told).expect("made"));
        let code = wait_for(|| self.first_stage(off, what, &out), CloneFlags::empty(), &out);
        (code, std::fs::metadata(&told).expect("written").len())
    }

    /// The launcher's first stage, minus what is off: namespaces, and maps for the second.
    fn first_stage(&self, off: &[Layer], what: &str, out: &OwnedFd) -> Result<i32, String> {
        let has = |layer| !off.contains(&layer);
        let proc = files::open_path("/proc").map_err(|e| e.to_string())?;
        if !is_root() {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            sys::unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| e.to_string())?;
            let maps = [
                ("setgroups", "deny".to_owned()),
                ("uid_map", format!("{uid} {uid} 1")),
                ("gid_map", format!("{gid} {gid} 1")),
            ];
            for (name, text) in maps {
                std::fs::write(format!("/proc/self/{name}"), text).map_err(|e| e.to_string())?;
            }
        }
        let mut all = CloneFlags::empty();
        for (layer, flag) in [
            (Processes, CloneFlags::CLONE_NEWPID),
            (Network, CloneFlags::CLONE_NEWNET),
            (SharedMemory, CloneFlags::CLONE_NEWIPC),
            (HostName, CloneFlags::CLONE_NEWUTS),
            (ControlGroups, CloneFlags::CLONE_NEWCGROUP),
        ] {
            all.set(flag, has(layer));
        }
        sys::unshare(all).map_err(|e| e.to_string())?;
        let (first, second) = namespaces::stages()?;
        let sys::Fork::Parent(child) = sys::fork(&one()).map_err(|e| e.to_string())? else {
            drop(first);
            let code = self.second_stage(off, what, out, &proc, second);
            sys::exit_now(told(code, out))
        };
        drop(second);
        first.attend(&proc);
        code_of(&child)
    }

    /// The second: the view, locked, and the child of the call.
    fn second_stage(
        &self,
        off: &[Layer],
        what: &str,
        out: &OwnedFd,
        proc: &OwnedFd,
        second: SecondStage,
    ) -> Result<i32, String> {
        let has = |layer| !off.contains(&layer);
        let own = rustix::fs::readlinkat(proc, "self", Vec::new()).map_err(|e| e.to_string())?;
        let pid = own.to_str().ok().and_then(|pid| pid.parse().ok()).ok_or("no number")?;
        if has(View) {
            let folder = self.world.path("workspace").join("box");
            let null = Path::new("/dev/null");
            let named = [
                (self.program.as_path(), MountUse::Execute),
                (&folder, MountUse::Write),
                (null, MountUse::Device),
            ];
            root::enter(&Plan::of(named), is_root()).map_err(|e| format!("{e:?}"))?;
        }
        if has(Locked) {
            second.lock_mounts(pid)??;
        }
        let mut per_call = CloneFlags::empty();
        per_call.set(CloneFlags::CLONE_NEWPID, has(Processes));
        per_call.set(CloneFlags::CLONE_NEWUSER, has(OwnUsers) && !is_root());
        per_call.set(CloneFlags::CLONE_NEWNS, has(OwnProc) && IN_PROC.contains(&what));
        let run = || self.become_program(off, what, out).map(|()| 0);
        Ok(wait_for(run, per_call, out).unwrap_or(-1))
    }

    /// The steps of `child` and `init`, in their order.
    fn become_program(&self, off: &[Layer], name: &str, out: &OwnedFd) -> Result<(), String> {
        let has = |layer| !off.contains(&layer);
        let is_root = is_root();
        nix::unistd::dup2_stdout(out).map_err(|e| e.to_string())?;
        let folder = self.world.path("workspace").join("box");
        rustix::process::chdir(&folder).map_err(|e| e.to_string())?;
        let in_proc = IN_PROC.contains(&name);
        if in_proc && has(OwnProc) {
            own_proc::mount_here().map_err(|e| e.to_string())?;
        }
        if is_root && has(Identity) {
            become_user(ORDINARY);
            if has(OwnUsers) {
                sys::unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| e.to_string())?;
            }
        }
        if has(Capabilities) {
            // As in the product: who has a way to no capability has none to lock.
            if has(OwnUsers) || (is_root && !has(Identity)) {
                layers::lock_secure_bits().or_else(|e| if is_root { Err(e) } else { Ok(()) })?;
            }
            layers::keep_capabilities(rustix::thread::CapabilitySet::empty())?;
        }
        if has(SuId) {
            rustix::thread::set_no_new_privs(true).map_err(|e| e.to_string())?;
        }
        let open = |path: &Path| files::open_path(path).map_err(|e| e.to_string());
        let (program, folder, proc) = (open(&self.program)?, open(&folder)?, open(Path::new("/proc"))?);
        let landlock = Landlock::probe(None)?;
        if has(Rules) {
            let run = PathRule { at: program.as_fd(), rights: AccessFs::Execute | AccessFs::ReadFile };
            let write = PathRule { at: folder.as_fd(), rights: landlock.work_rights() };
            let read = PathRule { at: proc.as_fd(), rights: AccessFs::ReadFile | AccessFs::ReadDir };
            let read = in_proc.then_some(read);
            let all: Vec<PathRule<'_>> = [run, write].into_iter().chain(read).collect();
            layers::restrict(landlock.ruleset(&all)?)?;
        }
        if has(Descriptors) {
            sys::close_all_but(&[0, 1, 2]).map_err(|e| e.to_string())?;
        } else {
            for fd in [out, &folder] {
                rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).map_err(|e| e.to_string())?;
            }
        }
        if has(Resources) {
            // Where the hard limit is 0 nothing is tried of it.
            let _missing = layers::limit_core(None);
            layers::limit_resources(&Self::LIMITS, 0, 16)?;
        }
        let word = |text: &str| CString::new(text).map_err(|e| e.to_string());
        let path = word(&self.program.to_string_lossy())?;
        let words = [path.clone(), word(name)?, word(&self.stranger.id().to_string())?];
        let environment = if has(Environment) { word("LANG=C.UTF-8")? } else { word("TOKEN=x")? };
        if has(Filter) {
            load(&of_program(Does { writes: true, ..Does::default() }))?;
        }
        nix::unistd::execve(&path, &words, &[environment]).map(drop).map_err(|e| format!("exec: {e}"))
    }
}

/// Has `run` done by a child in `namespaces`, and waits for it; where it comes back with a reason, that is its output,
/// for whoever looks for the fault.
fn wait_for(run: impl FnOnce() -> Result<i32, String>, namespaces: CloneFlags, out: &OwnedFd) -> Option<i32> {
    let Some(child) = sys::clone_call(&one(), namespaces).expect("a child") else {
        sys::exit_now(told(run(), out));
    };
    code_of(&child).ok()
}

fn told(code: Result<i32, String>, out: &OwnedFd) -> u8 {
    let code = code.unwrap_or_else(|reason| {
        let _told = rustix::io::write(out, reason.as_bytes());
        125
    });
    u8::try_from(code).unwrap_or(125)
}

fn code_of(child: &OwnedFd) -> Result<i32, String> {
    let end = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).map_err(|e| e.to_string())?;
    end.and_then(|end| end.exit_status()).ok_or_else(|| "ended by a signal".to_owned())
}

/// Builds the program, static; `None`, with a word, where there is no compiler.
fn build(world: &World, port: u16) -> Option<PathBuf> {
    for (name, source) in SOURCES {
        world.write(name, source.as_bytes());
    }
    let places = BTreeMap::from([
        ("OUTSIDE", world.path("outside")),
        ("BOX", world.path("workspace").join("box")),
        ("ETC", world.path("tools.d")),
        ("DATA", world.path("tools.d")),
        ("HIDDEN", PathBuf::from("par-layer-off")),
    ]);
    let mut cc = Command::new("cc");
    cc.current_dir(world.path("")).args(["-O1", "-w", "-static", "-o", "taken"]);
    cc.args(places.iter().map(|(name, path)| format!("-D{name}=\"{}\"", path.display())));
    cc.arg(format!("-DPORT={port}"));
    cc.args(SOURCES.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".c"))).arg("-lpthread");
    match cc.status() {
        Ok(status) => {
            assert!(status.success(), "cc");
            Some(world.path("taken"))
        }
        Err(_) => {
            println!("skipped: no C compiler");
            None
        }
    }
}
