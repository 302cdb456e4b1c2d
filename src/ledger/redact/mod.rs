//! Erasing payloads.

pub(super) mod residue;
pub(super) mod index;
pub(super) mod erasure;

pub(super) use residue::Raw;
