//! The host's own tree of names, whatever the root of this process is.
//!
//! Policies name paths of the host that a view does not contain: whether they lie above or below an
//! object is looked up here. A child has the tree for its prepare alone, and closes it before
//! anything of a tool runs.

use crate::launcher::view::files::name_of;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Attempts at a lookup: one that goes up starts again if something was renamed meanwhile
/// (openat2(2)).
const TRIES_MAX: usize = 256;

/// The root of the host, opened with `O_PATH`; lookups see its current mounts.
#[derive(Debug)]
pub(crate) struct HostTree(OwnedFd);

impl HostTree {
    /// Called before this process has its own root.
    pub(crate) fn open() -> Result<Self, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, "/", flags, Mode::empty()).map_err(|e| format!("`/`: {e}"))?))
    }

    /// Opens what `path` names on the host, with `O_PATH`.
    pub(crate) fn find(&self, path: impl AsRef<Path>) -> Result<OwnedFd, Errno> {
        self.look_up(path.as_ref(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }

    /// The same without following any link.
    pub(crate) fn find_plain(&self, path: impl AsRef<Path>) -> Result<OwnedFd, Errno> {
        self.look_up(path.as_ref(), ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS)
    }

    /// Whether this root still reads as `/` in the names that the kernel shows, after this process
    /// got another root.
    pub(crate) fn is_named_plainly(&self, proc: impl AsFd) -> bool {
        name_of(proc, &self.0).as_deref() == Some("/")
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    fn look_up(&self, path: &Path, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            match openat2(&self.0, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if tries < TRIES_MAX => tries += 1,
                found => return found,
            }
        }
    }
}
