//! The second stage in its namespaces and its view: everything that calls need is open, and nothing
//! has been tried yet.

use super::trust::TlsTrust;
use crate::launcher::confine::forks;
use crate::launcher::confine::layers::Landlock;
use crate::launcher::confine::seccomp::compile::Sockets;
use crate::launcher::confine::seccomp::filters;
use crate::launcher::confine::selftest::CanaryContext;
use crate::launcher::host::ground::Ground;
use crate::launcher::host::kept_proc::KeptProc;
use crate::launcher::host::named::{NULL, RANDOM, device, open_libraries, plan};
use crate::launcher::host::score::Score;
use crate::launcher::protocol::Mounted;
use crate::launcher::sys::SingleThread;
use crate::launcher::view::files::open_path;
use crate::launcher::view::host_tree::HostTree;
use crate::launcher::view::mounts::{self, Mount, Origins};
use crate::launcher::view::namespaces::SecondStage;
use crate::launcher::view::root::{self, NoView, Plan, View};
use crate::launcher::view::{own_proc, procfs};
use crate::tools::builtin::host::Host;
use crate::tools::{HostGroup, Manifest, ProcView};
use landlock::{AccessFs, BitFlags};
use nix::sched::CloneFlags;
use rustix::fs::readlinkat;
use seccompiler::BpfProgram;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Paths that most hosts have.
const USUAL: &[&str] =
    &["/etc/passwd", "/etc/group", "/root", "/boot", "/home", "/opt", "/mnt", "/var", "/sys"];

/// What a launcher has entered, and keeps open for every call.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The proof of a single thread, which forking calls' children requires.
    pub(crate) one: SingleThread,
    pub(crate) landlock: Landlock,
    /// Uid and gid of tools, if the launcher may change them.
    pub(crate) identity: Option<(u32, u32)>,
    /// The Unix groups of this process, which its calls share if it has no `identity` to give them.
    pub(crate) own_groups: Vec<HostGroup>,
    /// The new namespaces that each call gets.
    pub(crate) per_call: CloneFlags,
    /// Sockets that calls may make, as the manifests want them.
    pub(crate) sockets: Sockets,
    pub(crate) paths: Paths,
    pub(crate) supplies: Supplies,
    pub(crate) filters: Filters,
    pub(crate) facts: StartFacts,
    /// Marks children as the first victims if the host runs out of memory. `None` if the score
    /// cannot be set.
    oom: Option<Score>,
    /// Whether it has its own view.
    has_view: bool,
    /// Whether the limit of core dumps is as required.
    keeps_core: bool,
    /// Paths that hosts have and that no manifest names here.
    unnamed: Vec<&'static str>,
    /// Whether an init can count the processes that its call starts.
    pub(crate) counts_forks: bool,
    /// The nice value of programs.
    pub(crate) program_nice: i32,
    /// Set if some manifest wants each call to have its own `/proc`; an error says why this machine
    /// cannot provide one.
    pub(crate) own_proc: Option<Result<(), String>>,
    /// Address space of the launcher, in bytes.
    pub(crate) mapped_bytes: u64,
}

/// What paths are looked up and named by: all that resolving needs of the machine.
#[derive(Debug)]
pub(crate) struct Paths {
    /// `/proc`, opened with `O_PATH`: to read names of descriptors and to reopen them. The view's,
    /// if it has one.
    pub(crate) proc: OwnedFd,
    /// Looks up the names in policies.
    pub(crate) tree: HostTree,
    /// Which mount of the host is shown where.
    pub(crate) origins: Origins,
}

/// What calls are given although no manifest names it.
#[derive(Debug)]
pub(crate) struct Supplies {
    /// For reports on the host.
    pub(crate) host: Host,
    /// For the same.
    pub(crate) kept: KeptProc,
    /// The load, in which the init of a call counts forks.
    pub(crate) loadavg: OwnedFd,
    /// Loader and libraries, with the rights that a dynamic program needs on them.
    pub(crate) libraries: Vec<(OwnedFd, BitFlags<AccessFs>)>,
    /// `/dev/null`, which scripts expect.
    pub(crate) null: OwnedFd,
    /// `/dev/urandom`, for programs that do not use getrandom(2), such as git.
    pub(crate) random: OwnedFd,
    /// The certificates that connections trust, if a builtin makes connections.
    pub(crate) tls: Option<TlsTrust>,
}

impl Supplies {
    /// Opens them in the view, if there is one.
    fn open(host: Host, kept: KeptProc, loadavg: OwnedFd, tls: Option<TlsTrust>) -> Result<Self, String> {
        let (null, random) = (device(NULL)?, device(RANDOM)?);
        Ok(Self { host, kept, loadavg, libraries: open_libraries(), null, random, tls })
    }
}

/// The last filters of builtins. A program's filter belongs to its tool.
#[derive(Debug)]
pub(crate) struct Filters {
    pub(crate) builtin: BpfProgram,
    /// For builtins that read below a folder, or files of each process.
    pub(crate) walker: BpfProgram,
    /// For the builtin that is given a connection.
    pub(crate) fetcher: BpfProgram,
}

impl Filters {
    fn new() -> Self {
        Self { builtin: filters::builtin(), walker: filters::walker(), fetcher: filters::fetcher() }
    }
}

/// What goes into the report.
#[derive(Debug)]
pub(crate) struct StartFacts {
    /// This process's pid in the host's numbering.
    pub(crate) pid: u32,
    /// Layers that the launcher's namespaces give every call.
    pub(crate) inherited: Vec<String>,
    /// What is missing on this machine.
    pub(crate) missing: Vec<String>,
    /// Mounts of the host that concern what manifests name.
    pub(crate) mounted: Vec<Mounted>,
}

/// The result of entering the view, or of its refusal.
struct Seen {
    paths: Paths,
    /// The file system for canaries to write to, if there is a view.
    playground: Option<OwnedFd>,
    own_proc: Option<Result<(), String>>,
}

impl Entered {
    /// Enters a view that contains what `manifests` name, in the launcher's second stage, and opens
    /// there what every call needs. Also returns the file system for canaries to write to, if there
    /// is a view.
    ///
    /// What this kernel refuses is reported as missing. An error is a machine whose state cannot be
    /// reasoned about.
    pub(super) fn enter<'m>(
        ground: Ground,
        manifests: impl Iterator<Item = &'m Manifest>,
        second: SecondStage,
        one: SingleThread,
    ) -> Result<(Self, Option<OwnedFd>), String> {
        let manifests: Vec<&Manifest> = manifests.collect();
        let sockets = Sockets {
            tcp: manifests.iter().any(|manifest| manifest.is_proxied()),
            unix: manifests.iter().any(|manifest| !manifest.connect.is_empty()),
        };
        let wants_proc = manifests.iter().any(|manifest| manifest.proc == ProcView::Own);
        let plan = plan(manifests.into_iter());
        let concerns = ground.mounts.iter().filter(|mount| plan.concerns(mount));
        let mounted = concerns.map(|m| Mounted { path: m.point.clone(), of: m.of.clone() }).collect();
        let pid = own_pid(&ground.proc);
        let oom = Score::open(&ground.proc);
        let keeps_core = ground.core.is_ok();
        let missing = ground.core.err().into_iter().collect();
        let mut facts = StartFacts { pid, inherited: Vec::new(), missing, mounted };
        let paths = Paths { proc: ground.proc, tree: ground.tree, origins: Origins::default() };
        let mut per_call = CloneFlags::empty();
        let mut seen = Seen {
            paths,
            playground: None,
            own_proc: wants_proc.then(|| Err("this launcher has no view".to_owned())),
        };
        match ground.refused {
            None => {
                per_call = CloneFlags::CLONE_NEWPID;
                per_call.set(CloneFlags::CLONE_NEWUSER, ground.identity.is_none());
                let names = ["net namespace", "ipc namespace", "uts namespace", "cgroup namespace"];
                facts.inherited.extend(names.map(str::to_owned));
                let is_root = ground.identity.is_some();
                seen = seen.with_view(&plan, is_root, ground.mounts, second, &mut facts)?;
                if let (Some(Ok(())), Some(_)) = (&seen.own_proc, &seen.playground) {
                    seen.own_proc = Some(own_proc::probe(&one, per_call));
                }
            }
            Some(reason) => facts.missing.push(format!("namespaces: {reason}")),
        }
        let supplies = Supplies::open(ground.host, ground.kept, ground.loadavg, ground.tls)?;
        // Only programs start processes, and without namespaces there are no programs.
        let counting =
            if per_call.is_empty() { None } else { Some(forks::probe(&one, per_call, &supplies.loadavg)) };
        let counts_forks = counting == Some(Ok(()));
        facts.missing.extend(counting.and_then(Result::err));
        if oom.is_none() {
            let what = "`oom_score_adj`: if memory runs out, calls are killed no sooner than other processes";
            facts.missing.push(what.to_owned());
        }
        let Seen { paths, playground, own_proc } = seen;
        let entered = Self {
            one,
            landlock: ground.landlock,
            identity: ground.identity,
            own_groups: ground.own_groups,
            per_call,
            sockets,
            mapped_bytes: procfs::mapped_bytes(&paths.proc),
            paths,
            supplies,
            filters: Filters::new(),
            facts,
            oom,
            has_view: playground.is_some(),
            keeps_core,
            unnamed: USUAL.iter().copied().filter(|path| !plan.has(Path::new(path))).collect(),
            counts_forks,
            program_nice: forks::program_nice(),
            own_proc,
        };
        Ok((entered, playground))
    }

    /// What canaries use.
    pub(super) fn canary_context(&self) -> CanaryContext<'_> {
        CanaryContext {
            one: &self.one,
            landlock: self.landlock,
            null: &self.supplies.null,
            tree: &self.paths.tree,
            identity: self.identity,
            per_call: self.per_call,
            has_view: self.has_view,
            keeps_core: self.keeps_core,
            unnamed: &self.unnamed,
            mapped_bytes: self.mapped_bytes,
            sockets: self.sockets,
            walker_filter: &self.filters.walker,
        }
    }

    /// Makes what `start` forks a first victim if the host runs out of memory, from its first
    /// moment on; this process keeps its own score.
    pub(crate) fn as_victim(
        &self,
        start: impl FnOnce() -> std::io::Result<Option<OwnedFd>>,
    ) -> std::io::Result<Option<OwnedFd>> {
        match &self.oom {
            Some(score) => score.as_victim(start),
            None => start(),
        }
    }

    /// Whether calls have a PID namespace and an empty network namespace, which programs need.
    pub(crate) fn has_namespaces(&self) -> bool {
        !self.per_call.is_empty()
    }
}

impl Seen {
    /// Enters the view, if this kernel allows it. If calls want their own `/proc`, also notes
    /// whether they can have one.
    fn with_view(
        self,
        plan: &Plan,
        is_root: bool,
        host: Vec<Mount>,
        second: SecondStage,
        facts: &mut StartFacts,
    ) -> Result<Self, String> {
        let Paths { proc, tree, .. } = self.paths;
        let View { has_proc, ground } = match root::enter(plan, is_root) {
            Ok(view) => view,
            Err(NoView::Refused(reason)) => {
                facts.missing.push(format!("mount view: {reason}"));
                return Ok(Self { paths: Paths { proc, tree, origins: Origins::default() }, ..self });
            }
            Err(NoView::Lost(reason)) => return Err(format!("mount view: {reason}")),
        };
        facts.inherited.push("mount view".to_owned());
        match second.lock_mounts(facts.pid)? {
            Ok(()) => facts.inherited.push("locked mounts".to_owned()),
            Err(reason) => facts.missing.push(format!("locked mounts: {reason}")),
        }
        // Paths must read as before, or nothing that was decided on could be found again.
        if !tree.is_named_plainly(&proc) {
            return Err("mount view: this process had a root that is not its mount namespace's".to_owned());
        }
        let table = mounts::table(&proc)?;
        let origins = Origins::trace(host, &table, plan.placed());
        let proc = if has_proc {
            open_path("/proc").map_err(|e| format!("`/proc`: {e}"))?
        } else {
            facts.missing.push("`/proc`: the kernel refuses a new one, since this one is masked".to_owned());
            proc
        };
        let masked = || Err("that of this machine is masked".to_owned());
        let own_proc = self.own_proc.map(|_| if has_proc { Ok(()) } else { masked() });
        Ok(Self { paths: Paths { proc, tree, origins }, playground: Some(ground), own_proc })
    }
}

/// This process's pid in the host's numbering, as the host's `/proc` shows it.
fn own_pid(proc: &OwnedFd) -> u32 {
    let link = readlinkat(proc, "self", Vec::new());
    link.ok().and_then(|name| name.to_str().ok()?.parse().ok()).unwrap_or(0)
}
