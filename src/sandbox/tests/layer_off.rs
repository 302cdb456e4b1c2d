//! Each layer switched off alone, or with the second one that holds the same: some attempt goes through then, so
//! that none of them is decoration. The child here is made of the same steps as a call's, minus those.

use super::super::layers::{self, Grant, Landlock};
use super::super::{host, seccomp, sys, writes};
use super::{ORDINARY, World, become_user};
use crate::tools::Limits;
use Layer::{Capabilities, Descriptors, Environment, Filter, Identity, Network, Processes, Resources, Rules};
use landlock::AccessFs;
use nix::sched::CloneFlags;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Landlock.
    Rules,
    /// The last seccomp filter.
    Filter,
    /// The PID namespace.
    Processes,
    /// The network namespace.
    Network,
    /// The uid of tools, where the tests run as root.
    Identity,
    /// No capability, where the tests run as root.
    Capabilities,
    /// The rlimits.
    Resources,
    /// That every other descriptor is closed.
    Descriptors,
    /// That the environment is made from nothing.
    Environment,
}

/// Without `off`: what goes through, and what another layer still holds.
struct Case {
    off: &'static [Layer],
    through: &'static [&'static str],
    held: &'static [&'static str],
}

const fn case(
    off: &'static [Layer],
    through: &'static [&'static str],
    held: &'static [&'static str],
) -> Case {
    Case { off, through, held }
}

/// The table. Layers that hold the same are switched off one by one, and then together.
#[rustfmt::skip]
const CASES: &[Case] = &[
    // Landlock: files. Modes, links and what is deep in the kernel are the filter's; root's files also the uid's.
    case(&[Rules], &["absolute", "list", "change", "own_proc", "proc_words", "run_other", "run_own", "move_out", "devices"],
         &["modes", "hard_link", "special_files", "trace", "passwords", "tcp_connect"]),
    // seccomp: the kernel's surface, sockets, modes and times. Files stay closed; what takes a capability stays
    // without one, and who has an unmapped user namespace makes no other.
    case(&[Filter], &["memory_program", "watches", "own_modes", "own_times", "pair", "hidden_flags", "own_filter"],
         &["absolute", "change", "hard_link", "special_files", "trace", "signal_stranger", "namespaces", "raw"]),
    case(&[Rules, Filter], &["hard_link", "special_files"], &["trace", "signal_stranger", "raw"]),
    // The PID namespace: Landlock's scope holds signals too.
    case(&[Processes], &[], &["trace", "signal_stranger"]),
    case(&[Processes, Rules], &["signal_stranger"], &["trace"]),
    // Who is in a user namespace of its own traces nobody outside of it.
    case(&[Processes, Rules, Filter], &["signal_stranger"], &["trace"]),
    case(&[Identity, Capabilities, Processes, Rules, Filter], &["trace"], &[]),
    // The network namespace: without a socket there is nobody to send to.
    case(&[Network], &[], &["udp_send", "tcp_connect"]),
    // Who is root, without a capability: Landlock closes root's files.
    case(&[Identity], &[], &["passwords", "new_root"]),
    case(&[Identity, Rules], &["passwords"], &["new_root"]),
    // With all capabilities: the filter stops the calls that would use them.
    case(&[Identity, Capabilities], &[], &["new_root", "whole_watches", "raw", "passwords"]),
    case(&[Identity, Capabilities, Filter], &["new_root", "whole_watches", "raw"], &["absolute"]),
    case(&[Resources], &["memory", "forks", "threads", "open_files", "sparse"], &[]),
    // A file that is open already is nothing that Landlock looks at; a folder is.
    case(&[Descriptors], &["descriptors"], &["folder_descriptors"]),
    case(&[Descriptors, Rules], &["folder_descriptors"], &[]),
    case(&[Environment], &["environment"], &[]),
];

/// Steps of one attempt that got as far as the network: a socket, and then somebody who is there.
const REACHES: [(&[Layer], u64); 3] =
    [(&[Filter, Rules], 1), (&[Network, Filter, Rules], 2), (&[Network, Rules], 0)];

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
    let Some(stage) = Stage::make(port) else { return };
    let is_root = rustix::process::geteuid().is_root();
    // What scopes signals is Landlock's from its sixth version on.
    let scopes = sys::landlock_abi().is_some_and(|abi| abi >= 6);
    let mut wrong = Vec::new();
    for case in CASES.iter().filter(|case| is_root || !case.off.contains(&Identity)) {
        for (names, goes) in [(case.through, true), (case.held, false)] {
            for name in names.iter().filter(|name| scopes || **name != "signal_stranger") {
                // With every layer on it is held, or it would tell nothing of the one that is off.
                let before = stage.attempt(&[], name);
                let line = stage.attempt(case.off, name);
                println!("without {:?}: {line}", case.off);
                if (line["outcome"] == "SUCCEEDED") != goes || before["outcome"] != "held" {
                    wrong.push(format!("without {:?} {name}: {line}; with all: {before}", case.off));
                }
            }
        }
    }
    for (off, steps) in REACHES {
        let line = stage.attempt(off, "tcp_connect");
        if line["through"] != steps {
            wrong.push(format!("without {off:?}, not {steps}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The program, a folder for it, and a process that is none of its own.
struct Stage {
    world: World,
    program: PathBuf,
    stranger: std::process::Child,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stranger.kill().expect("killed");
        self.stranger.wait().expect("ended");
    }
}

impl Stage {
    fn make(port: u16) -> Option<Self> {
        let world = World::new();
        let (outside, folder) = (world.path("outside"), world.path("workspace").join("box"));
        std::fs::create_dir(&folder).expect("made");
        let is_root = rustix::process::geteuid().is_root();
        for (path, mode) in [(&outside, 0o777), (&folder, 0o777)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode");
        }
        let program = build(&world, port)?;
        let mut stranger = Command::new(&program);
        stranger.arg("sleep").stdin(std::process::Stdio::null());
        if is_root {
            stranger.uid(ORDINARY).gid(ORDINARY);
        }
        let stranger = stranger.spawn().expect("the program starts");
        Some(Self { world, program, stranger })
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
        std::fs::copy(&self.program, folder.join("program")).expect("copied");
        let owner = rustix::process::geteuid().is_root().then_some(ORDINARY);
        for name in ["inside", "leaving"] {
            std::fs::write(folder.join(name), name).expect("written");
            chown(folder.join(name), owner, owner).expect("owner");
        }
    }

    /// What the program says of the attempt `name`, without the layers `off`.
    fn attempt(&self, off: &[Layer], name: &str) -> Value {
        self.plant();
        let told = self.world.path("told");
        let out = OwnedFd::from(std::fs::File::create(&told).expect("made"));
        let mut namespaces = CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
        namespaces.set(CloneFlags::CLONE_NEWUSER, !rustix::process::geteuid().is_root());
        namespaces.set(CloneFlags::CLONE_NEWPID, !off.contains(&Processes));
        namespaces.set(CloneFlags::CLONE_NEWNET, !off.contains(&Network));
        let Some(child) = sys::clone_call(namespaces).expect("a child") else {
            let reason = self.become_program(off, name, &out).expect_err("it does not come back");
            // For whoever looks for the fault: there is no other line then.
            let _told = rustix::io::write(&out, reason.as_bytes());
            sys::exit_now(125);
        };
        waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).expect("waited");
        let text = std::fs::read_to_string(&told).expect("read");
        let line = text.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{off:?} {name}: {e}: {text}"))
    }

    /// The steps of `child` and `init`, in their order.
    fn become_program(&self, off: &[Layer], name: &str, out: &OwnedFd) -> Result<(), String> {
        let has = |layer| !off.contains(&layer);
        let is_root = rustix::process::geteuid().is_root();
        nix::unistd::dup2_stdout(out).map_err(|e| e.to_string())?;
        let folder = self.world.path("workspace").join("box");
        rustix::process::chdir(&folder).map_err(|e| e.to_string())?;
        if is_root && has(Identity) {
            become_user(ORDINARY);
            sys::unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| e.to_string())?;
        }
        if has(Capabilities) {
            layers::lock_secure_bits().or_else(|e| if is_root { Err(e) } else { Ok(()) })?;
            layers::keep_capabilities(rustix::thread::CapabilitySet::empty())?;
        }
        rustix::thread::set_no_new_privs(true).map_err(|e| e.to_string())?;
        let open = |path: &Path| host::open_path(path).map_err(|e| e.to_string());
        let (program, folder) = (open(&self.program)?, open(&folder)?);
        let landlock = Landlock::probe(None)?;
        if has(Rules) {
            let run = Grant { at: program.as_fd(), rights: AccessFs::Execute | AccessFs::ReadFile };
            let write = Grant { at: folder.as_fd(), rights: writes::rights(landlock) };
            layers::restrict(landlock.ruleset(&[run, write])?)?;
        }
        if has(Descriptors) {
            sys::close_all_but(&[0, 1, 2]).map_err(|e| e.to_string())?;
        } else {
            for fd in [out, &folder] {
                rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).map_err(|e| e.to_string())?;
            }
        }
        if has(Resources) {
            let limits = Limits {
                wall_ms_max: 20_000,
                output_bytes_max: 65_536,
                memory_bytes_max: 64 << 20,
                processes_max: 16,
                file_bytes_max: 16 << 20,
                written_bytes_max: 0,
                written_files_max: 0,
            };
            layers::limit_resources(&limits, 0, 16)?;
        }
        let word = |text: &str| CString::new(text).map_err(|e| e.to_string());
        let path = word(&self.program.to_string_lossy())?;
        let words = [path.clone(), word(name)?, word(&self.stranger.id().to_string())?];
        let environment = if has(Environment) { word("LANG=C.UTF-8")? } else { word("TOKEN=x")? };
        if has(Filter) {
            seccomp::load(&seccomp::writer())?;
        }
        nix::unistd::execve(&path, &words, &[environment]).map(drop).map_err(|e| format!("exec: {e}"))
    }
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
