//! `par backup` and `par restore`: a home without the signing keys, and a new log after it.
//!
//! # Layout
//!
//! * `list`: the list of the files in a backup
//! * `copy`: files and folders
//! * `take`: `par backup`
//! * `restore`: `par restore`

mod list;
mod copy;
mod take;
mod restore;

pub(super) use restore::Restore;
pub(super) use take::Backup;
