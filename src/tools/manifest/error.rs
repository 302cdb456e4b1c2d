//! Why a manifest was refused.

use crate::types::text;
use std::fmt;
use std::path::{Path, PathBuf};

/// One fault of a manifest, and where to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{}: {}", .file.display(), .line.map_or_else(String::new, |line| format!(":{line}")), text::visible(.reason)
)]
pub struct ManifestError {
    /// The file.
    pub file: PathBuf,
    /// Line in the file, from 1, if known.
    pub line: Option<usize>,
    /// The reason; lines to paste into the file follow it, each after `    | `.
    pub reason: String,
}

/// Every fault of one or more manifests, in the order of files and lines. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestFaults(pub Vec<ManifestError>);

impl fmt::Display for ManifestFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// A fault: the key or the heading of the line that it is on, and the reason. A key below a heading
/// is `[resource] type`.
pub(super) type Fault = (&'static str, String);

/// `reason` with lines to paste into the file.
pub(super) fn with_lines(reason: &str, lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("\n    | {line}")).collect();
    format!("{reason}{lines}")
}

/// Makes errors that point into the file.
#[derive(Clone, Copy)]
pub(super) struct InFile<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

impl InFile<'_> {
    /// An error at the first line that starts with `key`, else at the first line.
    pub(super) fn at(&self, key: &str, reason: &str) -> ManifestError {
        let (heading, key) = match key.split_once("] ") {
            Some((heading, key)) => (Some(heading), key),
            None => (None, key),
        };
        let key = key.trim_end_matches(" =");
        let is_key = |line: &str| {
            let rest = line.trim_start().strip_prefix(key);
            rest.is_some_and(|rest| key.starts_with('[') || rest.trim_start().starts_with('='))
        };
        let lines = || self.text.lines().zip(1..);
        let from =
            heading.and_then(|heading| lines().find(|(line, _)| line.trim_start().starts_with(heading)));
        let from = from.map_or(1, |(_, at)| at);
        let found = lines().find(|(line, at)| *at >= from && is_key(line));
        ManifestError {
            file: self.file.to_owned(),
            line: Some(found.map_or(from, |(_, at)| at)),
            reason: reason.to_owned(),
        }
    }

    /// An error at the last line: what is missing belongs there.
    pub(super) fn at_end(&self, reason: String) -> ManifestError {
        let line = Some(self.text.lines().count().max(1));
        ManifestError { file: self.file.to_owned(), line, reason }
    }

    /// An error at a byte of the file, if known.
    pub(super) fn at_byte(&self, byte: Option<usize>, reason: String) -> ManifestError {
        let line = byte.map(|byte| 1 + self.text.bytes().take(byte).filter(|b| *b == b'\n').count());
        ManifestError { file: self.file.to_owned(), line, reason }
    }

    pub(super) fn toml(&self, error: &toml::de::Error) -> ManifestError {
        self.at_byte(error.span().map(|span| span.start), error.message().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::InFile;
    use std::path::Path;

    /// It may come from a package, and is shown on a terminal.
    #[test]
    fn what_is_repeated_of_the_file_is_visible() {
        let file = InFile { file: Path::new("t.toml"), text: "name = \"\\u001b[2J\"\n" };
        let error = file.at("name", "`\u{1b}[2J` is no name\nand \u{202e}");
        assert_eq!(error.to_string(), "t.toml:1: `\\u{1b}[2J` is no name\nand \\u{202e}");
    }
}
