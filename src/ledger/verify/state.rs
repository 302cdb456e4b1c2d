//! Compares state.db with a fresh projection of the same entries.

use super::error::AuditError;
use super::report::{Verdict, Verification};
use super::rows::{check_schema, readable};
use crate::ledger::files::Files;
use crate::ledger::projection::{Projection, Row, applied, is_applied_one};
use crate::store::{self, Database, StoreError};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as RowRef, params_from_iter};

/// The finding for a table `applied` that does not have its one row.
const APPLIED_ODD: &str = "state.db: table `applied` does not have exactly one row with a valid size";

/// A snapshot of state.db and the number of entries that it has applied. `None` if the file is
/// missing, which is valid: it can be rebuilt.
pub(super) fn open_state(files: &Files) -> Result<Option<(Connection, u64)>, AuditError> {
    let path = files.state();
    readable(&path)?;
    if !path.exists() {
        return Ok(None);
    }
    let state = store::open_reader(&path)?;
    let at = |e| {
        let e = StoreError::Sqlite(path.clone(), e);
        if e.is_garbled() { AuditError::Garbled(e) } else { AuditError::Store(e) }
    };
    state.execute_batch("BEGIN").map_err(at)?;
    let size = match applied(&state) {
        Err(rusqlite::Error::QueryReturnedNoRows) => 0,
        other => other.map_err(at)?,
    };
    Ok(Some((state, size)))
}

pub(super) fn compare_state(
    projected: &Projected,
    state: &Connection,
    seen: u64,
    size: u64,
    report: &mut Verification,
) -> Result<(), AuditError> {
    if seen > size {
        let what = format!("the ledger has {size} entries, but state.db has applied {seen}");
        report.find(Some(size), Verdict::Incomplete, what);
    }
    check_schema(state, Database::State, report)?;
    if !is_applied_one(state).map_err(AuditError::State)? {
        report.find(None, Verdict::Invalid, APPLIED_ODD);
    }
    if report.verdict == Verdict::Verified {
        report.state_rows = Some(projected.compare(state, report)?);
    }
    Ok(())
}

/// A fresh projection of the first entries, to compare state.db with.
pub(super) struct Projected {
    state: Connection,
    projections: &'static [Projection],
}

impl Projected {
    pub(super) fn new(projections: &'static [Projection]) -> Result<Self, AuditError> {
        let state = store::open_memory(Database::State)?;
        // No other connection reads it and nothing of it is kept, so one transaction stays open.
        state.execute_batch("BEGIN").map_err(AuditError::Sqlite)?;
        Ok(Self { state, projections })
    }

    pub(super) fn apply(&mut self, rows: Vec<Row>) -> Result<(), AuditError> {
        let apply = |row: Row| self.state.prepare_cached(row.sql)?.execute(params_from_iter(row.values));
        rows.into_iter().try_for_each(|row| apply(row).map(drop)).map_err(AuditError::Follow)
    }

    fn compare(&self, state: &Connection, report: &mut Verification) -> Result<u64, AuditError> {
        let mut compared = 0;
        for (table, key) in self.projections.iter().flat_map(|p| p.tables) {
            let (rows, differs) =
                compare_table(&self.state, state, table, key).map_err(|e| AuditError::Table(table, e))?;
            compared += rows;
            if let Some(shown) = differs {
                let what =
                    format!("state.db: table `{table}` does not follow from the entries, at row {shown}");
                report.find(None, Verdict::Invalid, what);
            }
        }
        Ok(compared)
    }
}

/// The number of rows in `is`, and the first row that differs from `want` or that only `want` has.
fn compare_table(
    want: &Connection,
    is: &Connection,
    table: &str,
    key: &str,
) -> Result<(u64, Option<String>), rusqlite::Error> {
    let sql = format!("SELECT * FROM {table} ORDER BY {key}");
    let (mut want, mut is) = (want.prepare(&sql)?, is.prepare(&sql)?);
    let columns = is.column_count();
    let (mut want, mut is) = (want.query([])?, is.query([])?);
    let (mut rows, mut differs) = (0, None);
    loop {
        let wanted = want.next()?;
        let found = is.next()?;
        rows += u64::from(found.is_some());
        match (wanted, found) {
            (None, None) => return Ok((rows, differs)),
            _ if differs.is_some() => {}
            (wanted, found) => {
                let (wanted, found) =
                    (wanted.map(|row| cells(row, columns)), found.map(|row| cells(row, columns)));
                let (wanted, found) = (wanted.transpose()?, found.transpose()?);
                if wanted != found {
                    let shown = found.or(wanted).unwrap_or_default();
                    let shown: Vec<String> = shown.iter().map(|cell| format!("{cell:?}")).collect();
                    differs = Some(shown.join(", "));
                }
            }
        }
    }
}

fn cells<'a>(row: &'a RowRef<'_>, columns: usize) -> Result<Vec<ValueRef<'a>>, rusqlite::Error> {
    (0..columns).map(|at| row.get_ref(at)).collect()
}
