//! The host's `/proc`, kept from before the launcher entered its namespaces, for the builtins that
//! report on the host.
//!
//! Each tool gets the names of its row of the table ([`proc_names`]), by a Landlock rule on these
//! names alone. Only a tool that reads files of each process gets a rule on all of `/proc`, since
//! the processes are not known in advance; then the table is what limits it to some names. What
//! shows a process's memory (`environ`, `maps`, `mem`, `fd`) stays closed even so: a call has no
//! capabilities, and Landlock lets no process inspect one outside of its domain.
//!
//! The descriptors are opened with `O_PATH` and keep the kernel's entries in place: one that is
//! made again after it was dropped would have another identity, which no rule names.

use crate::launcher::confine::layers::PathRule;
use crate::tools::Builtin;
use crate::tools::builtin::host::{ProcNames, proc_names};
use landlock::AccessFs;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

/// The kernel makes the files in this folder again at each look-up: the rule is on the folder.
const NET: &str = "1/net";

/// The host's `/proc`, and what tools read in it.
#[derive(Debug)]
pub(crate) struct KeptProc {
    pub(crate) root: OwnedFd,
    pins: BTreeMap<&'static str, OwnedFd>,
}

impl KeptProc {
    /// Opens it. A name that this kernel does not have, or does not show, is left out.
    pub(crate) fn open() -> Result<Self, String> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = openat(CWD, "/proc", flags | OFlags::DIRECTORY, Mode::empty());
        let root = root.map_err(|e| format!("`/proc`: {e}"))?;
        let mut pins = BTreeMap::new();
        for name in Builtin::ON_HOST.iter().flat_map(|which| proc_names(*which).files) {
            if let Ok(fd) = openat(&root, pinned(name), flags | OFlags::NOFOLLOW, Mode::empty()) {
                pins.insert(pinned(name), fd);
            }
        }
        Ok(Self { root, pins })
    }

    /// What a tool with these names may read.
    pub(crate) fn grants(&self, names: &ProcNames) -> Vec<PathRule<'_>> {
        let pins =
            self.pins_of(names).map(|fd| PathRule { at: fd.as_fd(), rights: AccessFs::ReadFile.into() });
        let all = PathRule { at: self.root.as_fd(), rights: AccessFs::ReadFile | AccessFs::ReadDir };
        pins.chain((!names.of_process.is_empty()).then_some(all)).collect()
    }

    /// The descriptors that a call of such a tool keeps.
    pub(crate) fn descriptors(&self, names: &ProcNames) -> Vec<RawFd> {
        self.pins_of(names).chain([&self.root]).map(|fd| fd.as_raw_fd()).collect()
    }

    /// Opens `name` for reading.
    pub(crate) fn open_file(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // Through the folder's own descriptor: the one above it may be hidden from this user.
        match (name.strip_prefix(NET).and_then(|rest| rest.strip_prefix('/')), self.pins.get(NET)) {
            (Some(rest), Some(net)) => openat(net, rest, flags, Mode::empty()),
            _ => openat(&self.root, name, flags, Mode::empty()),
        }
    }

    fn pins_of(&self, names: &ProcNames) -> impl Iterator<Item = &OwnedFd> {
        let wanted: Vec<&str> = names.files.iter().map(|name| pinned(name)).collect();
        self.pins.iter().filter(move |(name, _)| wanted.contains(name)).map(|(_, fd)| fd)
    }
}

/// What is pinned for `name`.
fn pinned(name: &'static str) -> &'static str {
    if name.starts_with(NET) { NET } else { name }
}
