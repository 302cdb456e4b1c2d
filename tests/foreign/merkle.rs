//! Proofs over PAR's tree compared with those of another implementation of RFC 6962: each accepts
//! what the other proves.
//!
//! The roots from which PAR's proofs are made follow the definition in the RFC, written here a
//! third time.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use par::ledger::Head;
use par::ledger::proof::{consistency, inclusion, is_extended, is_included, root};
use par::types::Digest;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::convert::Infallible;

/// RFC 6962, section 2.1.
fn leaf(at: u64) -> Digest {
    Digest::sha256(&[&[0_u8][..], &at.to_be_bytes()].concat())
}

/// RFC 6962, section 2.1, for a number of leaves that is a power of two.
fn perfect(leaves: &[Digest]) -> Digest {
    if let [leaf] = leaves {
        return *leaf;
    }
    let (left, right) = leaves.split_at(leaves.len() / 2);
    Digest::sha256(&[&[1_u8][..], &perfect(left).0, &perfect(right).0].concat())
}

fn subtree(leaves: &[Digest]) -> impl FnMut(u32, u64) -> Result<Digest, Infallible> + '_ {
    |height, index| {
        let from = usize::try_from(index << height).expect("an index");
        Ok(perfect(&leaves[from..from + (1 << height)]))
    }
}

fn head(leaves: &[Digest]) -> Head {
    let size = leaves.len() as u64;
    let Ok(root) = root(size, &mut subtree(leaves));
    Head { size, root }
}

fn hashes(bytes: &[u8]) -> Vec<Digest> {
    bytes.chunks_exact(32).map(|chunk| Digest(chunk.try_into().expect("32 bytes"))).collect()
}

proptest! {
    // The same cases in each run, as in PAR's own tests.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(6962), ..ProptestConfig::with_cases(256) })]

    #[test]
    fn another_implementation_agrees(size in 1_u64..600, a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
        let mut theirs = MemoryBackedTree::<sha2::Sha256, [u8; 8]>::new();
        let root = |tree: &MemoryBackedTree<sha2::Sha256, [u8; 8]>| Digest((*tree.root().as_bytes()).into());
        let all: Vec<Digest> = (0..size).map(leaf).collect();
        let count = all.len();
        let old = b.index(count) as u64 + 1;
        (0..old).for_each(|at| theirs.push(at.to_be_bytes()));
        let before = Head { size: old, root: root(&theirs) };
        (old..size).for_each(|at| theirs.push(at.to_be_bytes()));
        let whole = head(&all);
        prop_assert_eq!(root(&theirs), whole.root);
        let index = a.index(count);
        let path = hashes(theirs.prove_inclusion(index).as_bytes());
        let Ok(ours) = inclusion(index as u64, size, &mut subtree(&all));
        prop_assert_eq!(&path, &ours);
        prop_assert!(is_included(all[index], index as u64, whole, &path));
        let Ok(ours) = consistency(old, size, &mut subtree(&all));
        prop_assert_eq!(before.root, head(&all[..b.index(count) + 1]).root);
        if old < size {
            let path = hashes(theirs.prove_consistency(count - b.index(count) - 1).as_bytes());
            prop_assert_eq!(&path, &ours);
            prop_assert!(is_extended(before, whole, &path));
        }
    }
}
