//! What the launcher found out about this machine, and what it keeps open for every call.

use super::layers::{self, Landlock};
use super::{host, resolve, seccomp, sys};
use crate::tools::builtin::Host;
use landlock::{AccessFs, BitFlags};
use nix::sched::CloneFlags;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::CapabilitySet;
use seccompiler::BpfProgram;
use std::os::fd::{AsFd as _, OwnedFd};

/// Whom tools run as where the launcher is root and no user `par-tool` is there.
const NOBODY: (u32, u32) = (65_534, 65_534);
const TOOL_USER: &str = "par-tool";
/// What a dynamic program reads to start.
const LIBRARIES: &[&str] = &["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"];
/// Loaders by the names that programs have them under: the kernel executes these too. Nothing else
/// among the libraries is to be executed, for there are programs in those folders.
const LOADERS: &[&str] = if cfg!(target_arch = "x86_64") {
    &["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"]
} else {
    &["/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"]
};

/// The machine as one launcher sees it. Built once, inherited by each child.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) landlock: Landlock,
    /// `/proc`, by `O_PATH`: for names of descriptors and for reopening them.
    pub(super) proc: OwnedFd,
    /// The host's figures.
    pub(super) host: Host,
    /// Loader and libraries, with the rights that a dynamic program needs on them.
    pub(super) libraries: Vec<(OwnedFd, BitFlags<AccessFs>)>,
    /// `/dev/null`, which scripts expect to be there.
    pub(super) null: OwnedFd,
    /// Uid and gid of tools, where the launcher may change them.
    pub(super) identity: Option<(u32, u32)>,
    /// The namespaces that each call gets of its own.
    pub(super) per_call: CloneFlags,
    /// Layers that the launcher's namespaces give every call.
    pub(super) inherited: Vec<String>,
    /// What this machine lacks.
    pub(super) missing: Vec<String>,
    pub(super) builtin_filter: BpfProgram,
    /// For builtins that read below a folder.
    pub(super) walker_filter: BpfProgram,
    pub(super) program_filter: BpfProgram,
    /// For programs with folders to change.
    pub(super) writer_filter: BpfProgram,
    /// Address space of the launcher, in bytes.
    pub(super) mapped_bytes: u64,
}

impl Machine {
    /// Opens what is kept of the host, then enters namespaces of the launcher's own. The next fork is
    /// the first process of its PID namespace. Not confined yet.
    pub(super) fn enter(user: Option<(u32, u32)>) -> Result<Self, String> {
        if user.is_some_and(|(uid, gid)| uid == 0 || gid == 0) {
            return Err("tools do not run as root".to_owned());
        }
        let landlock = Landlock::probe()?;
        // Without it no path could be resolved, and each would read as outside.
        resolve::probe()?;
        let proc = openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| format!("`/proc`: {e}"))?;
        let host = host::open_host()?;
        let libraries = open_libraries();
        let null = host::open_path("/dev/null").map_err(|e| format!("`/dev/null`: {e}"))?;
        let root = rustix::process::geteuid().is_root();
        let mut machine = Self {
            landlock,
            proc,
            host,
            libraries,
            null,
            identity: root.then(|| user.unwrap_or_else(tool_user)),
            per_call: CloneFlags::empty(),
            inherited: Vec::new(),
            missing: Vec::new(),
            builtin_filter: seccomp::builtin(),
            walker_filter: seccomp::walker(),
            program_filter: seccomp::program(),
            writer_filter: seccomp::writer(),
            mapped_bytes: 0,
        };
        match enter_namespaces(root) {
            Ok(()) => machine.own_namespaces(root),
            Err(reason) => machine.missing.push(format!("namespaces: {reason}")),
        }
        Ok(machine)
    }

    fn own_namespaces(&mut self, root: bool) {
        self.per_call = CloneFlags::CLONE_NEWPID;
        if !root {
            self.per_call |= CloneFlags::CLONE_NEWUSER;
        }
        let names = ["net namespace", "ipc namespace", "uts namespace", "cgroup namespace"];
        self.inherited = names.map(str::to_owned).to_vec();
    }

    /// Whether calls have a PID namespace and an empty network, which programs need.
    pub(super) fn has_namespaces(&self) -> bool {
        !self.per_call.is_empty()
    }

    /// The launcher's own last steps: capabilities down to what starting calls takes, no new
    /// privileges, not dumpable, the base filter; then a canary that must be refused.
    pub(super) fn confine(&mut self) -> Result<(), String> {
        self.mapped_bytes = host::mapped_bytes();
        if self.identity.is_some() {
            drop_bounding_set();
            layers::lock_secure_bits()?;
            let needed = CapabilitySet::SETUID
                | CapabilitySet::SETGID
                | CapabilitySet::SETPCAP
                | CapabilitySet::SYS_ADMIN
                | CapabilitySet::KILL;
            let held = rustix::thread::capabilities(None).map_err(|e| format!("capabilities: {e}"))?;
            layers::keep_capabilities(needed & held.permitted)?;
        } else {
            layers::keep_capabilities(CapabilitySet::empty())?;
        }
        rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(|e| format!("dumpable: {e}"))?;
        seccomp::load(&seccomp::base())?;
        self.test()
    }

    /// Starts a child that confines itself and tries what must be refused.
    fn test(&self) -> Result<(), String> {
        let Some(pidfd) = sys::clone_call(self.per_call).map_err(|e| format!("clone: {e}"))? else {
            sys::exit_now(self.canary());
        };
        let end =
            waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).map_err(|e| format!("wait: {e}"))?;
        match end.and_then(|end| end.exit_status()) {
            Some(0) => Ok(()),
            Some(1) => Err("landlock: cannot be enforced".to_owned()),
            Some(2) => Err("landlock: a folder that was not granted could be read".to_owned()),
            Some(3) => Err("seccomp: cannot be enforced".to_owned()),
            Some(4) => Err("seccomp: a socket was not refused".to_owned()),
            _ => Err("the self-test did not come to its end".to_owned()),
        }
    }

    fn canary(&self) -> u8 {
        if self.landlock.ruleset(&[]).and_then(layers::restrict).is_err() {
            return 1;
        }
        let read = openat(CWD, "/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        if read.err() != Some(rustix::io::Errno::ACCESS) {
            return 2;
        }
        if seccomp::load(&self.builtin_filter).is_err() {
            return 3;
        }
        if sys::try_socket() != Err(rustix::io::Errno::PERM) {
            return 4;
        }
        0
    }
}

/// New namespaces all at once: a launcher with half of them would have to be reasoned about.
fn enter_namespaces(root: bool) -> Result<(), String> {
    if !root {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        sys::unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| format!("user namespace: {e}"))?;
        write_map("/proc/self/setgroups", "deny")?;
        write_map("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
        write_map("/proc/self/gid_map", &format!("{gid} {gid} 1"))?;
    }
    let all = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    sys::unshare(all).map_err(|e| format!("pid, net, ipc, uts and cgroup namespace: {e}"))
}

fn write_map(path: &str, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("`{path}`: {e}"))
}

fn drop_bounding_set() {
    for capability in CapabilitySet::all().iter() {
        // One that this kernel does not know cannot be dropped and cannot be had.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
}

/// Whom tools run as, where the caller is root and they take another identity than its own: who is to
/// own the folders that they change.
#[must_use]
pub fn tool_owner() -> Option<(u32, u32)> {
    rustix::process::geteuid().is_root().then(tool_user)
}

/// Uid and gid of `par-tool` by `/etc/passwd`, else of nobody. Never root's.
fn tool_user() -> (u32, u32) {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    passwd
        .lines()
        .find_map(|line| {
            let mut fields = line.strip_prefix(TOOL_USER)?.strip_prefix(':')?.split(':').skip(1);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .filter(|(uid, gid)| *uid != 0 && *gid != 0)
        .unwrap_or(NOBODY)
}

fn open_libraries() -> Vec<(OwnedFd, BitFlags<AccessFs>)> {
    let mut out = Vec::new();
    for path in LIBRARIES {
        // One that is not there is no library; a link to another of the list is harmless.
        let Ok(fd) = host::open_path(*path) else { continue };
        let Ok(stat) = rustix::fs::fstat(&fd) else { continue };
        let rights = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::Directory => AccessFs::ReadFile | AccessFs::ReadDir,
            _ => AccessFs::ReadFile.into(),
        };
        out.push((fd, rights));
    }
    let loaders = LOADERS.iter().filter_map(|path| host::open_path(*path).ok());
    out.extend(loaders.map(|fd| (fd, AccessFs::Execute | AccessFs::ReadFile)));
    out
}
