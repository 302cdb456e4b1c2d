//! Exports and proof files.

pub mod proof_file;
pub(super) mod stream;
pub mod verify;

pub(super) use proof_file::{Evidence, Item};
