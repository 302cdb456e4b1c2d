//! The `/proc` of one call: its processes, and nothing else of the kernel.
//!
//! The call's child mounts it over that of the view, in a mount namespace of its own which is a copy of the view's. It
//! does so first of all: the right to mount goes with the identity, and under Landlock nobody mounts. The kernel gives
//! one only where the view's is whole, and with no flag less than that one's.
//!
//! The call's first process, the init, is a copy of the launcher. Whoever may not look into it does not see it there,
//! and since it is not dumpable nobody of the call may.

use super::host::open_path;
use super::layers::Grant;
use super::machine::Machine;
use super::mounts::{self, Origins};
use super::resolve::id;
use super::sys;
use super::tool::{Tool, WriteFolder};
use landlock::AccessFs;
use nix::sched::CloneFlags;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2, stat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::ffi::CStr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

/// The layer's name in records.
pub(super) const LAYER: &str = "own proc";
/// Those that are locked on the view's own.
pub(super) const FLAGS: MountFlags =
    MountFlags::RDONLY.union(MountFlags::NOSUID).union(MountFlags::NODEV).union(MountFlags::NOEXEC);
/// Only processes, and of these only those that the reader may look into, whatever groups it is in (proc(5)).
const OPTIONS: &CStr = c"hidepid=ptraceable,subset=pid";
/// What a call needs beside a PID namespace. The network too: `/proc/self/net` tells of every socket in it, and other
/// calls have some.
pub(super) const NAMESPACES: CloneFlags = CloneFlags::CLONE_NEWNS.union(CloneFlags::CLONE_NEWNET);

/// What a call has in its copy of the view.
#[derive(Debug)]
pub(super) struct OwnProc {
    root: OwnedFd,
    /// The tool's folders to change. Those of the launcher lie in the view itself, and a program could go up from them.
    pub(super) writes: Vec<OwnedFd>,
    /// Of the copy's mounts, where the tool reads below its resource.
    pub(super) origins: Option<Origins>,
}

impl OwnProc {
    /// Mounts it. In a child with [`NAMESPACES`] that is still what the launcher is.
    pub(super) fn enter(machine: &Machine, tool: &Tool) -> Result<Self, String> {
        let refuse = |e: Errno| format!("a `/proc` of its own: {e}");
        mount_here().map_err(refuse)?;
        let root = open_path("/proc").map_err(refuse)?;
        let writes = tool.writes.iter().map(open_again).collect::<Result<_, _>>()?;
        let table = tool.manifest.recursive.then(|| mounts::table(&machine.proc)).transpose()?;
        let origins = table.map(|table| machine.origins.of_copy(&table));
        Ok(Self { root, writes, origins })
    }

    /// Reading and listing, for every ruleset of the call.
    pub(super) fn grant(&self) -> Grant<'_> {
        Grant { at: self.root.as_fd(), rights: AccessFs::ReadFile | AccessFs::ReadDir }
    }

    /// What the child keeps of it.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        std::iter::once(&self.root).chain(&self.writes).map(OwnedFd::as_raw_fd)
    }
}

/// Tries it in a child, which must see itself there and nothing else of the kernel. An error says why calls have none.
pub(super) fn probe(per_call: CloneFlags) -> Result<(), String> {
    let started = sys::clone_call(per_call | NAMESPACES).map_err(|e| e.to_string());
    let ended = started.and_then(|child| {
        let Some(pidfd) = child else {
            let seen =
                mount_here().and_then(|()| stat("/proc/self/stat")).map(|_| stat("/proc/meminfo").is_ok());
            sys::exit_now(match seen {
                Ok(false) => 0,
                Ok(true) => UNKNOWN,
                Err(e) => u8::try_from(e.raw_os_error()).unwrap_or(UNKNOWN),
            })
        };
        let end = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).map_err(|e| e.to_string())?;
        Ok(end.and_then(|end| end.exit_status()).and_then(|code| u8::try_from(code).ok()).unwrap_or(UNKNOWN))
    });
    match ended? {
        0 => Ok(()),
        UNKNOWN => Err("the kernel shows more there than processes".to_owned()),
        errno => Err(Errno::from_raw_os_error(errno.into()).to_string()),
    }
}

/// No error of a mount.
const UNKNOWN: u8 = 255;

/// Over that which is there, for good.
pub(super) fn mount_here() -> Result<(), Errno> {
    mount("proc", "/proc", "proc", FLAGS, OPTIONS)
}

fn open_again(folder: &WriteFolder) -> Result<OwnedFd, String> {
    let refuse = |e: &dyn std::fmt::Display| format!("the folder `{}`: {e}", folder.canonical);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd =
        openat2(CWD, folder.canonical.as_str(), flags, Mode::empty(), resolve).map_err(|e| refuse(&e))?;
    let both =
        fstat(&fd).and_then(|here| Ok((id(&here), id(&fstat(&folder.fd)?)))).map_err(|e| refuse(&e))?;
    if both.0 == both.1 { Ok(fd) } else { Err(refuse(&"another one is there now")) }
}
