//! The launcher's own journal: what it was ordered to start, and how that ended.
//!
//! It stands in a folder of the launcher's user, so that a front which was taken over can neither write it nor leave
//! anything out. Two lines for each order, one before the start and one behind the end, each with the SHA-256 of the
//! line before; a file for each launcher, whose first line holds that of the last line which was there. Lines are written and not
//! synced. Where one cannot be written nothing is started.
//!
//! Where the launcher runs as the front's own user this is no evidence against the front.
//!
//! # Layout
//!
//! `write` (what a launcher does), `read` (what `par audit verify --launcher` does; no launcher reaches it).

mod write;
mod read;

pub use read::{Journals, Ordered};
pub(super) use write::Journal;
