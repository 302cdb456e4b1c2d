//! The Merkle tree and its proofs.

pub(super) mod merkle;
pub mod proof;

pub(super) use merkle::{Frontier, TILE_WIDTH, Tile, TileEdge, leaf};
pub(super) use proof::is_included;
