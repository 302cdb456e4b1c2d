//! The head of a tree: its number of leaves and its root.

use crate::types::Digest;

/// A state of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of entries.
    pub size: u64,
    /// Merkle root over them.
    pub root: Digest,
}
