//! Why the configuration was refused.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why the configuration was refused, and where to correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", .place.display(), .line.map_or_else(String::new, |line| format!(":{line}")))]
pub struct ConfigError {
    /// The file or the variable.
    pub place: PathBuf,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

/// Every fault of the configuration, in the order of lines, then of keys. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigFaults(pub Vec<ConfigError>);

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if at == 0 { "" } else { "\npar: " })?;
        }
        Ok(())
    }
}

impl From<ConfigError> for ConfigFaults {
    fn from(fault: ConfigError) -> Self {
        Self(vec![fault])
    }
}

impl ConfigError {
    pub(super) fn file(file: &Path, line: Option<usize>, reason: String) -> Self {
        Self { place: file.to_owned(), line, reason }
    }

    pub(super) fn variable(name: &str, reason: String) -> Self {
        Self { place: PathBuf::from(name), line: None, reason }
    }
}
