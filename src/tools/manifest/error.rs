//! Why a manifest was refused.

use crate::types::text;
use std::path::{Path, PathBuf};

/// Why a manifest was refused, and where to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{}: {}", .file.display(), .line.map_or_else(String::new, |line| format!(":{line}")), text::visible(.reason)
)]
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

#[cfg(test)]
mod tests {
    use super::InFile;
    use std::path::Path;

    /// It may come from a package, and is shown on a terminal.
    #[test]
    fn what_is_repeated_of_the_file_is_visible() {
        let file = InFile { file: Path::new("t.toml"), bytes: b"name = \"\\u001b[2J\"\n" };
        let error = file.at(Some("name"), "`\u{1b}[2J` is no name\nand \u{202e}");
        assert_eq!(error.to_string(), "t.toml:1: `\\u{1b}[2J` is no name\nand \\u{202e}");
    }
}
