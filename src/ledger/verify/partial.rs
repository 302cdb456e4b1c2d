//! Verification from an entry on: `par audit verify --from`.
//!
//! The tree over the earlier entries is taken from the stored tiles. It is trusted only because the
//! walk reaches a checkpoint from outside, of that tree or of a later one. The earlier entries
//! themselves are not read.

use super::error::AuditError;
use super::pipeline::Reading;
use super::report::{Outside, PROGRESS_ENTRIES, RootMark, Verdict, Verification};
use super::rows::{check_orphans, check_schema, checkpoints, entries_until};
use super::tiles::FilledTiles;
use super::walk::{ChainWalk, WalkStart};
use crate::ledger::checkpoint::{Checkpoint, Epochs};
use crate::ledger::entry::Header;
use crate::ledger::files::{Files, HighWater};
use crate::ledger::read::{OpenSegments, ReadError, Reader, header_bytes, root_at, schema, tile};
use crate::ledger::tree::{Frontier, TILE_WIDTH, Tile, TileEdge, leaf};
use crate::store::Database;
use std::ops::ControlFlow;

/// Verifies the entries from `from` on, which must be at least 1. May run while a writer appends.
///
/// At least one checkpoint of `outside` must cover `from` entries or more, and the ledger must
/// extend it; otherwise nothing is verified. SQLite's own check, state.db and the stored entries
/// before `from` are not checked, and the report says so. `progress` is called now and then with
/// the number of verified entries and their total.
#[must_use]
pub fn audit_from(
    files: &Files,
    from: u64,
    outside: &[Outside],
    progress: &dyn Fn(u64, u64),
) -> Verification {
    let mark = HighWater::read(&files.high_water()).map(|head| RootMark { head });
    let mut report = walk(files, from, mark, outside, progress).unwrap_or_else(|what| {
        let mut report = Verification::default();
        report.find(None, Verdict::Unreadable, what.to_string());
        report
    });
    report.from = from;
    report.find_strays(files);
    if report.verdict == Verdict::Verified && report.anchored.is_none() {
        report.find(
            None,
            Verdict::Diverged,
            format!("no checkpoint from outside covers {from} entries or more"),
        );
    }
    report.warnings.push(format!(
        "the {from} earlier entries were not read: they, state.db and the soundness of \
         the files were not checked"
    ));
    report
}

fn walk(
    files: &Files,
    from: u64,
    mark: Option<RootMark>,
    outside: &[Outside],
    progress: &dyn Fn(u64, u64),
) -> Result<Verification, AuditError> {
    let size_of = |outside: &Outside| Checkpoint::parse(outside.note.text()).map(|note| note.head.size);
    let ahead: Vec<Outside> =
        outside.iter().filter(|one| size_of(one).is_ok_and(|size| size >= from)).cloned().collect();
    if ahead.is_empty() {
        let newest = outside.iter().filter_map(|one| size_of(one).ok()).max().unwrap_or(0);
        return Err(AuditError::NothingOutside { from, newest });
    }
    // The keys come from the seals, each signed by the key before it. The log's name pins the first
    // two keys.
    let reader = Reader::open(&files.ledger())?;
    let mut segments = OpenSegments::snapshot(&files.ledger())?;
    let firsts = segments.firsts().to_vec();
    let (mut report, mut stored) = (Verification::default(), Vec::new());
    for first in &firsts {
        let db = segments.segment(*first)?;
        check_schema(db, Database::Ledger, &mut report)?;
        if report.verdict != Verdict::Verified {
            // With another schema the same statements could read other data.
            return Ok(report);
        }
        stored.extend(checkpoints(db)?);
    }
    let (start, edge, filled) = start(&mut segments, &reader, from)?;
    let mut tiles = FilledTiles::default();
    tiles.expect(filled);
    let mut walk = ChainWalk::resume(mark.filter(|mark| mark.head.size >= from), start, edge);
    let at_least = |size: &i64| u64::try_from(*size).is_ok_and(|size| size >= from);
    walk.expect(&stored.into_iter().filter(|(_, size, _)| at_least(size)).collect::<Vec<_>>(), &ahead);
    walk.at_checkpoint();
    let until = match firsts.last() {
        Some(newest) => entries_until(segments.segment(*newest)?)?,
        None => from,
    };
    // Tiles are stored in the segment of the entry that filled them, which need not be the walk's.
    let mut tile_files = OpenSegments::open(&files.ledger())?;
    let start_of = segments.first_of(from);
    for first in firsts.iter().filter(|first| **first >= start_of) {
        let file = segments.path(*first);
        let db = segments.segment(*first)?;
        walk.segment(*first);
        let schema = schema(db)?;
        let reading = Reading { file, first: *first, schema: &schema, replayed: 0, projections: &[] };
        // Nothing stored for earlier entries is read.
        let is_paired = reading.follow(db, from.max(*first), &mut walk, |walk, filled, seq, _| {
            tiles.expect(filled);
            tiles.compare_filled(&mut tile_files, &mut walk.report)?;
            if seq.is_multiple_of(PROGRESS_ENTRIES) {
                progress(seq.saturating_sub(from), until.saturating_sub(from));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if !is_paired {
            check_orphans(db, &mut walk.report)?;
        }
    }
    let anchors = std::mem::take(&mut walk.anchors);
    let (mut report, frontier) = walk.finish();
    if report.verdict == Verdict::Verified {
        tiles.finish(&mut segments, frontier.size(), &mut report)?;
    }
    // A root over fewer entries would come from tiles that were not compared with anything.
    for (seq, anchored) in anchors.iter().filter(|(_, anchored)| anchored.size >= from) {
        if root_at(&mut segments, anchored.size)? == anchored.root {
            report.anchors += 1;
        } else {
            let what =
                format!("the root over {} entries is not the one that it records as anchored", anchored.size);
            report.find(Some(*seq), Verdict::Invalid, what);
        }
    }
    Ok(report)
}

/// The walk's state before entry `from`, its edge of tiles, and the tiles that entry `from - 1`
/// filled.
pub(super) fn start(
    segments: &mut OpenSegments,
    reader: &Reader,
    from: u64,
) -> Result<(WalkStart, TileEdge, Vec<Tile>), AuditError> {
    let last = from - 1;
    let width = TILE_WIDTH as u64;
    let leaves: Result<Vec<_>, ReadError> = (last - last % width..last)
        .map(|seq| header_bytes(segments, seq).map(|bytes| leaf(&bytes)))
        .collect();
    let stored = |level, index| {
        let found = tile(segments, level, index)?;
        found.ok_or_else(|| ReadError::Damaged(last, format!("tile {level}/{index} is missing")))
    };
    let (mut edge, before): (_, Frontier) = TileEdge::resume(last, leaves?, stored)?;
    let bytes = header_bytes(segments, last)?;
    let log = Header::parse(&bytes)?.log.into();
    let filled = edge.push(leaf(&bytes));
    let (first, seals) = reader.epochs(from)?;
    let key = reader.log_key()?;
    let epochs = Epochs::follow_seals(key, &first, &seals)?;
    Ok((WalkStart { from, log, epochs, last: leaf(&bytes), before }, edge, filled))
}
