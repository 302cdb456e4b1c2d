//! Why rules were not loaded.

use std::path::PathBuf;

/// Why rules were not loaded: one reason for each fault, with its place if it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct RulesError(pub Vec<String>);

/// Why a file of the rules is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read, or others could have written it.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// It is not UTF-8 text.
    #[error("{}: is not UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
}
