//! Who goes first where the host runs out of memory: calls' children.

use rustix::fs::{Mode, OFlags, openat};
use std::os::fd::OwnedFd;

/// The `oom_score_adj` of calls' children: any of them goes before a service does.
const OOM_SCORE: &[u8] = b"1000";

/// This process's `oom_score_adj` (proc_pid_oom_score_adj(5)).
#[derive(Debug)]
pub(crate) struct Score {
    /// In the host's `/proc`: the view's is not written to.
    file: OwnedFd,
    /// As it was at the start.
    own: Vec<u8>,
}

impl Score {
    pub(crate) fn open(proc: &OwnedFd) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(proc, "self/oom_score_adj", flags, Mode::empty()).ok()?;
        let mut own = vec![0; 16];
        let length = rustix::io::pread(&file, &mut own, 0).ok()?;
        own.truncate(length);
        Some(Self { file, own })
    }

    /// What `start` forks is a first victim from its first moment on; this process stays what it is.
    pub(crate) fn as_victim(
        &self,
        start: impl FnOnce() -> std::io::Result<Option<OwnedFd>>,
    ) -> std::io::Result<Option<OwnedFd>> {
        // One that cannot be raised stays as it is: no wall hangs on it.
        let _ = rustix::io::write(&self.file, OOM_SCORE);
        let started = start();
        // The child has its own, and nothing to do with this process's.
        if !matches!(started, Ok(None)) {
            let _ = rustix::io::write(&self.file, &self.own);
        }
        started
    }
}
