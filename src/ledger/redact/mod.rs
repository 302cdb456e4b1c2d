//! Erases payloads on a person's request: selects them, commits the erasure, and searches for
//! traces.
//!
//! This wing asks the writer to append `redaction` entries that erase payloads. Headers, tiles and
//! checkpoints do not change. Payloads that state.db, keys, rules or approvals are rebuilt from
//! stay, and so do those of a run that has not ended. If a file still holds a trace of an erased
//! payload, the report names it.
//!
//! The writer appends the `redaction` and empties the row in one transaction, and SQLite fills what
//! it frees with zeros. Then the writer truncates the write-ahead log, and tries again while a
//! reader has it open; otherwise a tick or the next opening does it. Finally the raw bytes of all
//! files are searched for the salt and pieces of the body. A piece that another entry still holds
//! does not count as a trace.
//!
//! # Layout
//!
//! `error` · `payload` is a payload to erase · `runs` decides what must stay · `words` finds the
//! same words in other entries · `residue` searches raw bytes · `index` removes the words from
//! index.db · `cleanse` truncates the logs · `erasure` runs it all.

mod error;
mod payload;
mod runs;
mod words;
mod residue;
mod index;
mod cleanse;
mod erasure;

pub use erasure::{Erasure, Redacted, Targets};
pub use error::RedactError;
