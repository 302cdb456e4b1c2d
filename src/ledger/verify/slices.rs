//! Verification in slices, for a server that verifies itself while it works.
//!
//! Each slice reads a bounded part of one segment in a snapshot of its own, so that no slice keeps
//! a write-ahead log from being truncated for long. The walk is kept between them; after the last
//! entry it can go on when more are appended. state.db is not compared.

use super::error::AuditError;
use super::partial::start;
use super::pipeline::Reading;
use super::report::{RootMark, Verdict, Verification};
use super::rows::{check_orphans, check_schema, checkpoints, entries_until, first_unsound, numbers};
use super::tiles::{FilledTiles, compare_anchors};
use super::walk::ChainWalk;
use crate::ledger::files::{Files, HighWater};
use crate::ledger::read::{OpenSegments, Reader, number, schema};
use crate::store::Database;
use crate::types::{clock, limits};
use rusqlite::Connection;
use std::ops::ControlFlow;

/// A verification in slices.
#[derive(Debug, Default)]
pub(in crate::ledger) struct SlicedAudit {
    walk: ChainWalk,
    /// First entry of the segment that the walk is in; `None` before the first slice.
    segment: Option<u64>,
    /// Whether the last entry was reached before, so that tiles were counted.
    has_ended: bool,
}

/// What follows a slice.
#[derive(Debug)]
pub(in crate::ledger) enum AfterSlice {
    /// More entries are there.
    More,
    /// The last entry was reached, or something does not hold.
    End(Box<Verification>),
}

impl SlicedAudit {
    /// A verification of the newest `count` entries; of every entry if there are no more. The tree
    /// over the earlier ones is taken from the stored tiles, which the signed checkpoints cover.
    pub(in crate::ledger) fn newest(files: &Files, count: u64) -> Result<Self, AuditError> {
        let reader = Reader::open(&files.ledger())?;
        let from = reader.size()?.saturating_sub(count);
        if from == 0 {
            return Ok(Self::default());
        }
        let mut segments = OpenSegments::open(&files.ledger())?;
        let (start, edge, _) = start(&mut segments, &reader, from)?;
        let mut walk = ChainWalk::resume(None, start, edge);
        let segment = segments.first_of(from);
        walk.segment(segment);
        // The tiles of the earlier entries were not counted.
        Ok(Self { walk, segment: Some(segment), has_ended: true })
    }

    /// Number of entries that the walk has passed.
    pub(in crate::ledger) fn size(&self) -> u64 {
        self.walk.size()
    }

    /// Verifies the next slice of the ledger in `files`. After an error, the same slice can be
    /// verified again.
    pub(in crate::ledger) fn next(&mut self, files: &Files) -> Result<AfterSlice, AuditError> {
        // Read first: the mark must not be newer than what is read after it.
        let mark = read_mark(files)?;
        let mut segments = OpenSegments::open(&files.ledger())?;
        let Some(segment) = self.segment else {
            let first = segments.firsts().first().copied().unwrap_or_default();
            self.enter(&mut segments, first)?;
            return Ok(self.unless_found(AfterSlice::More));
        };
        let before = self.walk.clone();
        let until = match self.read(files, &mut segments, segment, mark) {
            Ok(until) => until,
            Err(error) => {
                self.walk = before;
                return Err(error);
            }
        };
        if !self.walk.report.findings.is_empty() {
            return Ok(self.end());
        }
        if self.walk.size() < until {
            return Ok(AfterSlice::More);
        }
        // A segment that began meanwhile is seen by the next slice.
        if let Some(next) = segments.firsts().iter().copied().find(|first| *first > segment) {
            self.enter(&mut segments, next)?;
            return Ok(self.unless_found(AfterSlice::More));
        }
        let mut report = self.finished();
        report.find_strays(files);
        if report.findings.is_empty() && !self.has_ended {
            FilledTiles::default().finish(&mut segments, self.walk.size(), &mut report)?;
            self.has_ended = report.findings.is_empty();
        }
        Ok(AfterSlice::End(Box::new(report)))
    }

    /// Begins a segment, with SQLite's own check of its file.
    fn enter(&mut self, segments: &mut OpenSegments, first: u64) -> Result<(), AuditError> {
        let file = segments.path(first);
        let db = segments.segment(first)?;
        check_schema(db, Database::Ledger, &mut self.walk.report)?;
        if let Some(what) = first_unsound(std::slice::from_ref(&file))? {
            return Err(AuditError::Unsound(what));
        }
        self.walk.segment(first);
        self.segment = Some(first);
        for seq in numbers(db, "SELECT seq FROM entry WHERE seq < 0 ORDER BY seq")? {
            self.walk.report.find(None, Verdict::Invalid, format!("an entry is stored under {seq}"));
        }
        let earlier = db.query_row("SELECT min(seq) FROM entry WHERE seq < ?1", [number(first)], |row| {
            row.get::<_, Option<i64>>(0)
        })?;
        if let Some(seq) = earlier.and_then(|seq| u64::try_from(seq).ok()) {
            let what = format!("it is stored in the segment that begins with {first}");
            self.walk.report.find(Some(seq), Verdict::Invalid, what);
        }
        Ok(())
    }

    /// Reads the next entries of the segment. Returns the number after its last one.
    fn read(
        &mut self,
        files: &Files,
        segments: &mut OpenSegments,
        segment: u64,
        mark: Option<RootMark>,
    ) -> Result<u64, AuditError> {
        let mut tile_files = OpenSegments::open(&files.ledger())?;
        let file = segments.path(segment);
        let db = segments.segment(segment)?;
        db.execute_batch("BEGIN; SELECT count(*) FROM sqlite_master;").map_err(AuditError::Sqlite)?;
        let (from, until) = (self.walk.size(), entries_until(db)?);
        self.walk.set_mark(mark);
        self.expect(db, from)?;
        let schema = schema(db)?;
        let reading = Reading { file, first: segment, schema: &schema, replayed: 0, projections: &[] };
        let mut tiles = FilledTiles::default();
        let began_us = clock::mono_us();
        let is_over =
            || clock::mono_us().saturating_sub(began_us) >= limits::VERIFY_SLICE_MS_MAX.saturating_mul(1_000);
        let range = from.max(segment)..until.min(from.saturating_add(limits::VERIFY_SLICE_ENTRIES_MAX));
        let each = |walk: &mut ChainWalk, filled, _, _| {
            tiles.expect(filled);
            tiles.compare_filled(&mut tile_files, &mut walk.report)?;
            Ok(ControlFlow::Continue(()))
        };
        if !reading.follow_here(db, &range, &mut self.walk, each, is_over)? {
            check_orphans(db, &mut self.walk.report)?;
        }
        // An erasure in this segment is in the same commit as its entry.
        let is_missing = |seq| is_erased(db, seq);
        self.walk.settle(from, is_missing)?;
        if self.walk.report.findings.is_empty() {
            let anchors = std::mem::take(&mut self.walk.anchors);
            compare_anchors(&mut tile_files, &anchors, &mut self.walk.report)?;
        }
        Ok(until)
    }

    /// The checkpoints ahead, as the segment stores them now: a span keeps only its newest.
    fn expect(&mut self, db: &Connection, from: u64) -> Result<(), AuditError> {
        let is_ahead = |size: &i64| u64::try_from(*size).is_ok_and(|size| size > from);
        let stored: Vec<_> = checkpoints(db)?.into_iter().filter(|(_, size, _)| is_ahead(size)).collect();
        self.walk.expect(&stored, &[]);
        Ok(())
    }

    fn unless_found(&self, next: AfterSlice) -> AfterSlice {
        if self.walk.report.findings.is_empty() { next } else { self.end() }
    }

    fn end(&self) -> AfterSlice {
        AfterSlice::End(Box::new(self.finished()))
    }

    /// The report so far. The walk itself can go on.
    fn finished(&self) -> Verification {
        self.walk.clone().finish().0
    }
}

fn read_mark(files: &Files) -> Result<Option<RootMark>, AuditError> {
    let path = files.high_water();
    if HighWater::is_garbled(&path) {
        return Err(AuditError::Mark);
    }
    Ok(HighWater::read(&path).map(|head| RootMark { head }))
}

fn is_erased(db: &Connection, seq: u64) -> Result<bool, AuditError> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM payload WHERE seq = ?1 AND body IS NOT NULL)";
    Ok(db.prepare_cached(sql)?.query_row([number(seq)], |row| row.get(0))?)
}
