//! The folders that a call may change: opened and locked by the child at go, under the tool's own
//! identity.
//!
//! The lock is a `flock` on the folder. The call's init has its descriptor, and the launcher keeps
//! a copy until all processes of the call are gone, however they end. The program has none, or it
//! could release the lock. Nothing has to be cleaned up after a kill.

use crate::launcher::confine::layers::{Landlock, PathRule};
use crate::launcher::tool::WriteFolder;
use crate::types::clock::mono_us;
use crate::types::limits::WRITE_WAIT_MS_MAX;
use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, flock, openat, openat2};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

/// Time between two attempts at a lock that another call holds, in milliseconds.
const RETRY_MS: u64 = 10;

/// Opens and locks every folder, in the manifest's order. An error is a refusal: nothing was run.
///
/// Each folder comes with the descriptor by which this call has it.
pub(crate) fn take<'a>(
    folders: impl Iterator<Item = (&'a WriteFolder, &'a OwnedFd)>,
    id: Option<&str>,
) -> Result<Vec<OwnedFd>, String> {
    folders.map(|(folder, at)| take_one(folder, at, id)).collect()
}

/// What the call's last ruleset adds.
pub(crate) fn grants(taken: &[OwnedFd], landlock: Landlock) -> impl Iterator<Item = PathRule<'_>> {
    let rights = landlock.work_rights();
    taken.iter().map(move |fd| PathRule { at: fd.as_fd(), rights })
}

/// Opens a folder that the call may change.
pub(crate) fn open(folder: &WriteFolder, at: &OwnedFd, id: Option<&str>) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match (folder.by_id, id) {
        (true, Some(id)) => {
            // An id is one plain name; it must name a folder of the root, not a link.
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            openat2(at, id, flags, Mode::empty(), resolve)
        }
        (true, None) => return Err("the tool's resource has no id".to_owned()),
        (false, _) => openat(at, ".", flags, Mode::empty()),
    };
    opened.map_err(|e| format!("cannot open the working folder `{}`: {e}", name(folder, id)))
}

/// As manifest and call name it, not as another process renames it meanwhile.
fn name(folder: &WriteFolder, id: Option<&str>) -> String {
    match id.filter(|_| folder.by_id) {
        Some(id) => format!("{}/{id}", folder.canonical),
        None => folder.canonical.clone(),
    }
}

fn take_one(folder: &WriteFolder, at: &OwnedFd, id: Option<&str>) -> Result<OwnedFd, String> {
    let opened = open(folder, at, id)?;
    let until = mono_us().saturating_add(WRITE_WAIT_MS_MAX * 1_000);
    loop {
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(Errno::WOULDBLOCK) if mono_us() < until => {
                std::thread::sleep(Duration::from_millis(RETRY_MS));
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                let name = name(folder, id);
                return Err(format!(
                    "another call or a process of the host kept `{name}` locked for more than {WRITE_WAIT_MS_MAX} ms"
                ));
            }
            Err(e) => return Err(format!("lock: {e}")),
        }
    }
}
