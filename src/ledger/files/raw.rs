//! The raw bytes of the files, whatever SQLite says of them.

use super::paths::Files;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The databases' files, opened once and kept: to close one of them would take from every connection of this
/// process its POSIX lock, and then a stranger's `sqlite3` could take the write-ahead log away.
#[derive(Debug, Default)]
pub(in crate::ledger) struct RawFiles {
    open: Mutex<BTreeMap<PathBuf, File>>,
}

impl RawFiles {
    /// Has `look` read the file at `path`.
    pub(in crate::ledger) fn with<T>(
        &self,
        path: &Path,
        look: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        // A panic elsewhere leaves the map whole: each change is one insertion.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let there = std::fs::metadata(path)?;
        let is_same = |file: &File| {
            file.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (there.dev(), there.ino()))
        };
        // Another file under the name: nobody has locks on the one before any more.
        if !open.get(path).is_some_and(is_same) {
            open.insert(path.to_owned(), File::open(path)?);
        }
        open.get(path).map_or_else(|| Err(io::ErrorKind::NotFound.into()), look)
    }
}

/// A file of `data/` as it is told.
pub(in crate::ledger) fn name(files: &Files, path: &Path) -> String {
    path.strip_prefix(&files.data).unwrap_or(path).display().to_string()
}
