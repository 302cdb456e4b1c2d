//! What the launcher found out about this machine, and what it keeps open for every call.

use crate::launcher::cgroup::{Groups, NO_GROUPS};
use crate::launcher::confine::forks;
use crate::launcher::confine::identity::drop_bounding_set;
use crate::launcher::confine::layers::{self, Landlock};
use crate::launcher::confine::protection::{Held, Layer, Runs};
use crate::launcher::confine::seccomp::compile::{Sockets, load};
use crate::launcher::confine::seccomp::filters;
use crate::launcher::confine::selftest::{self, Subject};
use crate::launcher::host::ground::Ground;
use crate::launcher::host::named::{NULL, RANDOM, device, open_libraries, plan};
use crate::launcher::host::score::Score;
use crate::launcher::protocol::Mounted;
use crate::launcher::sys::{self, SingleThread};
use crate::launcher::view::files::open_path;
use crate::launcher::view::host_tree::HostTree;
use crate::launcher::view::mounts::{self, Mount, Origins};
use crate::launcher::view::namespaces::SecondStage;
use crate::launcher::view::root::{self, NoView, Plan, View};
use crate::launcher::view::{own_proc, procfs};
use crate::tools::builtin::Host;
use crate::tools::{Manifest, ProcView};
use crate::types::Level;
use landlock::{AccessFs, BitFlags};
use nix::sched::CloneFlags;
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::CapabilitySet;
use rustls::ClientConfig;
use seccompiler::BpfProgram;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Paths that most hosts have.
const USUAL: &[&str] =
    &["/etc/passwd", "/etc/group", "/root", "/boot", "/home", "/opt", "/mnt", "/var", "/sys"];

/// The machine as one launcher sees it. Built once, inherited by each child.
#[derive(Debug)]
pub(crate) struct Machine {
    /// By which calls' children are forked.
    pub(crate) one: SingleThread,
    pub(crate) landlock: Landlock,
    /// `/proc`, by `O_PATH`: for names of descriptors and for reopening them. The view's, where it has one.
    pub(crate) proc: OwnedFd,
    /// For names that policies have.
    pub(crate) tree: HostTree,
    /// Which mount of the host is shown where.
    pub(crate) origins: Origins,
    /// The host's figures.
    pub(crate) host: Host,
    /// Loader and libraries, with the rights that a dynamic program needs on them.
    pub(crate) libraries: Vec<(OwnedFd, BitFlags<AccessFs>)>,
    /// `/dev/null`, which scripts expect to be there.
    pub(crate) null: OwnedFd,
    /// `/dev/urandom`, which programs read where they do not ask the kernel by a call, such as git.
    pub(crate) random: OwnedFd,
    /// By which children come before everybody else where the host runs out of memory. `None` where that cannot be said.
    oom: Option<Score>,
    /// Uid and gid of tools, where the launcher may change them.
    pub(crate) identity: Option<(u32, u32)>,
    /// The namespaces that each call gets of its own.
    pub(crate) per_call: CloneFlags,
    /// Layers that the launcher's namespaces give every call.
    pub(crate) inherited: Vec<String>,
    /// What this machine lacks.
    pub(crate) missing: Vec<String>,
    /// Whether it has a view of its own.
    pub(crate) has_view: bool,
    /// Whether the limit of core dumps is what it is to be.
    pub(crate) keeps_core: bool,
    /// Whether an init can count what its call starts.
    pub(crate) counts_forks: bool,
    /// The nice value of programs.
    pub(crate) program_nice: i32,
    /// Paths that hosts have, and no manifest names here.
    pub(crate) unnamed: Vec<&'static str>,
    /// Groups of calls, until the launcher takes them.
    pub(crate) groups: Option<Groups>,
    /// What of groups this machine, or this place on it, does not give.
    pub(crate) groups_missing: Vec<String>,
    /// What each layer was seen to refuse.
    pub(crate) held: Held,
    /// Whether some manifest wants a `/proc` of each call's own, and why this machine gives none where it does not.
    pub(crate) own_proc: Option<Result<(), String>>,
    /// Mounts of the host that concern what manifests name.
    pub(crate) mounted: Vec<Mounted>,
    /// This process's number as its host counts.
    pub(crate) pid: u32,
    pub(crate) builtin_filter: BpfProgram,
    /// For builtins that read below a folder.
    pub(crate) walker_filter: BpfProgram,
    /// For the builtin that is connected.
    pub(crate) fetcher_filter: BpfProgram,
    /// Sockets that calls are let make, as the manifests want them.
    pub(crate) sockets: Sockets,
    /// Whom connections are believed; where a builtin makes any.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Address space of the launcher, in bytes.
    pub(crate) mapped_bytes: u64,
}

impl Machine {
    /// Enters a view that holds what `manifests` name, in the launcher's second stage, and opens what every call
    /// needs there. Not confined yet.
    ///
    /// What this kernel refuses is lacking, and said to be; an error is a machine that nobody can reason about.
    pub(crate) fn settle<'m>(
        ground: Ground,
        manifests: impl Iterator<Item = &'m Manifest>,
        second: SecondStage,
        one: SingleThread,
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
            one,
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
            builtin_filter: filters::builtin(),
            walker_filter: filters::walker(),
            fetcher_filter: filters::fetcher(),
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
        machine.mapped_bytes = procfs::mapped_bytes(&machine.proc);
        machine.held = selftest::probe(&machine.subject(), playground.as_ref(), ground.outside.as_ref());
        machine.missing.extend(selftest::no_user_namespace(&machine.subject()));
        machine.own_groups(ground.groups);
        Ok(machine)
    }

    /// What canaries go by.
    fn subject(&self) -> Subject<'_> {
        Subject {
            one: &self.one,
            landlock: self.landlock,
            null: &self.null,
            tree: &self.tree,
            identity: self.identity,
            per_call: self.per_call,
            has_view: self.has_view,
            keeps_core: self.keeps_core,
            unnamed: &self.unnamed,
            mapped_bytes: self.mapped_bytes,
            sockets: self.sockets,
            walker_filter: &self.walker_filter,
        }
    }

    fn own_groups(&mut self, groups: Result<Groups, String>) {
        match groups {
            Ok(mut groups) => {
                groups.prove(&self.one);
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
            match forks::probe(&self.one, self.per_call, &self.host.loadavg) {
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
        let View { has_proc, ground } = match root::enter(plan, self.identity.is_some()) {
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
            self.proc = open_path("/proc").map_err(|e| format!("`/proc`: {e}"))?;
        } else {
            self.missing.push("`/proc`: the kernel gives no new one, since this one is masked".to_owned());
        }
        if let Some(own) = &mut self.own_proc {
            *own = match has_proc {
                true => own_proc::probe(&self.one, self.per_call),
                false => Err("that of this machine is masked".to_owned()),
            };
        }
        Ok(Some(ground))
    }

    /// The level that this machine reaches: that of its weakest kind of call, of those that it takes at all.
    /// `None` where something has no protection whatever, for which there are no calls.
    pub(crate) fn level(&self) -> Option<Level> {
        let builtins = self.held.level(Runs::Builtin)?;
        let programs = [Runs::Program, Runs::Proxied].into_iter().filter(|runs| self.takes(*runs));
        Some(programs.filter_map(|runs| self.held.level(runs)).fold(builtins, Level::min))
    }

    /// Refuses to go on below `minimum`, and below everything, naming what is lacking.
    pub(crate) fn demand(&self, minimum: Option<Level>) -> Result<(), String> {
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
    pub(crate) fn lacking(&self) -> Vec<String> {
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
    pub(crate) fn as_victim(
        &self,
        start: impl FnOnce() -> std::io::Result<Option<OwnedFd>>,
    ) -> std::io::Result<Option<OwnedFd>> {
        match &self.oom {
            Some(score) => score.as_victim(start),
            None => start(),
        }
    }

    /// Whether calls have a PID namespace and an empty network, which programs need.
    pub(crate) fn has_namespaces(&self) -> bool {
        !self.per_call.is_empty()
    }

    /// The launcher's own last steps: capabilities down to what starting calls takes, no new
    /// privileges, not dumpable, the base filter; then a canary that must be refused.
    pub(crate) fn confine(&mut self) -> Result<(), String> {
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
        load(&filters::base(self.sockets, matches!(self.own_proc, Some(Ok(())))))?;
        self.test()
    }

    /// Starts a child that confines itself and tries what must be refused.
    fn test(&self) -> Result<(), String> {
        let Some(pidfd) = sys::clone_call(&self.one, self.per_call).map_err(|e| format!("clone: {e}"))?
        else {
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
        if load(&self.builtin_filter).is_err() {
            return 3;
        }
        if sys::try_socket() != Err(rustix::io::Errno::PERM) {
            return 4;
        }
        0
    }
}

/// This process's number as its host counts, which `/proc` of the host tells.
fn own_pid(proc: &OwnedFd) -> u32 {
    let link = readlinkat(proc, "self", Vec::new());
    link.ok().and_then(|name| name.to_str().ok()?.parse().ok()).unwrap_or(0)
}
