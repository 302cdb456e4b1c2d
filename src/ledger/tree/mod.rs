//! The Merkle tree over the headers of all entries (RFC 6962), its tiles and its proofs.
//!
//! What may happen here: hashes are made of bytes and of other hashes. What cannot: nothing in this wing
//! touches a disk or a clock, and nothing decides whether a root is the right one: a signature does, in
//! `checkpoint`.
//!
//! # Layout
//!
//! `head` is a size with its root · `merkle` has leaves, the frontier and tiles · `proof` makes and checks
//! proofs.

mod head;
mod merkle;
pub mod proof;

pub use head::Head;
pub(super) use merkle::{Frontier, TILE_WIDTH, Tile, TileEdge, leaf};
