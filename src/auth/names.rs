//! The names of keys, for people who read the files of a ledger.

use super::record::{key_names, key_owners};
use crate::ledger::Files;
use crate::ledger::query::KeyNames;
use crate::store;
use std::collections::BTreeSet;

/// The names in state.db, which is opened for reading; none if it cannot be read. Names are only
/// shown, never decided on.
#[must_use]
pub fn key_names_of(files: &Files) -> KeyNames {
    let state = store::open_reader(&files.state()).ok();
    state.and_then(|state| key_names(&state).ok()).unwrap_or_default()
}

/// The ids of all keys in state.db, revoked ones too, and the users that they name; `None` if it
/// cannot be read. For notes only: the rows are not compared with the ledger.
#[must_use]
pub fn known_keys(files: &Files) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
    let state = store::open_reader(&files.state()).ok()?;
    key_owners(&state).ok()
}
