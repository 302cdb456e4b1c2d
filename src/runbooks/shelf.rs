//! All runbooks, and the table of their phrases.

use super::book::{GivenRunbook, Runbook};
use super::fault::RunbookFault;
use super::front::folded;
use super::source::{RunbookFile, RunbookTools};
use crate::types::{Digest, limits};
use std::collections::BTreeMap;

/// All runbooks. Immutable once loaded.
#[derive(Clone, Debug, Default)]
pub struct Runbooks {
    books: BTreeMap<String, Runbook>,
    /// Each phrase, also that of each alert, folded, with the name of its runbook and the service
    /// that it names.
    phrases: BTreeMap<String, (String, Option<String>)>,
    /// `runbooks.d/NAME.md` with the digest of its bytes.
    files: BTreeMap<String, Digest>,
}

impl Runbooks {
    /// Reads runbooks.
    ///
    /// # Errors
    ///
    /// Every fault of every file: front matter, a step that is not a valid call, an unknown tool,
    /// a phrase or an alert of two runbooks.
    pub fn parse(files: &[RunbookFile], tools: &RunbookTools<'_>) -> Result<Self, Vec<RunbookFault>> {
        let (mut all, mut faults) = (Self::default(), Vec::new());
        let mut alerts: BTreeMap<String, String> = BTreeMap::new();
        if let Some(over) = files.get(limits::RUNBOOKS_MAX) {
            let reason = format!("at most {} runbooks are allowed", limits::RUNBOOKS_MAX);
            faults.push(RunbookFault::whole(&over.name, reason));
        }
        for file in files {
            all.files.insert(file.name.clone(), file.digest());
            let (book, front) = match Runbook::parse(file, tools) {
                Ok(read) => read,
                Err(found) => {
                    faults.extend(found);
                    continue;
                }
            };
            let mut phrases = front.phrases();
            for (alert, line) in &front.alert {
                if let Some(other) = alerts.insert(folded(alert), book.name.clone()) {
                    let reason = format!("the alert `{alert}` belongs to `{other}` already");
                    faults.push(RunbookFault::at(&file.name, *line, reason));
                    continue;
                }
                let of_alert = front.phrases_of_alert(alert).into_iter();
                phrases.extend(of_alert.map(|(phrase, service)| (phrase, service, *line)));
            }
            for (phrase, service, line) in phrases {
                if let Some((other, _)) = all.phrases.get(&phrase) {
                    let reason = format!("the phrase `{phrase}` chooses `{other}` already");
                    faults.push(RunbookFault::at(&file.name, line, reason));
                }
                all.phrases.insert(phrase, (book.name.clone(), service));
            }
            all.books.insert(book.name.clone(), book);
        }
        if faults.is_empty() { Ok(all) } else { Err(faults) }
    }

    /// Runbooks whose files are known only by their digests: none can be chosen.
    #[must_use]
    pub fn known_by(files: BTreeMap<String, Digest>) -> Self {
        Self { files, ..Self::default() }
    }

    /// The digest of each file, by its name.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Digest> {
        &self.files
    }

    /// Every runbook, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Runbook> {
        self.books.values()
    }

    /// The runbook of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Runbook> {
        self.books.get(name)
    }

    /// The runbook that `message` chooses: one of its phrases, or `alert` and one of its alerts, is
    /// the whole message, apart from case and white space.
    #[must_use]
    pub fn chosen(&self, message: &str) -> Option<GivenRunbook> {
        if message.len() > 2 * limits::RUNBOOK_PHRASE_BYTES_MAX {
            return None;
        }
        let (name, service) = self.phrases.get(&folded(message))?;
        Some(self.books.get(name)?.given(service.as_deref()))
    }
}
