//! A child that goes through the same steps as a call's, minus the layers that are off.

use super::super::view::one;
use super::super::{ORDINARY, World, become_user};
use super::table::IN_PROC;
use super::table::Layer::{
    self, Capabilities, ControlGroups, Descriptors, Environment, Filter, HostName, Identity, Locked, Network,
    OwnProc, OwnUsers, Processes, Resources, Rules, SharedMemory, SuId, View,
};
use crate::call::End;
use crate::launcher::confine::layers::{self, Landlock, PathRule};
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::confine::seccomp::filters::{Does, of_program};
use crate::launcher::sys;
use crate::launcher::view::namespaces::{self, SecondStage};
use crate::launcher::view::root::{self, MountUse, Plan};
use crate::launcher::view::{files, own_proc};
use crate::tools::Limits;
use landlock::AccessFs;
use nix::sched::CloneFlags;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCES: [(&str, &str); 8] = [
    ("taken.h", include_str!("../../../../tests/it/attempts/taken/taken.h")),
    ("main.c", include_str!("../../../../tests/it/attempts/taken/main.c")),
    ("files.c", include_str!("../../../../tests/it/attempts/taken/files.c")),
    ("box.c", include_str!("../../../../tests/it/attempts/taken/box.c")),
    ("outward.c", include_str!("../../../../tests/it/attempts/taken/outward.c")),
    ("network.c", include_str!("../../../../tests/it/attempts/taken/network.c")),
    ("kernel.c", include_str!("../../../../tests/it/attempts/taken/kernel.c")),
    ("bounds.c", include_str!("../../../../tests/it/attempts/taken/bounds.c")),
];

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program, a folder for it, and a process outside its call.
pub(super) struct LayerStage {
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
    pub(super) const LIMITS: Limits = Limits {
        wall_ms_max: 20_000,
        output_bytes_max: 65_536,
        memory_bytes_max: 64 << 20,
        processes_max: 16,
        file_bytes_max: 16 << 20,
        network_bytes_max: 0,
        written_bytes_max: 0,
        written_files_max: 0,
    };

    pub(super) fn make(port: u16) -> Option<Self> {
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
    pub(super) fn lends(&self) -> bool {
        use rustix::fs::{StatVfsMountFlags, statvfs};
        !statvfs(&self.program).expect("a mount").f_flag.contains(StatVfsMountFlags::NOSUID)
    }

    /// The same programs, started by a launcher.
    pub(super) fn are_ended_by_the_launcher(&self) {
        for what in ["killed", "flood"] {
            self.world.program(what, &[self.program.to_str().expect("UTF-8"), what]);
        }
        self.world.with(|stage| async move {
            assert_eq!(stage.call("killed", json!({})).await.end, End::Signal { signal: 9 });
            assert_eq!(stage.call("flood", json!({})).await.end, End::OutputCap);
        });
    }

    /// Restores the files to their state before any attempt.
    pub(super) fn plant(&self) {
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

    /// What the program reports of the attempt `name`, without the layers `off`.
    pub(super) fn attempt(&self, off: &[Layer], name: &str) -> Value {
        let _ended = self.end(off, name);
        let text = std::fs::read_to_string(self.world.path("told")).expect("read");
        let line = text.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{off:?} {name}: {e}: {text}"))
    }

    /// How the program ends when started with `what`, and how much it has written.
    pub(super) fn end(&self, off: &[Layer], what: &str) -> (Option<i32>, u64) {
        self.plant();
        let told = self.world.path("told");
        let out = OwnedFd::from(std::fs::File::create(&told).expect("made"));
        let code = wait_for(|| self.first_stage(off, what, &out), CloneFlags::empty(), &out);
        (code, std::fs::metadata(&told).expect("written").len())
    }

    /// The launcher's first stage, minus what is off: namespaces, and maps for the second stage.
    pub(super) fn first_stage(&self, off: &[Layer], what: &str, out: &OwnedFd) -> Result<i32, String> {
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

    /// The second stage: the view, locked, and the child of the call.
    pub(super) fn second_stage(
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
            root::enter(&Plan::new(named), is_root()).map_err(|e| format!("{e:?}"))?;
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
    pub(super) fn become_program(&self, off: &[Layer], name: &str, out: &OwnedFd) -> Result<(), String> {
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
            become_user(ORDINARY, &[]);
            if has(OwnUsers) {
                sys::unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| e.to_string())?;
            }
        }
        if has(Capabilities) {
            // As in the product: a process that cannot gain a capability has none to lock.
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
            // If the hard limit is 0, no attempt uses it.
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

/// Has a child in `namespaces` do `run`, and waits for it; if `run` returns an error, that becomes
/// its output, to help find the fault.
pub(super) fn wait_for(
    run: impl FnOnce() -> Result<i32, String>,
    namespaces: CloneFlags,
    out: &OwnedFd,
) -> Option<i32> {
    let Some(child) = sys::clone_call(&one(), namespaces).expect("a child") else {
        sys::exit_now(told(run(), out));
    };
    code_of(&child).ok()
}

pub(super) fn told(code: Result<i32, String>, out: &OwnedFd) -> u8 {
    let code = code.unwrap_or_else(|reason| {
        let _told = rustix::io::write(out, reason.as_bytes());
        125
    });
    u8::try_from(code).unwrap_or(125)
}

pub(super) fn code_of(child: &OwnedFd) -> Result<i32, String> {
    let end = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).map_err(|e| e.to_string())?;
    end.and_then(|end| end.exit_status()).ok_or_else(|| "ended by a signal".to_owned())
}

/// Builds the program, statically; `None`, with a message, without a compiler.
pub(super) fn build(world: &World, port: u16) -> Option<PathBuf> {
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
