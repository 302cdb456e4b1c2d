//! Anchors: the newest checkpoint is told to a place that this host does not rule alone.
//!
//! What may happen here: a line is logged, a file is appended to, or a witness is asked; then an `anchor`
//! entry is appended. What cannot: no entry says so before the place has taken the checkpoint, and no append
//! waits for a place.
//!
//! # Layout
//!
//! `standing` is how the anchors stand · `failure` why one was not made · `file` and `witness` are places ·
//! `task` is the loop.

mod standing;
mod failure;
mod file;
mod witness;
mod task;

pub use failure::AnchorOpenError;
pub use standing::{Standing, warning};
pub use task::Anchor;
