//! The high-water mark: the size and root of the ledger at its last write.

use crate::ledger::tree::Head;
use crate::types::Digest;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The high-water mark. It is written after each commit and not synced, so it may lag but never
/// leads the ledger.
#[derive(Debug)]
pub struct HighWater {
    file: std::fs::File,
}

impl HighWater {
    pub(in crate::ledger) fn open(path: &Path) -> std::io::Result<Self> {
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Self { file })
    }

    /// Writes `head`. A failure only leaves a mark that lags.
    pub(in crate::ledger) fn write(&self, head: Head) {
        if let Err(e) = self.file.write_all_at(Self::line(head).as_bytes(), 0) {
            tracing::warn!(error = %e, "cannot write the high-water mark");
        }
    }

    /// Reads the mark; `None` if it is missing or malformed.
    #[must_use]
    pub fn read(path: &Path) -> Option<Head> {
        let text = std::fs::read_to_string(path).ok()?;
        let (size, root) = text.trim_end().split_once(' ')?;
        let read = Head { size: size.parse().ok()?, root: Digest::from_hex(root)? };
        (Self::line(read) == text).then_some(read)
    }

    fn line(head: Head) -> String {
        format!("{:020} {}\n", head.size, head.root)
    }

    /// Whether the file holds something other than a mark. A crash during the first write may leave
    /// an empty file, which counts as a missing mark.
    #[must_use]
    pub fn is_garbled(path: &Path) -> bool {
        Self::read(path).is_none() && std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
    }
}
