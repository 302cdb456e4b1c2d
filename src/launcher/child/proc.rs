//! The `/proc` of one call: its processes, and nothing else of the kernel.
//!
//! The call's child mounts it over that of the view, in its own mount namespace, which is a copy of
//! the view's. It does so first: the right to mount is lost with the identity, and under Landlock
//! no process mounts. The kernel allows the mount only if the view's `/proc` is complete, and only
//! with at least that one's flags.
//!
//! The call's first process, the init, is a copy of the launcher. A process that may not inspect it
//! does not see it there, and since it is not dumpable, no process of the call may.

use crate::launcher::confine::layers::PathRule;
use crate::launcher::host::machine::Machine;
use crate::launcher::tool::{OpenTool, WriteFolder};
use crate::launcher::view::files::{id, open_path};
use crate::launcher::view::mounts::{self, Origins};
use crate::launcher::view::own_proc::mount_here;
use landlock::AccessFs;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

/// What a call has in its copy of the view.
#[derive(Debug)]
pub(crate) struct OwnProc {
    root: OwnedFd,
    /// The folders that the tool may change. The launcher's descriptors lie in the view itself, and
    /// a program could go up from them.
    pub(crate) writes: Vec<OwnedFd>,
    /// The origins of the copy's mounts, if the tool reads below its resource.
    pub(crate) origins: Option<Origins>,
}

impl OwnProc {
    /// Mounts it. Called in a child with [`NAMESPACES`] that still has the launcher's identity.
    pub(crate) fn enter(machine: &Machine, tool: &OpenTool) -> Result<Self, String> {
        let refuse = |e: Errno| format!("the call's own `/proc`: {e}");
        mount_here().map_err(refuse)?;
        let root = open_path("/proc").map_err(refuse)?;
        let writes = tool.writes.iter().map(open_again).collect::<Result<_, _>>()?;
        let table = tool.manifest.recursive.then(|| mounts::table(&machine.paths.proc)).transpose()?;
        let origins = table.map(|table| machine.paths.origins.of_copy(&table));
        Ok(Self { root, writes, origins })
    }

    /// Reading and listing, for every ruleset of the call.
    pub(crate) fn grant(&self) -> PathRule<'_> {
        PathRule { at: self.root.as_fd(), rights: AccessFs::ReadFile | AccessFs::ReadDir }
    }

    /// The descriptors that the child keeps.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        std::iter::once(&self.root).chain(&self.writes).map(OwnedFd::as_raw_fd)
    }
}

fn open_again(folder: &WriteFolder) -> Result<OwnedFd, String> {
    let refuse = |e: &dyn std::fmt::Display| format!("the folder `{}`: {e}", folder.canonical);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd =
        openat2(CWD, folder.canonical.as_str(), flags, Mode::empty(), resolve).map_err(|e| refuse(&e))?;
    let both =
        fstat(&fd).and_then(|here| Ok((id(&here), id(&fstat(&folder.fd)?)))).map_err(|e| refuse(&e))?;
    if both.0 == both.1 { Ok(fd) } else { Err(refuse(&"a different folder is there now")) }
}
