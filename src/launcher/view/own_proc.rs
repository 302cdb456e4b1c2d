//! The `/proc` of one call, as it is mounted: its processes, and nothing else of the kernel.

use crate::launcher::sys::{self, SingleThread};
use nix::sched::CloneFlags;
use rustix::fs::stat;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::ffi::CStr;
use std::os::fd::AsFd as _;

/// The layer's name in records.
pub(crate) const LAYER: &str = "own proc";

/// The flags that are locked on the view's own `/proc`.
pub(crate) const FLAGS: MountFlags =
    MountFlags::RDONLY.union(MountFlags::NOSUID).union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Only processes, and only those that the reader may inspect, whatever groups it is in (proc(5)):
/// `hidepid=invisible` would show all of them to a reader in group 0.
const OPTIONS: &CStr = c"hidepid=ptraceable,subset=pid";

/// The namespaces that a call needs in addition to a PID namespace. The network namespace too:
/// `/proc/self/net` lists every socket in it, and other calls have sockets.
pub(crate) const NAMESPACES: CloneFlags = CloneFlags::CLONE_NEWNS.union(CloneFlags::CLONE_NEWNET);

/// Tries it in a child, which must see itself there and nothing else of the kernel. An error says
/// why calls have none.
pub(crate) fn probe(one: &SingleThread, per_call: CloneFlags) -> Result<(), String> {
    let started = sys::clone_call(one, per_call | NAMESPACES).map_err(|e| e.to_string());
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

/// Not the errno of a failed mount.
const UNKNOWN: u8 = 255;

/// Mounts it over the existing `/proc`, for good.
pub(crate) fn mount_here() -> Result<(), Errno> {
    mount("proc", "/proc", "proc", FLAGS, OPTIONS)
}
