//! Rows of a segment's tables as a verification needs them, and SQLite's own check of its file.

use super::error::AuditError;
use super::report::{Verdict, Verification};
use crate::ledger::read::unlike_made;
use crate::store::{self, Database};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as RowRef};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Checks that `path` can be read, if it exists.
pub(super) fn readable(path: &Path) -> Result<(), AuditError> {
    match store::obstacle(path).filter(|e| e.kind() != ErrorKind::NotFound) {
        Some(why) => Err(AuditError::Unreadable(path.to_owned(), why)),
        None => Ok(()),
    }
}

/// Compares the schema of `db` with the one that the migrations make.
pub(super) fn check_schema(
    db: &Connection,
    kind: Database,
    report: &mut Verification,
) -> Result<(), AuditError> {
    for what in unlike_made(db, kind)? {
        report.find(None, Verdict::Invalid, what);
    }
    Ok(())
}

/// The findings of SQLite's own check in the first file that has any.
pub(super) fn first_unsound(paths: &[PathBuf]) -> Result<Option<String>, AuditError> {
    for path in paths {
        let db = store::open_reader(path)?;
        let mut statement = db.prepare("PRAGMA integrity_check(5)")?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        if lines != ["ok"] {
            return Ok(Some(format!("integrity_check: {}", lines.join("; "))));
        }
    }
    Ok(None)
}

pub(super) fn numbers(db: &Connection, sql: &str) -> Result<Vec<i64>, rusqlite::Error> {
    db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// The number after the last entry's.
pub(in crate::ledger) fn entries_until(db: &Connection) -> Result<u64, rusqlite::Error> {
    let last: Option<i64> = db.query_row("SELECT max(seq) FROM entry", [], |row| row.get(0))?;
    Ok(last.and_then(|seq| u64::try_from(seq).ok()).map_or(0, |seq| seq + 1))
}

pub(super) fn blob<'a>(row: &'a RowRef<'_>, column: usize) -> Result<Option<&'a [u8]>, AuditError> {
    match row.get_ref(column).map_err(AuditError::Sqlite)? {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Some(bytes)),
        ValueRef::Integer(_) | ValueRef::Real(_) => Err(AuditError::Column),
    }
}

/// The stored checkpoints: span, size and note.
pub(in crate::ledger) fn checkpoints(db: &Connection) -> Result<Vec<(i64, i64, Vec<u8>)>, rusqlite::Error> {
    let mut statement = db.prepare("SELECT id, size, note FROM checkpoint ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// Finds rows that belong to no entry, and entries without a payload row.
pub(super) fn check_orphans(db: &Connection, report: &mut Verification) -> Result<(), rusqlite::Error> {
    let orphan: Option<i64> =
        db.query_row("SELECT min(seq) FROM payload WHERE seq NOT IN (SELECT seq FROM entry)", [], |row| {
            row.get(0)
        })?;
    if let Some(seq) = orphan {
        report.find(u64::try_from(seq).ok(), Verdict::Incomplete, "a payload has no entry");
    }
    let lone: Option<i64> =
        db.query_row("SELECT min(seq) FROM entry WHERE seq NOT IN (SELECT seq FROM payload)", [], |row| {
            row.get(0)
        })?;
    if let Some(seq) = lone {
        report.find(u64::try_from(seq).ok(), Verdict::Invalid, "the payload's row is missing");
    }
    Ok(())
}
