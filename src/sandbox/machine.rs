//! What the launcher found out about this machine, and what it keeps open for every call.

use super::canary::{self, Outside};
use super::cgroup::{Groups, NO_GROUPS};
use super::layers::{self, Landlock};
use super::mounts::{self, Mount, Origins};
use super::namespaces::{self, SecondStage};
use super::protect::{Held, Layer, Runs};
use super::seccomp::Sockets;
use super::tree::HostTree;
use super::view::{self, NoView, Plan, Use, View};
use super::wire::Mounted;
use super::{forks, host, own_proc, resolve, seccomp, sys};
use crate::tools::builtin::Host;
use crate::tools::{Manifest, ProcView, Runner, Runtime};
use crate::types::Level;
use landlock::{AccessFs, BitFlags};
use nix::sched::CloneFlags;
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::{CapabilitySet, Gid, Uid};
use rustls::ClientConfig;
use seccompiler::BpfProgram;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Whom tools run as where the launcher is root and no user `par-tool` is there.
const NOBODY: (u32, u32) = (65_534, 65_534);
const TOOL_USER: &str = "par-tool";
/// What a dynamic program reads to start.
const LIBRARIES: &[&str] = &["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"];
/// What every program has of devices.
const NULL: &str = "/dev/null";
const RANDOM: &str = "/dev/urandom";
/// The `oom_score_adj` of calls' children: any of them goes before a service does.
const OOM_SCORE: &[u8] = b"1000";
/// Paths that most hosts have.
const USUAL: &[&str] =
    &["/etc/passwd", "/etc/group", "/root", "/boot", "/home", "/opt", "/mnt", "/var", "/sys"];
/// Loaders by the names that programs have them under: the kernel executes these too. Nothing else
/// among the libraries is to be executed, for there are programs in those folders.
const LOADERS: &[&str] = if cfg!(target_arch = "x86_64") {
    &["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"]
} else {
    &["/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"]
};

/// What is opened of the host before anything is entered, in the launcher's first stage.
#[derive(Debug)]
pub(super) struct Ground {
    landlock: Landlock,
    /// The host's `/proc`, by `O_PATH`.
    pub(super) proc: OwnedFd,
    tree: HostTree,
    host: Host,
    /// Uid and gid of tools, where the launcher may change them.
    identity: Option<(u32, u32)>,
    mounts: Vec<Mount>,
    outside: Option<Outside>,
    /// Groups of calls, or why there are none.
    groups: Result<Groups, String>,
    /// Why a crash would start a program outside.
    core: Result<(), String>,
    /// Why there are no namespaces.
    refused: Option<String>,
}

/// The machine as one launcher sees it. Built once, inherited by each child.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) landlock: Landlock,
    /// `/proc`, by `O_PATH`: for names of descriptors and for reopening them. The view's, where it has one.
    pub(super) proc: OwnedFd,
    /// For names that policies have.
    pub(super) tree: HostTree,
    /// Which mount of the host is shown where.
    pub(super) origins: Origins,
    /// The host's figures.
    pub(super) host: Host,
    /// Loader and libraries, with the rights that a dynamic program needs on them.
    pub(super) libraries: Vec<(OwnedFd, BitFlags<AccessFs>)>,
    /// `/dev/null`, which scripts expect to be there.
    pub(super) null: OwnedFd,
    /// `/dev/urandom`, which programs read where they do not ask the kernel by a call, such as git.
    pub(super) random: OwnedFd,
    /// By which children come before everybody else where the host runs out of memory. `None` where that cannot be said.
    oom: Option<Score>,
    /// Uid and gid of tools, where the launcher may change them.
    pub(super) identity: Option<(u32, u32)>,
    /// The namespaces that each call gets of its own.
    pub(super) per_call: CloneFlags,
    /// Layers that the launcher's namespaces give every call.
    pub(super) inherited: Vec<String>,
    /// What this machine lacks.
    pub(super) missing: Vec<String>,
    /// Whether it has a view of its own.
    pub(super) has_view: bool,
    /// Whether the limit of core dumps is what it is to be.
    pub(super) keeps_core: bool,
    /// Whether an init can count what its call starts.
    pub(super) counts_forks: bool,
    /// The nice value of programs.
    pub(super) program_nice: i32,
    /// Paths that hosts have, and no manifest names here.
    pub(super) unnamed: Vec<&'static str>,
    /// Groups of calls, until the launcher takes them.
    pub(super) groups: Option<Groups>,
    /// What of groups this machine, or this place on it, does not give.
    pub(super) groups_missing: Vec<String>,
    /// What each layer was seen to refuse.
    pub(super) held: Held,
    /// Whether some manifest wants a `/proc` of each call's own, and why this machine gives none where it does not.
    pub(super) own_proc: Option<Result<(), String>>,
    /// Mounts of the host that concern what manifests name.
    pub(super) mounted: Vec<Mounted>,
    /// This process's number as its host counts.
    pub(super) pid: u32,
    pub(super) builtin_filter: BpfProgram,
    /// For builtins that read below a folder.
    pub(super) walker_filter: BpfProgram,
    /// For the builtin that is connected.
    pub(super) fetcher_filter: BpfProgram,
    /// Sockets that calls are let make, as the manifests want them.
    pub(super) sockets: Sockets,
    /// Whom connections are believed; where a builtin makes any.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// Address space of the launcher, in bytes.
    pub(super) mapped_bytes: u64,
}

impl Ground {
    /// Opens what is kept of the host, then enters namespaces of the launcher's own. The next fork is
    /// the first process of its PID namespace. Not confined yet.
    ///
    /// `user` is whom tools run as, where this is root; no right of Landlock above `landlock_abi_max` is used.
    pub(super) fn enter(user: Option<(u32, u32)>, landlock_abi_max: Option<u32>) -> Result<Self, String> {
        if user.is_some_and(|(uid, gid)| uid == 0 || gid == 0) {
            return Err("tools do not run as root".to_owned());
        }
        let landlock = Landlock::probe(landlock_abi_max)?;
        // Without it no path could be resolved, and each would read as outside.
        resolve::probe()?;
        let proc = openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| format!("`/proc`: {e}"))?;
        let tree = HostTree::open()?;
        let host = host::open_host()?;
        // While there is a right to raise it.
        let core = layers::limit_core(host::core_pattern().as_deref());
        let mounts = mounts::table(&proc)?;
        let root = rustix::process::geteuid().is_root();
        let identity = root.then(|| user.unwrap_or_else(tool_user));
        let outside = Outside::listen();
        let mut groups = Groups::begin();
        let refused = namespaces::enter(root).err();
        if let Ok(groups) = &mut groups {
            groups.settle();
        }
        Ok(Self { landlock, proc, tree, host, identity, mounts, outside, groups, core, refused })
    }

    /// Whether tools run under another uid than the launcher.
    pub(super) fn changes_uids(&self) -> bool {
        self.identity.is_some()
    }
}

impl Machine {
    /// Enters a view that holds what `manifests` name, in the launcher's second stage, and opens what every call
    /// needs there. Not confined yet.
    ///
    /// What this kernel refuses is lacking, and said to be; an error is a machine that nobody can reason about.
    pub(super) fn settle<'m>(
        ground: Ground,
        manifests: impl Iterator<Item = &'m Manifest>,
        second: SecondStage,
    ) -> Result<Self, String> {
        let pid = own_pid(&ground.proc);
        let manifests: Vec<&Manifest> = manifests.collect();
        let sockets = Sockets {
            tcp: manifests.iter().any(|manifest| manifest.is_proxied()),
            unix: manifests.iter().any(|manifest| !manifest.connect.is_empty()),
        };
        let wants_proc = manifests.iter().any(|manifest| manifest.proc == ProcView::Own);
        let plan = plan(manifests.into_iter());
        let concerns = ground.mounts.iter().filter(|mount| plan.concerns(mount));
        let mounted = concerns.map(|m| Mounted { path: m.point.clone(), of: m.of.clone() }).collect();
        let mut machine = Self {
            landlock: ground.landlock,
            proc: ground.proc,
            tree: ground.tree,
            origins: Origins::default(),
            host: ground.host,
            libraries: Vec::new(),
            null: device(NULL)?,
            random: device(RANDOM)?,
            oom: None,
            identity: ground.identity,
            per_call: CloneFlags::empty(),
            inherited: Vec::new(),
            missing: Vec::new(),
            has_view: false,
            keeps_core: ground.core.is_ok(),
            counts_forks: false,
            program_nice: forks::program_nice(),
            unnamed: USUAL.iter().copied().filter(|path| !plan.has(Path::new(path))).collect(),
            groups: None,
            groups_missing: Vec::new(),
            held: Held::default(),
            own_proc: wants_proc.then(|| Err("there is no view".to_owned())),
            mounted,
            pid,
            builtin_filter: seccomp::builtin(),
            walker_filter: seccomp::walker(),
            fetcher_filter: seccomp::fetcher(),
            sockets,
            tls: None,
            mapped_bytes: 0,
        };
        machine.oom = Score::open(&machine.proc);
        machine.missing.extend(ground.core.err());
        let mut playground = None;
        match ground.refused {
            None => {
                machine.own_namespaces();
                playground = machine.own_view(&plan, ground.mounts, second)?;
            }
            Some(reason) => machine.missing.push(format!("namespaces: {reason}")),
        }
        (machine.null, machine.random) = (device(NULL)?, device(RANDOM)?);
        machine.try_counting_forks();
        if machine.oom.is_none() {
            machine.missing.push(
                "`oom_score_adj`: calls are killed no sooner than others for want of memory".to_owned(),
            );
        }
        machine.libraries = open_libraries();
        machine.mapped_bytes = host::mapped_bytes(&machine.proc);
        machine.held = canary::probe(&machine, playground.as_ref(), ground.outside.as_ref());
        machine.missing.extend(canary::no_user_namespace(&machine));
        machine.own_groups(ground.groups);
        Ok(machine)
    }

    fn own_groups(&mut self, groups: Result<Groups, String>) {
        match groups {
            Ok(mut groups) => {
                groups.prove();
                self.held.add(&[Runs::Builtin, Runs::Program], Layer::Cgroup, groups.protections());
                self.inherited.extend(groups.layers());
                self.groups_missing = groups.missing();
                self.groups = Some(groups);
            }
            Err(reason) => self.groups_missing = vec![format!("{reason}: {NO_GROUPS}")],
        }
    }

    /// Programs alone start processes, and there are none without namespaces.
    fn try_counting_forks(&mut self) {
        if self.has_namespaces() {
            match forks::probe(self.per_call, &self.host.loadavg) {
                Ok(()) => self.counts_forks = true,
                Err(reason) => self.missing.push(reason),
            }
        }
    }

    fn own_namespaces(&mut self) {
        self.per_call = CloneFlags::CLONE_NEWPID;
        if self.identity.is_none() {
            self.per_call |= CloneFlags::CLONE_NEWUSER;
        }
        let names = ["net namespace", "ipc namespace", "uts namespace", "cgroup namespace"];
        self.inherited = names.map(str::to_owned).to_vec();
    }

    /// The file system for canaries to write to, where there is a view.
    fn own_view(
        &mut self,
        plan: &Plan,
        host: Vec<Mount>,
        second: SecondStage,
    ) -> Result<Option<OwnedFd>, String> {
        let View { has_proc, ground } = match view::enter(plan, self.identity.is_some()) {
            Ok(view) => view,
            Err(NoView::Refused(reason)) => {
                self.missing.push(format!("mount view: {reason}"));
                return Ok(None);
            }
            Err(NoView::Lost(reason)) => return Err(format!("mount view: {reason}")),
        };
        self.inherited.push("mount view".to_owned());
        match second.lock_mounts(self.pid)? {
            Ok(()) => self.inherited.push("locked mounts".to_owned()),
            Err(reason) => self.missing.push(format!("locked mounts: {reason}")),
        }
        // Names are told as before, or nothing that is decided on could be found again.
        if !self.tree.is_named_plainly(&self.proc) {
            return Err("mount view: this process had a root that is not its mount namespace's".to_owned());
        }
        let table = mounts::table(&self.proc)?;
        self.origins = Origins::trace(host, &table, plan.placed());
        self.has_view = true;
        if has_proc {
            self.proc = host::open_path("/proc").map_err(|e| format!("`/proc`: {e}"))?;
        } else {
            self.missing.push("`/proc`: the kernel gives no new one, since this one is masked".to_owned());
        }
        if let Some(own) = &mut self.own_proc {
            *own = match has_proc {
                true => own_proc::probe(self.per_call),
                false => Err("that of this machine is masked".to_owned()),
            };
        }
        Ok(Some(ground))
    }

    /// The level that this machine reaches: that of its weakest kind of call, of those that it takes at all.
    /// `None` where something has no protection whatever, for which there are no calls.
    pub(super) fn level(&self) -> Option<Level> {
        let builtins = self.held.level(Runs::Builtin)?;
        let programs = [Runs::Program, Runs::Proxied].into_iter().filter(|runs| self.takes(*runs));
        Some(programs.filter_map(|runs| self.held.level(runs)).fold(builtins, Level::min))
    }

    /// Refuses to go on below `minimum`, and below everything, naming what is lacking.
    pub(super) fn demand(&self, minimum: Option<Level>) -> Result<(), String> {
        // Why it is lacking first.
        let lacking = || self.missing.iter().cloned().chain(self.lacking()).collect::<Vec<_>>().join("; ");
        match (self.level(), minimum) {
            (None, _) => Err(format!("something is not protected at all: {}", lacking())),
            (Some(level), Some(minimum)) if level < minimum => Err(format!(
                "`sandbox.minimum` is `{}`, and this machine reaches `{}`: {}",
                minimum.as_str(),
                level.as_str(),
                lacking()
            )),
            _ => Ok(()),
        }
    }

    /// What keeps it below `strict`.
    pub(super) fn lacking(&self) -> Vec<String> {
        let mut all = self.held.lacking(Runs::Builtin);
        for (runs, name) in [(Runs::Program, "programs"), (Runs::Proxied, "programs that are connected")] {
            let lacking = self.held.lacking(runs).into_iter().filter(|_| self.takes(runs));
            all.extend(lacking.map(|row| format!("of {name}, {row}")));
        }
        all
    }

    /// Whether there are calls of that kind at all.
    fn takes(&self, runs: Runs) -> bool {
        match runs {
            Runs::Builtin => true,
            Runs::Program => self.has_namespaces(),
            Runs::Proxied => self.has_namespaces() && self.sockets.tcp,
        }
    }

    /// What `start` forks is a first victim where the host runs out of memory, from its first moment on; this process
    /// stays what it is.
    pub(super) fn as_victim(
        &self,
        start: impl FnOnce() -> std::io::Result<Option<OwnedFd>>,
    ) -> std::io::Result<Option<OwnedFd>> {
        let Some(score) = &self.oom else { return start() };
        // One that cannot be raised stays as it is: no wall hangs on it.
        let _ = rustix::io::write(&score.file, OOM_SCORE);
        let started = start();
        // The child has its own, and nothing to do with this process's.
        if !matches!(started, Ok(None)) {
            let _ = rustix::io::write(&score.file, &score.own);
        }
        started
    }

    /// Whether calls have a PID namespace and an empty network, which programs need.
    pub(super) fn has_namespaces(&self) -> bool {
        !self.per_call.is_empty()
    }

    /// The launcher's own last steps: capabilities down to what starting calls takes, no new
    /// privileges, not dumpable, the base filter; then a canary that must be refused.
    pub(super) fn confine(&mut self) -> Result<(), String> {
        if self.identity.is_some() {
            drop_bounding_set();
            layers::lock_secure_bits()?;
            let mut needed = CapabilitySet::SETUID
                | CapabilitySet::SETGID
                | CapabilitySet::SETPCAP
                | CapabilitySet::SYS_ADMIN
                | CapabilitySet::KILL;
            // For the loopback of a call's own network.
            needed.set(CapabilitySet::NET_ADMIN, self.sockets.tcp);
            let held = rustix::thread::capabilities(None).map_err(|e| format!("capabilities: {e}"))?;
            layers::keep_capabilities(needed & held.permitted)?;
        } else {
            layers::keep_capabilities(CapabilitySet::empty())?;
        }
        rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(|e| format!("dumpable: {e}"))?;
        seccomp::load(&seccomp::base(self.sockets, matches!(self.own_proc, Some(Ok(())))))?;
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

fn device(path: &str) -> Result<OwnedFd, String> {
    host::open_path(path).map_err(|e| format!("`{path}`: {e}"))
}

/// This process's `oom_score_adj` (proc_pid_oom_score_adj(5)).
#[derive(Debug)]
struct Score {
    /// In the host's `/proc`: the view's is not written to.
    file: OwnedFd,
    /// As it was at the start.
    own: Vec<u8>,
}

impl Score {
    fn open(proc: &OwnedFd) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(proc, "self/oom_score_adj", flags, Mode::empty()).ok()?;
        let mut own = vec![0; 16];
        let length = rustix::io::pread(&file, &mut own, 0).ok()?;
        own.truncate(length);
        Some(Self { file, own })
    }
}

/// Takes the identity of tools: no group but its own.
pub(super) fn become_user(uid: u32, gid: u32) -> Result<(), String> {
    let refuse = |e| format!("uid {uid}: {e}");
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::thread::set_thread_groups(&[]).map_err(refuse)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(refuse)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refuse)
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

/// The view of a launcher with these manifests.
pub(super) fn plan<'m>(manifests: impl Iterator<Item = &'m Manifest>) -> Plan {
    let devices = [NULL, RANDOM].map(|device| (Path::new(device), Use::Device));
    Plan::of(manifests.flat_map(named).chain(devices))
}

/// What one manifest names, and for what.
fn named(manifest: &Manifest) -> Vec<(&Path, Use)> {
    let read = manifest.read.iter().map(|path| (path.as_path(), Use::Read));
    let written = manifest.write.iter().map(|root| (root.folder.as_path(), Use::Write));
    let spelled = manifest.spelled.iter().map(|path| (path.as_path(), Use::Read));
    let mut out: Vec<_> = read.chain(written).chain(spelled).collect();
    if let Runner::Program(program) = &manifest.runner {
        let programs = std::iter::once(&program.path).chain(&program.exec);
        out.extend(programs.map(|path| (path.as_path(), Use::Execute)));
        if program.runtime == Runtime::Dynamic {
            let libraries = LIBRARIES.iter().chain(LOADERS);
            out.extend(libraries.map(|path| (Path::new(*path), Use::Execute)));
        }
    }
    out
}

/// This process's number as its host counts, which `/proc` of the host tells.
fn own_pid(proc: &OwnedFd) -> u32 {
    let link = readlinkat(proc, "self", Vec::new());
    link.ok().and_then(|name| name.to_str().ok()?.parse().ok()).unwrap_or(0)
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
