//! Proofs over the tree: that it contains an entry, and that a later tree extends an earlier one
//! (RFC 6962 section 2.1, checked as in RFC 9162 sections 2.1.3.2 and 2.1.4.2). Pure: no disk, no
//! clock. `tests/foreign/merkle.rs` compares them with another implementation.

use super::head::Head;
use super::merkle::{empty_root, node};
use crate::types::Digest;

/// Looks up the root of a perfect subtree: that of the 2^height leaves from index · 2^height on.
pub type Subtree<'a, E> = dyn FnMut(u32, u64) -> Result<Digest, E> + 'a;

/// Root of the leaves from `from` up to but not including `to`. `from` must be aligned to a subtree
/// that is at least as large as the range.
fn range<E>(from: u64, to: u64, subtree: &mut Subtree<'_, E>) -> Result<Digest, E> {
    let (mut at, mut parts) = (from, Vec::new());
    while at < to {
        let height = (to - at).ilog2();
        parts.push(subtree(height, at >> height)?);
        at += 1 << height;
    }
    let joined = parts.into_iter().rev().reduce(|right, left| node(&left, &right));
    Ok(joined.unwrap_or_else(empty_root))
}

/// The root over the first `size` leaves.
pub fn root<E>(size: u64, subtree: &mut Subtree<'_, E>) -> Result<Digest, E> {
    range(0, size, subtree)
}

/// The audit path of leaf `index` in the tree of `size` leaves, from the leaf up.
pub fn inclusion<E>(index: u64, size: u64, subtree: &mut Subtree<'_, E>) -> Result<Vec<Digest>, E> {
    let (mut from, mut to, mut path) = (0, size, Vec::new());
    while to - from > 1 {
        let middle = from + split(to - from);
        if index < middle {
            path.push(range(middle, to, subtree)?);
            to = middle;
        } else {
            path.push(range(from, middle, subtree)?);
            from = middle;
        }
    }
    path.reverse();
    Ok(path)
}

/// The proof that the tree of `new` leaves begins with the tree of `old` leaves. It is empty if
/// `old` is 0, since nothing can be proven, and if the trees are equal, since no proof is needed.
pub fn consistency<E>(old: u64, new: u64, subtree: &mut Subtree<'_, E>) -> Result<Vec<Digest>, E> {
    if old == 0 || old >= new {
        return Ok(Vec::new());
    }
    let (mut from, mut to, mut path) = (0, new, Vec::new());
    while old != to {
        let middle = from + split(to - from);
        if old <= middle {
            path.push(range(middle, to, subtree)?);
            to = middle;
        } else {
            path.push(range(from, middle, subtree)?);
            from = middle;
        }
    }
    // The checker already has the subtree that is the whole old tree.
    if from > 0 {
        path.push(range(from, to, subtree)?);
    }
    path.reverse();
    Ok(path)
}

/// The largest power of two below `count`, which must be at least 2.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

/// Whether `path` proves that `leaf` is entry `index` of the tree `head`.
#[must_use]
pub fn is_included(leaf: Digest, index: u64, head: Head, path: &[Digest]) -> bool {
    if index >= head.size {
        return false;
    }
    let (mut at, mut last, mut hash) = (index, head.size - 1, leaf);
    for next in path {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            hash = node(next, &hash);
            while at.is_multiple_of(2) && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = node(&hash, next);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && hash == head.root
}

/// Whether `path` proves that the tree `new` begins with the tree `old`.
#[must_use]
pub fn is_extended(old: Head, new: Head, path: &[Digest]) -> bool {
    // Every tree extends the empty tree, so that would prove nothing.
    if old.size == 0 || old.size > new.size {
        return false;
    }
    if old.size == new.size {
        return old.root == new.root && path.is_empty();
    }
    // If the old tree is one perfect subtree, the checker already holds the first node.
    let (first, rest) = if old.size.is_power_of_two() {
        (old.root, path)
    } else {
        let Some((first, rest)) = path.split_first() else { return false };
        (*first, rest)
    };
    let (mut at, mut last) = (old.size - 1, new.size - 1);
    while at % 2 == 1 {
        (at, last) = (at >> 1, last >> 1);
    }
    let (mut before, mut after) = (first, first);
    for next in rest {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            before = node(next, &before);
            after = node(next, &after);
            while at.is_multiple_of(2) && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            after = node(&after, next);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && before == old.root && after == new.root
}

#[cfg(test)]
mod tests {
    use super::{consistency, inclusion, is_extended, is_included, root};
    use crate::ledger::Head;
    use crate::ledger::tree::{Frontier, leaf};
    use crate::types::Digest;
    use std::convert::Infallible;

    fn leaves(count: u64) -> Vec<Digest> {
        (0..count).map(|at| leaf(&at.to_be_bytes())).collect()
    }

    fn head(leaves: &[Digest]) -> Head {
        let mut frontier = Frontier::default();
        leaves.iter().for_each(|leaf| frontier.push(*leaf));
        Head { size: frontier.size(), root: frontier.root() }
    }

    fn subtree(leaves: &[Digest]) -> impl FnMut(u32, u64) -> Result<Digest, Infallible> + '_ {
        |height, index| {
            let from = (index << height) as usize;
            Ok(head(&leaves[from..from + (1 << height)]).root)
        }
    }

    /// For each leaf of each small tree and each pair of small trees, the proof holds and all its
    /// variations fail.
    #[test]
    fn every_proof_of_small_trees() {
        let all = leaves(40);
        for size in 1..=all.len() {
            let (tree, whole) = (&all[..size], head(&all[..size]));
            let Ok(found) = root(size as u64, &mut subtree(tree));
            assert_eq!(found, whole.root);
            for index in 0..size as u64 {
                let Ok(path) = inclusion(index, size as u64, &mut subtree(tree));
                let leaf = all[index as usize];
                assert!(is_included(leaf, index, whole, &path), "{index} of {size}");
                let wrong = [
                    is_included(leaf, index + 1, whole, &path),
                    is_included(Digest::sha256(b"other"), index, whole, &path),
                    is_included(
                        leaf,
                        index,
                        Head { size: whole.size, root: leaf },
                        &[path.as_slice(), &[leaf]].concat(),
                    ),
                    is_included(leaf, index, whole, &[path.as_slice(), &[leaf]].concat()),
                    path.split_last().is_some_and(|(_, cut)| is_included(leaf, index, whole, cut)),
                ];
                assert!(!wrong.contains(&true), "{index} of {size}: {wrong:?}");
            }
            for old in 0..=size {
                let before = head(&all[..old]);
                let Ok(path) = consistency(old as u64, size as u64, &mut subtree(tree));
                assert_eq!(is_extended(before, whole, &path), old > 0, "{old} to {size}");
                let other = Head { size: before.size, root: Digest::sha256(b"other") };
                assert!(!is_extended(other, whole, &path), "{old} to {size}");
                assert!(
                    !is_extended(before, whole, &[path.as_slice(), &[whole.root]].concat()),
                    "{old} to {size}"
                );
                assert!(
                    old == size || old == 0 || !is_extended(whole, before, &path),
                    "{size} back to {old}"
                );
            }
        }
    }
}
