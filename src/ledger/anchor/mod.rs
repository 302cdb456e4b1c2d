//! Anchors: sends the newest checkpoint to a place outside the control of this host alone.
//!
//! A task logs a line, appends to a file or asks a witness, and then appends an `anchor` entry. No
//! entry claims an anchor before the place has taken the checkpoint, and no append waits for a
//! place. What the task remembers in `data/anchor` is for people and for the next start, and proves
//! nothing.
//!
//! # Layout
//!
//! `standing` is the state of the anchors · `failure` says why one was not made · `file` and
//! `witness` are places · `task` is the loop.

mod standing;
mod failure;
mod file;
mod witness;
mod task;

pub use failure::AnchorOpenError;
pub use standing::{Standing, warning};
pub use task::Anchor;
