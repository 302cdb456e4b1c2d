//! What is opened on the host before anything is entered, in the launcher's first stage.

use super::trust::TlsTrust;
use crate::launcher::cgroup::CallGroups;
use crate::launcher::confine::identity::{own_groups, tool_user};
use crate::launcher::confine::layers::{self, Landlock};
use crate::launcher::confine::selftest::HostSocket;
use crate::launcher::host::kept_proc::KeptProc;
use crate::launcher::view::host_tree::HostTree;
use crate::launcher::view::mounts::{self, Mount};
use crate::launcher::view::{files, namespaces, procfs};
use crate::tools::HostGroup;
use crate::tools::builtin::host::Host;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::os::fd::OwnedFd;

/// What is opened on the host before anything is entered, in the launcher's first stage.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) landlock: Landlock,
    /// The host's `/proc`, opened with `O_PATH`.
    pub(crate) proc: OwnedFd,
    pub(crate) tree: HostTree,
    pub(crate) host: Host,
    pub(crate) kept: KeptProc,
    pub(crate) loadavg: OwnedFd,
    /// Uid and gid of tools, if the launcher may change them.
    pub(crate) identity: Option<(u32, u32)>,
    /// The Unix groups of this process, which its calls share if it has no `identity` to give them.
    pub(crate) own_groups: Vec<HostGroup>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) outside: Option<HostSocket>,
    /// Groups of calls, or why calls have none.
    pub(crate) groups: Option<Result<CallGroups, String>>,
    /// The certificates that connections trust, if a builtin makes connections.
    pub(crate) tls: Option<TlsTrust>,
    /// Why a crash would start a program outside the sandbox, if it would.
    pub(crate) core: Result<(), String>,
    /// Why the launcher has no namespaces, if it has none.
    pub(crate) refused: Option<String>,
}

impl Ground {
    /// Opens what is kept of the host, then enters new namespaces. The next fork is the first
    /// process of its PID namespace. Nothing is confined yet.
    ///
    /// `user` is the uid and gid of tools, if this process is root. No right of a Landlock version
    /// above `landlock_abi_max` is used. `tls` is kept for calls.
    pub(crate) fn enter(
        user: Option<(u32, u32)>,
        landlock_abi_max: Option<u32>,
        tls: Option<TlsTrust>,
    ) -> Result<Self, String> {
        if user.is_some_and(|(uid, gid)| uid == 0 || gid == 0) {
            return Err("tools do not run as root".to_owned());
        }
        let landlock = Landlock::probe(landlock_abi_max)?;
        // Without it no path could be resolved, and each would read as outside.
        files::probe()?;
        let proc = openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| format!("`/proc`: {e}"))?;
        let tree = HostTree::open()?;
        let mut host = procfs::open_host();
        let (kept, loadavg) = (KeptProc::open()?, procfs::open_loadavg()?);
        // While this process still has the right to raise it.
        let core = layers::limit_core(procfs::core_pattern().as_deref());
        let mounts = mounts::table(&proc)?;
        let root = rustix::process::geteuid().is_root();
        let identity = root.then(|| user.unwrap_or_else(tool_user));
        let own_groups = own_groups();
        let outside = HostSocket::listen();
        let mut groups = CallGroups::begin();
        let hides_owners = procfs::hides_owners();
        let refused = namespaces::enter(root).err();
        // Without rights over other users, its namespaces have one uid.
        host.hides_owners = hides_owners || (!root && refused.is_none());
        if let Ok(groups) = &mut groups {
            groups.settle();
        }
        let groups = Some(groups);
        Ok(Self {
            landlock,
            proc,
            tree,
            host,
            kept,
            loadavg,
            identity,
            own_groups,
            mounts,
            outside,
            groups,
            tls,
            core,
            refused,
        })
    }

    /// Whether tools run under a uid other than the launcher's.
    pub(crate) fn changes_uids(&self) -> bool {
        self.identity.is_some()
    }
}
