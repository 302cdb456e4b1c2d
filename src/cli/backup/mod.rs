//! `par backup` and `par restore`: a home without the keys that sign, and another log that begins behind it.
//!
//! # Layout
//!
//! `list`: what is in a backup · `copy`: files and folders · `take`: `par backup` · `restore`: `par restore`.

mod list;
mod copy;
mod take;
mod restore;

pub(super) use restore::Restore;
pub(super) use take::Backup;
