//! The sockets that a manifest connects its program to.

use super::paths::Places;
use std::fmt;
use std::path::PathBuf;

/// One connection that a program is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connect {
    /// A unix stream socket, by its path without links.
    Unix(PathBuf),
}

impl Connect {
    /// Reads `unix:` and an absolute path. An abstract name is refused: any process could take it.
    pub(super) fn parse(entry: &str, places: &Places) -> Result<Self, String> {
        match entry.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(places.resolve(path)?)),
            Some(_) => Err(format!("`{entry}` is not `unix:` with an absolute path")),
            None => Err(format!("`{entry}` is not a `unix:` socket")),
        }
    }
}

impl fmt::Display for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
