//! Which processes are killed first if the host runs out of memory: calls' children.

use rustix::fs::{Mode, OFlags, openat};
use std::os::fd::OwnedFd;

/// The `oom_score_adj` of calls' children: each is killed before any service.
const OOM_SCORE: &[u8] = b"1000";

/// This process's `oom_score_adj` (proc_pid_oom_score_adj(5)).
#[derive(Debug)]
pub(crate) struct Score {
    /// In the host's `/proc`: the view's is read-only.
    file: OwnedFd,
    /// The value at the start.
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

    /// Makes what `start` forks a first victim from its first moment on; this process keeps its own
    /// score.
    pub(crate) fn as_victim(
        &self,
        start: impl FnOnce() -> std::io::Result<Option<OwnedFd>>,
    ) -> std::io::Result<Option<OwnedFd>> {
        // A score that cannot be raised stays as it is: no protection depends on it.
        let _ = rustix::io::write(&self.file, OOM_SCORE);
        let started = start();
        // The child has its own score, and does not touch this process's.
        if !matches!(started, Ok(None)) {
            let _ = rustix::io::write(&self.file, &self.own);
        }
        started
    }
}
