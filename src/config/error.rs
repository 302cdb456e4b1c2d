//! Why the configuration was refused.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why the configuration was refused, with the place where it can be mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file or the variable.
    pub place: PathBuf,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl ConfigError {
    pub(super) fn file(file: &Path, line: Option<usize>, reason: String) -> Self {
        Self { place: file.to_owned(), line, reason }
    }

    pub(super) fn variable(name: &str, reason: String) -> Self {
        Self { place: PathBuf::from(name), line: None, reason }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for ConfigError {}
