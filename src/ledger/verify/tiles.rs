//! Compares the stored tiles, and the trees that were anchored, with the entries.

use super::report::{Verdict, Verification};
use crate::ledger::read::{OpenSegments, ReadError, root_at};
use crate::ledger::tree::{Head, Tile};
use std::collections::BTreeMap;

/// The tiles that follow from the entries, to compare with the stored ones.
#[derive(Default)]
pub(super) struct ExpectedTiles {
    expected: BTreeMap<i64, Vec<u8>>,
}

impl ExpectedTiles {
    pub(super) fn expect(&mut self, tiles: Vec<Tile>) {
        for tile in tiles {
            self.expected.insert(Tile::key(tile.level, tile.index), tile.bytes());
        }
    }

    pub(super) fn compare(
        mut self,
        segments: &mut OpenSegments,
        report: &mut Verification,
    ) -> Result<(), ReadError> {
        for first in segments.firsts().to_vec() {
            let next = segments.firsts().iter().copied().find(|next| *next > first).unwrap_or(u64::MAX);
            let mut statement =
                segments.connection(first)?.prepare("SELECT k, hashes FROM tile ORDER BY k")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (key, hashes): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                let is_here = (first..next).contains(&Tile::filled_at(key));
                if is_here && self.expected.remove(&key).as_deref() == Some(hashes.as_slice()) {
                    report.tiles += 1;
                } else {
                    report.find(
                        None,
                        Verdict::Invalid,
                        format!("tile {key} does not follow from the entries"),
                    );
                }
            }
        }
        for key in self.expected.keys() {
            report.find(None, Verdict::Invalid, format!("tile {key} is missing"));
        }
        Ok(())
    }
}

/// Compares the tree heads in `anchor` entries with the tree, whose tiles were compared before.
pub(super) fn compare_anchors(
    segments: &mut OpenSegments,
    anchors: &[(u64, Head)],
    report: &mut Verification,
) -> Result<(), ReadError> {
    for (seq, anchored) in anchors {
        let there = root_at(segments, anchored.size)?;
        if there == anchored.root {
            report.anchors += 1;
            continue;
        }
        let (there, anchored_root) = (there.short(), anchored.root.short());
        let what = format!(
            "it records {} anchored entries with the root {anchored_root}…, but their root is {there}…: all before it \
             were rewritten",
            anchored.size
        );
        report.find(Some(*seq), Verdict::Invalid, what);
    }
    Ok(())
}
