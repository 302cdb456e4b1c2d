//! The reserve: space held back on the ledger's disk for records of what has already happened.

use crate::ledger::files::Files;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that only takes up space on the ledger's disk.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    pub(super) is_there: bool,
}

impl Reserve {
    /// The reserve of `files`, not allocated yet.
    pub(super) fn new(files: &Files) -> Self {
        Self { path: files.reserve(), bytes: files.reserve_bytes, is_there: false }
    }

    /// Allocates the file if it is not allocated yet, mode 0600. On an error the file is removed.
    pub(super) fn make(&mut self) -> io::Result<()> {
        if self.is_there || self.bytes == 0 {
            return Ok(());
        }
        let made = allocate(&self.path, self.bytes);
        if made.is_err() {
            drop(std::fs::remove_file(&self.path));
        }
        self.is_there = made.is_ok();
        made
    }

    /// Frees the space. Returns false if there was none to free.
    pub(super) fn free(&mut self) -> bool {
        if !std::mem::take(&mut self.is_there) {
            return false;
        }
        std::fs::remove_file(&self.path)
            .inspect_err(|e| tracing::error!(error = %e, "cannot free the reserve"))
            .is_ok()
    }

    /// Whether there is space for the reserve and the same amount again.
    pub(super) fn has_room(&self) -> bool {
        let wanted = if self.is_there { self.bytes } else { self.bytes.saturating_mul(2) };
        let folder = self.path.parent().unwrap_or(&self.path);
        Files::below(folder).free_bytes().is_none_or(|free| free >= wanted)
    }
}

fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let bytes = i64::try_from(bytes).map_err(io::Error::other)?;
    Ok(nix::fcntl::posix_fallocate(&file, 0, bytes)?)
}
