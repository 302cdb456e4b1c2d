//! The names of keys, for people who read the files of a ledger.

use super::record::{Created, state_row};
use crate::ledger::{Files, Reader, query};
use crate::store;
use crate::types::{KeyId, text};
use rusqlite::Connection;
use std::collections::HashMap;

/// Names of keys, looked up in state.db and read from the entries that created them. Without
/// state.db, a key is shown by its id.
#[derive(Debug)]
pub struct KeyNames<'a> {
    reader: &'a Reader,
    state: Option<Connection>,
    found: HashMap<String, String>,
}

impl<'a> KeyNames<'a> {
    /// Opens state.db for reading.
    #[must_use]
    pub fn open(files: &Files, reader: &'a Reader) -> Self {
        Self { reader, state: store::open_reader(&files.state()).ok(), found: HashMap::new() }
    }

    /// A principal as people know it: a key by its name and its user, such as `ops-ci (ben)`.
    pub fn of(&mut self, principal: &str) -> String {
        if let Some(known) = self.found.get(principal) {
            return known.clone();
        }
        let name = self.named(principal).unwrap_or_else(|| text::visible_line(principal));
        self.found.insert(principal.to_owned(), name.clone());
        name
    }

    fn named(&self, principal: &str) -> Option<String> {
        let id = KeyId::parse(principal.strip_prefix("key:")?)?;
        let row = state_row(self.state.as_ref()?, &id).ok()??;
        // The row only says which entry to read.
        let stored = self.reader.entry(row.created_seq).ok()??;
        let created = Created::from_stored(&stored).filter(|created| created.id == id)?;
        Some(query::named(&created.name, created.user.as_deref()))
    }
}
