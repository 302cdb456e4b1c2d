//! state.db: a projection of the ledger, filled by one projector.
//!
//! Each room gives a pure function from an entry to rows. The rows and the number of applied
//! entries are committed together. The file may lag but never leads the ledger, so it can
//! be deleted at any time.

use super::entry::{Header, Kind};
use crate::store::StoreError;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, params_from_iter};

/// One room's share of state.db.
pub struct Projection {
    /// The tables that it fills, with the columns that order their rows.
    pub tables: &'static [(&'static str, &'static str)],
    /// The kinds of entries that change anything. `rows` is called for no other kind.
    pub kinds: &'static [Kind],
    /// The changes that an entry makes, from its header and payload bytes. Pure.
    pub rows: fn(&Header, &[u8]) -> Vec<Row>,
}

impl Projection {
    /// Whether an entry of this kind may change anything.
    pub(in crate::ledger) fn looks_at(&self, kind: &str) -> bool {
        Kind::parse(kind).is_some_and(|kind| self.kinds.contains(&kind))
    }
}

impl std::fmt::Debug for Projection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Projection({:?})", self.tables)
    }
}

/// One change: a statement and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// SQL with numbered parameters.
    pub sql: &'static str,
    /// The values, in order.
    pub values: Vec<Cell>,
}

/// Applies the ledger's entries to one database.
#[derive(Debug)]
pub(in crate::ledger) struct Projector {
    pub(in crate::ledger) state: Connection,
    pub(in crate::ledger) projections: &'static [Projection],
}

impl Projector {
    /// Number of entries that the file has applied.
    pub(in crate::ledger) fn applied(&self) -> Result<u64, rusqlite::Error> {
        applied(&self.state)
    }

    /// Applies entries in one transaction; `size` is the ledger's size after the last of them.
    pub(in crate::ledger) fn apply<'a>(
        &self,
        entries: impl Iterator<Item = (&'a Header, &'a [u8])>,
        size: u64,
    ) -> Result<(), rusqlite::Error> {
        let change = self.state.unchecked_transaction()?;
        for (header, body) in entries {
            for projection in self.projections.iter().filter(|one| one.looks_at(&header.kind)) {
                for row in (projection.rows)(header, body) {
                    change.prepare_cached(row.sql)?.execute(params_from_iter(row.values))?;
                }
            }
        }
        change
            .prepare_cached("UPDATE applied SET size = ?1")?
            .execute([i64::try_from(size).unwrap_or(i64::MAX)])?;
        change.commit()
    }
}

/// Number of entries that `state` has applied.
pub(in crate::ledger) fn applied(state: &Connection) -> Result<u64, rusqlite::Error> {
    let size: i64 = state.query_row("SELECT size FROM applied", [], |row| row.get(0))?;
    Ok(u64::try_from(size).unwrap_or(0))
}

/// Whether the table `applied` has its one row with a valid size. SQLite enforces this only while
/// its checks are on.
pub(in crate::ledger) fn is_applied_one(state: &Connection) -> Result<bool, rusqlite::Error> {
    let sql = "SELECT count(*) = 1 AND min(one) = 1 AND min(size) >= 0 FROM applied";
    Ok(state.query_row(sql, [], |row| row.get::<_, Option<bool>>(0))?.unwrap_or(false))
}

/// The message for a state.db that is not a database any more. The ledger holds all of its content.
pub(in crate::ledger) fn garbled(error: &StoreError) -> String {
    format!("{error}: stop the server and delete this file; the next start rebuilds it from the ledger")
}
