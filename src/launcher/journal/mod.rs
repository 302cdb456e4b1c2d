//! The launcher's own journal: what it was ordered to start, and how that ended.
//!
//! It lies in a folder of the launcher's user, so that a compromised front can neither write it nor
//! leave anything out. Each order has two lines, one before the start and one after the end, each
//! with the SHA-256 of the line before. Each launcher has its own file, whose first line holds the
//! hash of the last line that existed then. Lines are written and not synced. If a line cannot be
//! written, nothing is started.
//!
//! If the launcher runs as the front's own user, the journal does not count as evidence against the
//! front.
//!
//! # Layout
//!
//! * `write`: what a launcher does.
//! * `read`: what `par audit verify --launcher` does; no launcher reaches it.

mod write;
mod read;

pub use read::{Journals, Ordered};
pub(super) use write::Journal;
