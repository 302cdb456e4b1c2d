//! Compares the stored tiles, and the trees that were anchored, with the entries.

use super::report::{Verdict, Verification};
use crate::ledger::read::{OpenSegments, ReadError, root_at};
use crate::ledger::tree::{Head, TILE_WIDTH, Tile};
use rusqlite::{Connection, params};
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

/// Compares the tiles that follow from the entries with the stored ones, and keeps none.
#[derive(Debug, Default)]
pub(super) struct FilledTiles {
    filled: Vec<Tile>,
}

impl FilledTiles {
    pub(super) fn expect(&mut self, tiles: Vec<Tile>) {
        self.filled.extend(tiles);
    }

    pub(super) fn compare_filled(
        &mut self,
        segments: &mut OpenSegments,
        report: &mut Verification,
    ) -> Result<(), ReadError> {
        for expected in self.filled.drain(..) {
            let key = Tile::key(expected.level, expected.index);
            let segment = segments.connection(Tile::filled_at(key))?;
            let mut statement = segment.prepare_cached("SELECT hashes FROM tile WHERE k = ?1")?;
            let mut rows = statement.query([key])?;
            let is: Option<Vec<u8>> = rows.next()?.map(|row| row.get(0)).transpose()?;
            match is {
                Some(is) if is == expected.bytes() => report.tiles += 1,
                Some(_) => report.find(
                    None,
                    Verdict::Invalid,
                    format!("tile {key} does not follow from the entries"),
                ),
                None => report.find(None, Verdict::Invalid, format!("tile {key} is missing")),
            }
        }
        Ok(())
    }

    /// Checks that no tile is stored beyond the entries, and that the earlier ones have the right
    /// count.
    pub(super) fn finish(
        &mut self,
        segments: &mut OpenSegments,
        size: u64,
        report: &mut Verification,
    ) -> Result<(), ReadError> {
        self.compare_filled(segments, report)?;
        let (mut level, mut full, mut all) = (0_u32, size / TILE_WIDTH as u64, 0);
        while full > 0 {
            let (low, high) = (Tile::key(level, 0), Tile::key(level, full));
            let sql = "SELECT count(*) FROM tile WHERE k >= ?1 AND k < ?2";
            let there = sum(segments, |db| db.query_row(sql, params![low, high], |row| row.get(0)))?;
            all += there;
            if u64::try_from(there) != Ok(full) {
                let what = format!("found {there} tiles of level {level}, expected {full}");
                report.find(None, Verdict::Invalid, what);
            }
            (level, full) = (level + 1, full / TILE_WIDTH as u64);
        }
        let there = sum(segments, |db| db.query_row("SELECT count(*) FROM tile", [], |row| row.get(0)))?;
        if there != all {
            report.find(None, Verdict::Invalid, format!("{} tiles do not belong to the tree", there - all));
        }
        Ok(())
    }
}

/// Adds up a count over all segments.
fn sum(
    segments: &mut OpenSegments,
    count: impl Fn(&Connection) -> Result<i64, rusqlite::Error>,
) -> Result<i64, ReadError> {
    let mut all = 0;
    for first in segments.firsts().to_vec() {
        all += count(segments.connection(first)?)?;
    }
    Ok(all)
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
