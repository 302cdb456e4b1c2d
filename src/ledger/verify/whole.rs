//! Verification of the files on disk: `par audit verify`.
//!
//! Checks, in levels: the schema and SQLite's own check; all headers, chain and root; every
//! checkpoint and epoch; all payloads; all tiles; the high-water mark; state.db against a fresh
//! projection. It repairs nothing.

use super::error::AuditError;
use super::pipeline::Reading;
use super::report::{Outside, PROGRESS_ENTRIES, RootMark, Verdict, Verification};
use super::rows::{
    check_orphans, check_schema, checkpoints, entries_until, first_unsound, numbers, readable,
};
use super::state::{Projected, compare_state, open_state};
use super::tiles::{ExpectedTiles, compare_anchors};
use super::walk::ChainWalk;
use crate::ledger::files::{Files, HighWater};
use crate::ledger::projection::Projection;
use crate::ledger::read::{OpenSegments, schema};
use crate::ledger::tree::Head;
use crate::store::Database;
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a verification uses in addition to the files.
struct Looking<'a> {
    projections: &'static [Projection],
    outside: &'a [Outside],
    /// Called now and then with the number of verified entries and their total.
    progress: &'a dyn Fn(u64, u64),
}

/// Verifies the ledger in `files`. May run while a writer appends.
///
/// What is read first must not be newer than what is read later, so that a live ledger raises no
/// false alarm. The order is: mark, then state.db, then a snapshot of ledger.db, which decides.
/// Several threads read entries in their own, later snapshots.
#[must_use]
pub fn audit(files: &Files, projections: &'static [Projection], outside: &[Outside]) -> Verification {
    audit_with_progress(files, projections, outside, &|_, _| {})
}

/// As [`audit`]; calls `progress` now and then with the number of verified entries and their total.
#[must_use]
pub fn audit_with_progress(
    files: &Files,
    projections: &'static [Projection],
    outside: &[Outside],
    progress: &dyn Fn(u64, u64),
) -> Verification {
    let looking = Looking { projections, outside, progress };
    let (mark, state) = (read_mark(files), open_state(files));
    let known = mark.as_ref().ok().and_then(Option::as_ref).map(|head| RootMark { head: *head });
    let there = state.as_ref().ok().and_then(Option::as_ref);
    let is_there = files.segments().is_ok_and(|firsts| !firsts.is_empty());
    let mut report = audit_ledger(files, known, there, &looking).unwrap_or_else(|what| {
        let mut report = Verification::default();
        report.find(None, Verdict::Unreadable, what.to_string());
        report
    });
    report.find_strays(files);
    match mark {
        Ok(None) if is_there => {
            report
                .warnings
                .push("the high-water mark is missing: a cut tail would not be detected".to_owned());
        }
        Ok(_) => {}
        Err(what) => report.find(None, Verdict::Unreadable, what.to_string()),
    }
    match state {
        Ok(None) if is_there => report.warnings.push("state.db is missing and was not compared".to_owned()),
        Ok(_) => {}
        Err(what) => report.find(None, Verdict::Unreadable, format!("state.db cannot be compared: {what}")),
    }
    if report.verdict == Verdict::Verified && report.anchored.is_none() {
        report.verdict = Verdict::VerifiedUnanchored;
    }
    report
}

/// The high-water mark; `None` if it is missing.
fn read_mark(files: &Files) -> Result<Option<Head>, AuditError> {
    let path = files.high_water();
    readable(&path)?;
    if HighWater::is_garbled(&path) { Err(AuditError::Mark) } else { Ok(HighWater::read(&path)) }
}

/// The report if ledger.db is missing: whether one was ever seen.
fn missing(mark: Option<u64>, seen: Option<u64>) -> Verification {
    let mut report = Verification::default();
    for (who, size) in [("the high-water mark has", mark), ("state.db has applied", seen)] {
        if let Some(size) = size.filter(|size| *size > 0) {
            let what = format!("ledger.db is missing, but {who} {size} entries");
            report.find(None, Verdict::Incomplete, what);
        }
    }
    if report.findings.is_empty() {
        let what =
            "the ledger is empty: ledger.db is missing. Nothing was recorded yet, or everything is gone";
        report.find(None, Verdict::Unreadable, what);
    }
    report
}

fn audit_ledger(
    files: &Files,
    mark: Option<RootMark>,
    state: Option<&(Connection, u64)>,
    looking: &Looking<'_>,
) -> Result<Verification, AuditError> {
    let firsts = files.segments().map_err(|e| AuditError::Folder(files.data.clone(), e))?;
    firsts.iter().try_for_each(|first| readable(&files.segment(*first)))?;
    if firsts.is_empty() {
        return Ok(missing(mark.map(|mark| mark.head.size), state.map(|(_, size)| *size)));
    }
    let mut segments = OpenSegments::snapshot(&files.ledger())?;
    let paths: Vec<PathBuf> = segments.firsts().iter().map(|first| segments.path(*first)).collect();
    let mut walk = ChainWalk::new(mark);
    let mut stored = Vec::new();
    for (at, first) in segments.firsts().to_vec().iter().enumerate() {
        let db = segments.segment(*first)?;
        check_schema(db, Database::Ledger, &mut walk.report)?;
        if walk.report.verdict != Verdict::Verified {
            // With another schema the same statements could read other data.
            let (before, this) =
                (paths.get(..at).unwrap_or_default(), paths.get(at..=at).unwrap_or_default());
            if let Some(what) = first_unsound(before)? {
                return Ok(unsound(what));
            }
            let unsound = first_unsound(this)?;
            unsound.into_iter().for_each(|what| walk.report.find(None, Verdict::Unreadable, what));
            return Ok(walk.report);
        }
        stored.extend(checkpoints(db)?);
    }
    walk.expect(&stored, looking.outside);
    // SQLite's own check runs during the walk. If it fails, the walk's findings do not count.
    let is_unsound = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let check = scope.spawn(|| {
            let found = first_unsound(&paths);
            is_unsound.store(!matches!(found, Ok(None)), Ordering::Relaxed);
            found
        });
        let walked = walk_all(&mut segments, walk, state, looking, &is_unsound);
        match check.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))? {
            None => walked,
            Some(what) => Ok(unsound(what)),
        }
    })
}

fn unsound(what: String) -> Verification {
    let mut report = Verification::default();
    report.find(None, Verdict::Unreadable, what);
    report
}

fn walk_all(
    segments: &mut OpenSegments,
    mut walk: ChainWalk,
    state: Option<&(Connection, u64)>,
    looking: &Looking<'_>,
    is_unsound: &AtomicBool,
) -> Result<Verification, AuditError> {
    let mut projected = state.map(|_| Projected::new(looking.projections)).transpose()?;
    let mut tiles = ExpectedTiles::default();
    let until = entries_until(segments.newest()?)?;
    for first in segments.firsts().to_vec() {
        let file = segments.path(first);
        let db = segments.segment(first)?;
        walk.segment(first);
        for seq in numbers(db, "SELECT seq FROM entry WHERE seq < 0 ORDER BY seq")? {
            walk.report.find(None, Verdict::Invalid, format!("an entry is stored under {seq}"));
        }
        let reading = Reading {
            file,
            first,
            schema: &schema(db)?,
            replayed: state.map_or(0, |(_, size)| *size),
            projections: looking.projections,
        };
        // The walk must also see an entry that belongs before the segment.
        let lowest = numbers(db, "SELECT min(seq) FROM entry WHERE seq >= 0 HAVING min(seq) >= 0");
        let lowest = lowest?.into_iter().find_map(|seq| u64::try_from(seq).ok());
        let from = lowest.map_or(first, |lowest| lowest.min(first));
        let is_paired = reading.follow(db, from, &mut walk, |walk, filled, seq, rows| {
            tiles.expect(filled);
            // Changed entries lead to no valid state, so after the first finding there is nothing
            // to compare.
            if let Some(projected) = projected.as_mut().filter(|_| walk.report.verdict == Verdict::Verified)
                && let Err(what) = projected.apply(rows)
            {
                walk.report.find(Some(seq), Verdict::Invalid, what.to_string());
            }
            if seq.is_multiple_of(PROGRESS_ENTRIES) {
                (looking.progress)(seq, until);
            }
            let is_over = is_unsound.load(Ordering::Relaxed);
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !is_paired {
            check_orphans(db, &mut walk.report)?;
        }
    }
    let anchors = std::mem::take(&mut walk.anchors);
    let (mut report, frontier) = walk.finish();
    if report.verdict == Verdict::Verified {
        tiles.compare(segments, &mut report)?;
    }
    if report.verdict == Verdict::Verified {
        compare_anchors(segments, &anchors, &mut report)?;
    }
    if let (Some(projected), Some((state, size))) = (projected, state)
        && report.verdict == Verdict::Verified
    {
        compare_state(&projected, state, *size, frontier.size(), &mut report)?;
    }
    Ok(report)
}
