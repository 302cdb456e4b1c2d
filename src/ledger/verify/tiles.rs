//! The stored tiles against those that the entries lead to, and the trees that were anchored.

use super::report::{Verdict, Verification};
use crate::ledger::read::{OpenSegments, ReadError, root_at};
use crate::ledger::tree::{Head, Tile};
use std::collections::BTreeMap;

/// The tiles that the entries lead to, against those stored.
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
                        format!("tile {key} is not what the entries lead to"),
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

/// The trees that `anchor` entries say were told, against the tree; its tiles were compared before.
pub(super) fn compare_anchors(
    segments: &mut OpenSegments,
    anchors: &[(u64, Head)],
    report: &mut Verification,
) -> Result<(), ReadError> {
    for (seq, told) in anchors {
        let there = root_at(segments, told.size)?;
        if there == told.root {
            report.anchors += 1;
            continue;
        }
        let (there, told_root) = (there.short(), told.root.short());
        let what = format!(
            "it says that {} entries with the root {told_root}… were anchored, and theirs is {there}…: all before it \
             were rewritten",
            told.size
        );
        report.find(Some(*seq), Verdict::Invalid, what);
    }
    Ok(())
}
