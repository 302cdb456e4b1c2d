//! The raw bytes of the files, read past SQLite.

use super::paths::Files;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The database files, opened once and kept open. Closing one would drop the POSIX locks of every
/// connection of this process, and then a foreign `sqlite3` process could remove the write-ahead
/// log.
#[derive(Debug, Default)]
pub(in crate::ledger) struct RawFiles {
    open: Mutex<BTreeMap<PathBuf, File>>,
}

impl RawFiles {
    /// Calls `read` with the file at `path`.
    pub(in crate::ledger) fn with<T>(
        &self,
        path: &Path,
        read: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        // A panic elsewhere leaves the map consistent: each change is one insertion.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let there = std::fs::metadata(path)?;
        let is_same = |file: &File| {
            file.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (there.dev(), there.ino()))
        };
        // The name now belongs to another file, so no connection holds locks on the old one any
        // more.
        if !open.get(path).is_some_and(is_same) {
            open.insert(path.to_owned(), File::open(path)?);
        }
        open.get(path).map_or_else(|| Err(io::ErrorKind::NotFound.into()), read)
    }
}

/// The name of a file in `data/`, for messages.
pub(in crate::ledger) fn name(files: &Files, path: &Path) -> String {
    path.strip_prefix(&files.data).unwrap_or(path).display().to_string()
}
