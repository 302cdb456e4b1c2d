//! The Merkle tree of RFC 6962 over entry headers: leaves, the frontier, and stored tiles.
//!
//! Pure: no disk, no clock.

use crate::types::Digest;

/// Hashes in a full tile (C2SP tlog-tiles).
pub const TILE_WIDTH: usize = 256;

/// Tree heights of one level of tiles.
const TILE_HEIGHT: u32 = 8;

/// Leaf hash of an entry: SHA-256(0x00 ‖ header) (RFC 6962 section 2.1).
#[must_use]
pub fn leaf(header: &[u8]) -> Digest {
    Digest::sha256_parts(&[&[0], header])
}

/// Interior node: SHA-256(0x01 ‖ left ‖ right).
#[must_use]
pub fn node(left: &Digest, right: &Digest) -> Digest {
    Digest::sha256_parts(&[&[1], &left.0, &right.0])
}

/// Root of the tree without leaves: SHA-256 of the empty string.
#[must_use]
pub fn empty_root() -> Digest {
    Digest::sha256(&[])
}

/// The roots of the perfect subtrees that make up a tree, largest first: all that is needed to
/// append and to compute the root. At most 64 hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// Height and root of each perfect subtree; heights fall strictly.
    peaks: Vec<(u32, Digest)>,
}

impl Frontier {
    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Becomes a copy of `other`, reusing its own memory.
    pub fn set(&mut self, other: &Self) {
        self.size = other.size;
        self.peaks.clone_from(&other.peaks);
    }

    /// Appends a leaf hash.
    pub fn push(&mut self, leaf: Digest) {
        self.push_subtree(0, leaf);
    }

    /// Appends a perfect subtree of 2^height leaves; the size must be a multiple of 2^height.
    pub fn push_subtree(&mut self, height: u32, root: Digest) {
        self.grow(height, root, |_, _| {});
    }

    /// Appends a perfect subtree, and passes height and root of each subtree that this completes to
    /// `complete`, the smallest first.
    fn grow(&mut self, mut height: u32, mut root: Digest, mut complete: impl FnMut(u32, Digest)) {
        debug_assert!(self.size.is_multiple_of(1 << height), "subtree at an unaligned position");
        self.size += 1 << height;
        while let Some((left_height, left)) = self.peaks.last() {
            if *left_height != height {
                break;
            }
            root = node(left, &root);
            height += 1;
            self.peaks.pop();
            complete(height, root);
        }
        self.peaks.push((height, root));
    }

    /// The root hash (RFC 6962 section 2.1).
    #[must_use]
    pub fn root(&self) -> Digest {
        let mut smallest_first = self.peaks.iter().rev().map(|(_, peak)| *peak);
        let Some(last) = smallest_first.next() else { return empty_root() };
        smallest_first.fold(last, |right, left| node(&left, &right))
    }
}

/// A full tile: 256 neighbouring hashes at a level of 8 tree heights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// 0 for leaves; a hash at level L covers 256^L leaves.
    pub level: u32,
    /// Position among the tiles of its level, from 0.
    pub index: u64,
    /// The 256 hashes.
    pub hashes: Vec<Digest>,
}

impl Tile {
    /// The key in the table `tile`: level × 2^48 + index.
    #[must_use]
    pub fn key(level: u32, index: u64) -> i64 {
        i64::from(level) << 48 | i64::try_from(index).unwrap_or(i64::MAX) & ((1 << 48) - 1)
    }

    /// The entry that fills tile `index` of a level. The tile is stored in that entry's commit.
    #[must_use]
    pub fn filled_by(level: u32, index: u64) -> u64 {
        let leaves = 1_u64.checked_shl(8 * (level + 1)).unwrap_or(u64::MAX);
        (index + 1).saturating_mul(leaves) - 1
    }

    /// As [`Tile::filled_by`], for the tile with this key of the table.
    #[must_use]
    pub fn filled_at(key: i64) -> u64 {
        let key = u64::try_from(key).unwrap_or(u64::MAX);
        let level = u32::try_from(key >> 48).unwrap_or(u32::MAX);
        Self::filled_by(level.min(7), key & ((1 << 48) - 1))
    }

    /// The stored bytes: the hashes in order, 8,192 bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.hashes.iter().flat_map(|hash| hash.0).collect()
    }

    /// The hashes of a stored tile. If the length is not a multiple of 32, the remainder is
    /// dropped; the comparison of the whole tile detects it.
    #[must_use]
    pub fn stored(bytes: &[u8]) -> Vec<Digest> {
        bytes.chunks_exact(32).filter_map(|chunk| chunk.try_into().ok().map(Digest)).collect()
    }

    /// Root of the perfect subtree that the tile covers.
    #[must_use]
    pub fn root(hashes: &[Digest]) -> Digest {
        let mut frontier = Frontier::default();
        for hash in hashes {
            frontier.push(*hash);
        }
        frontier.root()
    }
}

/// The right edge of the tile tree: at each level the hashes that do not fill a tile yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileEdge {
    levels: Vec<Vec<Digest>>,
    tiles: Vec<u64>,
}

impl TileEdge {
    /// Appends a leaf hash; returns the tiles that it filled, lowest level first.
    pub fn push(&mut self, leaf: Digest) -> Vec<Tile> {
        self.push_with(leaf, |tile, _| Tile::root(&tile.hashes))
    }

    /// Appends a leaf hash to this edge and to the frontier of the same tree, computing each hash
    /// once.
    pub fn push_with_frontier(&mut self, frontier: &mut Frontier, leaf: Digest) -> Vec<Tile> {
        // A tile's root is the root of a subtree that the leaf completes too.
        let mut roots = Vec::new();
        frontier.grow(0, leaf, |height, root| {
            if height.is_multiple_of(TILE_HEIGHT) {
                roots.push(root);
            }
        });
        self.push_with(leaf, |tile, level| {
            roots.get(level).copied().unwrap_or_else(|| Tile::root(&tile.hashes))
        })
    }

    fn push_with(&mut self, leaf: Digest, root: impl Fn(&Tile, usize) -> Digest) -> Vec<Tile> {
        let mut filled = Vec::new();
        let mut hash = leaf;
        for level in 0.. {
            let Some(tile) = self.push_at(level, hash) else { break };
            hash = root(&tile, level);
            filled.push(tile);
        }
        filled
    }

    fn push_at(&mut self, level: usize, hash: Digest) -> Option<Tile> {
        if self.levels.len() == level {
            self.levels.push(Vec::with_capacity(TILE_WIDTH));
            self.tiles.push(0);
        }
        let (open, count) = self.levels.get_mut(level).zip(self.tiles.get_mut(level))?;
        open.push(hash);
        if open.len() < TILE_WIDTH {
            return None;
        }
        let tile = Tile { level: u32::try_from(level).ok()?, index: *count, hashes: std::mem::take(open) };
        *count += 1;
        Some(tile)
    }

    /// The edge and frontier of a tree of `size` leaves, from its tiles and its last leaves.
    ///
    /// `tile` reads the stored hashes of a full tile; `leaves` are the last `size % 256` leaf
    /// hashes. Reads at most 255 tiles per level. This does not verify the tree; a verification
    /// recomputes every tile.
    pub fn resume<E>(
        size: u64,
        leaves: Vec<Digest>,
        mut tile: impl FnMut(u32, u64) -> Result<Vec<Digest>, E>,
    ) -> Result<(Self, Frontier), E> {
        let mut levels = vec![leaves];
        let mut tiles = vec![size / TILE_WIDTH as u64];
        let mut below = size / TILE_WIDTH as u64;
        for level in 1_u32.. {
            if below == 0 {
                break;
            }
            let full = below / TILE_WIDTH as u64;
            let open = (full * TILE_WIDTH as u64..below)
                .map(|index| tile(level - 1, index).map(|hashes| Tile::root(&hashes)))
                .collect::<Result<Vec<_>, _>>()?;
            levels.push(open);
            tiles.push(full);
            below = full;
        }
        let mut frontier = Frontier::default();
        for (level, open) in levels.iter().enumerate().rev() {
            for hash in open {
                frontier.push_subtree(u32::try_from(level * 8).unwrap_or(u32::MAX), *hash);
            }
        }
        Ok((Self { levels, tiles }, frontier))
    }
}

#[cfg(test)]
mod tests {
    use super::{Frontier, Tile, TileEdge, empty_root, leaf, node};
    use crate::types::Digest;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// MTH of RFC 6962 section 2.1, literally: split at the largest power of two below n.
    fn by_definition(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => empty_root(),
            [one] => *one,
            more => {
                let split = more.len().next_power_of_two() / 2;
                node(&by_definition(&more[..split]), &by_definition(&more[split..]))
            }
        }
    }

    fn leaves(count: usize) -> Vec<Digest> {
        (0..count).map(|at| leaf(&at.to_be_bytes())).collect()
    }

    #[test]
    fn known_roots() {
        assert_eq!(empty_root().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(leaf(b"").hex(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(24))]

        /// The frontier's root equals the RFC's recursive definition at every size.
        #[test]
        fn frontier_is_the_definition(count in 0_usize..700) {
            let mut frontier = Frontier::default();
            let all = leaves(count);
            for hash in &all { frontier.push(*hash); }
            prop_assert_eq!(frontier.root(), by_definition(&all));
            prop_assert_eq!(frontier.size(), count as u64);
        }

        /// A tree resumed from its tiles continues exactly like one that was kept in memory.
        #[test]
        fn resumed_equals_unbroken(count in 0_usize..70_000, more in 0_usize..600) {
            let (mut edge, mut frontier) = (TileEdge::default(), Frontier::default());
            let mut stored: HashMap<i64, Vec<Digest>> = HashMap::new();
            let all = leaves(count + more);
            for hash in &all[..count] {
                for tile in edge.push_with_frontier(&mut frontier, *hash) { stored.insert(Tile::key(tile.level, tile.index), tile.hashes); }
            }
            let tail = all[count - count % 256..count].to_vec();
            let (mut edge2, mut frontier2) = TileEdge::resume(count as u64, tail, |level, index| {
                stored.get(&Tile::key(level, index)).cloned().ok_or(())
            }).expect("stored tiles");
            prop_assert_eq!(&frontier2, &frontier);
            for hash in &all[count..] {
                frontier2.push(*hash);
                prop_assert_eq!(edge.push_with_frontier(&mut frontier, *hash), edge2.push(*hash));
            }
            prop_assert_eq!(frontier.root(), frontier2.root());
        }
    }
}
