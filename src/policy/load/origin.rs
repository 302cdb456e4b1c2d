//! The place of a policy in its file.

/// The place of a policy; for a link, that of its template.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Origin {
    pub(in crate::policy) file: String,
    pub(in crate::policy) line: usize,
    pub(in crate::policy) linked: Option<Linked>,
}

impl Origin {
    /// `file:line`, and for a link also the place of the link.
    pub(in crate::policy) fn place(&self) -> String {
        let linked = self.linked.as_ref().map(|linked| format!(" by {}", linked.at));
        format!("{}:{}{}", self.file, self.line, linked.unwrap_or_default())
    }
}

/// A template with its slots filled.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Linked {
    /// `file:line` of the link.
    pub(in crate::policy) at: String,
    /// The policy as it was parsed, at the template's line.
    pub(in crate::policy) text: String,
}

/// The line of `text` that contains the byte at `offset`, from 1.
pub(in crate::policy) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
