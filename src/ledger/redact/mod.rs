//! Erasing payloads, on a person's word: what may go, the commit that erases, and the search for what is
//! left.
//!
//! What may happen here: the writer is asked to append `redaction` entries that erase payloads. What cannot:
//! no header, tile or checkpoint is changed; no payload goes that keys, rules or approvals are made from;
//! nothing is called erased that a file still holds without the report saying where.
//!
//! # Layout
//!
//! `error` · `payload` is what goes · `runs` says what has to stay · `words` finds the same words elsewhere ·
//! `residue` searches raw bytes · `index` takes the words out of index.db · `cleanse` empties the logs ·
//! `erasure` is the whole of it.

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
