//! The names of keys, for people who read the files of a ledger.

use super::record::key_names;
use crate::ledger::Files;
use crate::ledger::query::KeyNames;
use crate::store;

/// The names in state.db, which is opened for reading; none if it cannot be read. Names are only
/// shown, never decided on.
#[must_use]
pub fn key_names_of(files: &Files) -> KeyNames {
    let state = store::open_reader(&files.state()).ok();
    state.and_then(|state| key_names(&state).ok()).unwrap_or_default()
}
