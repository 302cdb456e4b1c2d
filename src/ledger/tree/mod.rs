//! The Merkle tree over the headers of all entries (RFC 6962), its tiles and its proofs.
//!
//! This wing computes hashes from bytes and from other hashes. It touches no disk and no clock, and
//! it does not decide whether a root is the right one: a signature does, in `checkpoint`.
//!
//! # Layout
//!
//! `head` is a size with its root · `merkle` has leaves, the frontier and tiles · `proof` makes and
//! checks proofs.

mod head;
mod merkle;
pub mod proof;

pub use head::Head;
pub(super) use merkle::{Frontier, TILE_WIDTH, Tile, TileEdge, leaf};
