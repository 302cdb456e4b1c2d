//! Verification.

pub(super) mod entry;
pub(super) mod walk;
pub(super) mod erasures;
pub(super) mod pipeline;
pub(super) mod whole;
pub(super) mod partial;

pub(super) use walk::{Report, Verdict, tile_hashes};
