//! Why a runbook is refused, with file and line.

use crate::types::text;

/// Why a runbook is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct RunbookFault {
    /// The file, such as `runbooks.d/disk-full.md`.
    pub file: String,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl RunbookFault {
    pub(super) fn at(file: &str, line: usize, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: Some(line), reason: reason.into() }
    }

    pub(super) fn whole(file: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, reason: reason.into() }
    }

    fn words(&self) -> String {
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        text::visible_line(&format!("{}{line}: {}", self.file, self.reason))
    }
}

/// The line of `offset` in `text`, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
