//! Why a bundle is not loaded, with file and line.

use super::origin::{Origin, line_of};
use crate::types::{limits, text};
use miette::Diagnostic;
use std::collections::BTreeMap;

/// One policy file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its name in messages and in the digest, such as `policies/10-read.cedar`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Why a bundle was not loaded, and where to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct PolicyError {
    /// The file, or the tool with the faulty schema.
    pub file: String,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// The text of that line.
    pub shown: Option<String>,
    /// The reason.
    pub reason: String,
    /// How to fix it, if known.
    pub mend: Option<String>,
}

impl PolicyError {
    fn words(&self) -> String {
        let line = self.line.map_or_else(String::new, |line| format!(":{line}"));
        let shown = self.shown.as_ref().map_or_else(String::new, |shown| format!("\n    | {shown}"));
        let mend = self.mend.as_ref().map_or_else(String::new, |mend| format!("\n    = {mend}"));
        // What stands in the file is repeated, and a file may hold what moves a cursor.
        text::visible(&format!("{}{line}: {}{shown}{mend}", self.file, self.reason))
    }

    pub(in crate::policy) fn mended(self, by: impl Into<String>) -> Self {
        Self { mend: Some(by.into()), ..self }
    }
}

/// How to fix an error, in Cedar's words: its help, or else what it expected.
pub(in crate::policy) fn help(error: &dyn Diagnostic) -> Option<String> {
    let expected = || error.labels()?.next()?.label().map(str::to_owned);
    error.help().map(|help| help.to_string()).or_else(expected)
}

/// Sorts the errors and keeps one per line, and each unknown name. One cause makes Cedar report
/// many errors: one for each tool, and one for each consequence. An unknown name is a cause of its
/// own; "is impossible" is kept last, and a permit without any scope is reported as that before its
/// action is.
pub(in crate::policy) fn one_per_line(mut errors: Vec<PolicyError>) -> Vec<PolicyError> {
    let rank = |error: &PolicyError| match &error.reason {
        reason if reason.contains("unrecognized") || reason.starts_with("unknown ") => 0,
        // A letter that looks like another: this says more than that the name is unknown.
        reason if reason.contains("mixed scripts") => 0,
        reason if reason.contains("is impossible") => 3,
        reason if reason.starts_with("a permit without an action") => 2,
        _ => 1,
    };
    errors.sort_by_cached_key(|error| (error.file.clone(), error.line, rank(error), error.reason.clone()));
    errors.dedup_by(|later, kept| {
        let is_same_line = later.line.is_some() && (&later.file, later.line) == (&kept.file, kept.line);
        is_same_line && (rank(later) > 0 || later.reason == kept.reason)
    });
    errors
}

/// Both lists, in the order of files and lines.
pub(in crate::policy) fn sorted(lists: [Vec<PolicyError>; 2]) -> Vec<PolicyError> {
    let mut all = lists.concat();
    all.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    all
}

/// The first place at or after the start of a policy that contains `words`. Used in messages only.
pub(in crate::policy) fn near(
    id: &str,
    words: &str,
    origins: &BTreeMap<String, Origin>,
    sources: &[SourceFile],
) -> Option<usize> {
    let (origin, text) = parsed(id, origins, sources)?;
    let start: usize = text.split_inclusive('\n').take(origin.line.saturating_sub(1)).map(str::len).sum();
    text.get(start..)?.find(words).map(|at| start + at)
}

/// The text that a policy's offsets refer to: its file, or the text of a link, which has the same
/// lines.
fn parsed<'a>(
    id: &str,
    origins: &'a BTreeMap<String, Origin>,
    sources: &'a [SourceFile],
) -> Option<(&'a Origin, &'a str)> {
    let origin = origins.get(id)?;
    let linked = origin.linked.as_ref().map(|linked| linked.text.as_str());
    let text = linked.or_else(|| Some(source_of(origin, sources)?.text.as_str()))?;
    Some((origin, text))
}

fn source_of<'a>(origin: &Origin, sources: &'a [SourceFile]) -> Option<&'a SourceFile> {
    sources.iter().find(|source| source.name == origin.file)
}

/// An error at the place that Cedar points to, or else at the start of the policy.
pub(in crate::policy) fn placed(
    id: &str,
    offset: Option<usize>,
    reason: String,
    origins: &BTreeMap<String, Origin>,
    sources: &[SourceFile],
) -> PolicyError {
    let Some((origin, text)) = parsed(id, origins, sources) else { return whole("policies", reason) };
    let line = offset.map_or(origin.line, |offset| line_of(text, offset));
    let written = source_of(origin, sources).and_then(|source| source.text.lines().nth(line - 1));
    let reason = match &origin.linked {
        Some(linked) => format!("{reason} (linked at {})", linked.at),
        None => reason,
    };
    PolicyError {
        file: origin.file.clone(),
        line: Some(line),
        shown: written.map(str::to_owned),
        reason,
        mend: None,
    }
}

pub(in crate::policy) fn whole(file: &str, reason: String) -> PolicyError {
    PolicyError { file: file.to_owned(), line: None, shown: None, reason, mend: None }
}

pub(in crate::policy) fn located(source: &SourceFile, offset: Option<usize>, reason: String) -> PolicyError {
    let line = offset.map(|offset| line_of(&source.text, offset));
    let shown = line.and_then(|line| source.text.lines().nth(line - 1));
    let shown = shown.map(|line| text::prefix(line, limits::SHOWN_BYTES_MAX).to_owned());
    PolicyError { file: source.name.clone(), line, shown, reason, mend: None }
}

pub(in crate::policy) fn first_offset(error: &dyn Diagnostic) -> Option<usize> {
    error.labels().and_then(|mut labels| labels.next()).map(|label| label.offset())
}

#[cfg(test)]
mod tests {
    use super::{SourceFile, located};

    /// A policy may come from elsewhere, and its line is shown on a terminal.
    #[test]
    fn the_line_that_is_shown_is_visible() {
        let source =
            SourceFile { name: "p.cedar".to_owned(), text: "permit\n\u{1b}[2J\u{202e};\n".to_owned() };
        let error = located(&source, Some(7), "unexpected `\u{1b}`".to_owned());
        assert_eq!(error.to_string(), "p.cedar:2: unexpected `\\u{1b}`\n    | \\u{1b}[2J\\u{202e};");
    }
}
