//! Why a manifest was refused.

use std::path::{Path, PathBuf};

/// Why a manifest was refused, and where to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", .file.display(), .line.map_or_else(String::new, |line| format!(":{line}")))]
pub struct ManifestError {
    /// The file.
    pub file: PathBuf,
    /// Line in the file, from 1, if known.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

/// Makes errors that point into the file.
#[derive(Clone, Copy)]
pub(super) struct InFile<'a> {
    pub(super) file: &'a Path,
    pub(super) bytes: &'a [u8],
}

impl InFile<'_> {
    /// An error at the first line that starts with `key`, if any.
    pub(super) fn at(&self, key: Option<&str>, reason: &str) -> ManifestError {
        let text = String::from_utf8_lossy(self.bytes);
        let line = key.and_then(|key| {
            text.lines().position(|line| line.trim_start().starts_with(key)).map(|at| at + 1)
        });
        ManifestError { file: self.file.to_owned(), line, reason: reason.to_owned() }
    }

    pub(super) fn toml(&self, error: &toml::de::Error) -> ManifestError {
        let line =
            error.span().map(|span| 1 + self.bytes.iter().take(span.start).filter(|b| **b == b'\n').count());
        ManifestError { file: self.file.to_owned(), line, reason: error.message().to_owned() }
    }
}
