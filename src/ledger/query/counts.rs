//! Entries counted by time, in index.db: exact for every entry that the index covers.
//!
//! Each entry is counted in the transaction that indexes it. The counts follow from the columns of
//! the lines alone, so that they can be made again from those ([`recount`]).

use super::index_row::IndexRow;
use rusqlite::{Connection, params};

/// Length of a span of time, in microseconds: five minutes.
pub const SPAN_US: u64 = 300_000_000;

/// One sum of counted entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedEntries {
    /// The span of time: microseconds since 1970, divided by [`SPAN_US`].
    pub at: u64,
    /// The kind of the entries.
    pub kind: String,
    /// Their decision; empty without one.
    pub decision: String,
    /// Their status, or the class of a refusal; empty without one.
    pub status: String,
    /// Their tool; empty without one and for invalid calls.
    pub tool: String,
    /// Their principal; empty without one.
    pub principal: String,
    /// How many there are.
    pub n: u64,
}

const FROM_LINES: &str = "SELECT wall_us / 300000000, coalesce(kind, ''), coalesce(decision, ''), \
     coalesce(status, ''), CASE decision WHEN 'invalid' THEN '' ELSE coalesce(tool, '') END, \
     coalesce(principal, ''), count(*) FROM line GROUP BY 1, 2, 3, 4, 5, 6";

/// Counts one entry.
pub(super) fn count(db: &Connection, line: &IndexRow) -> Result<(), rusqlite::Error> {
    let sql = "INSERT INTO counted VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1) \
               ON CONFLICT DO UPDATE SET n = n + 1";
    let field = |name| line.field(name).unwrap_or_default();
    let (decision, tool) = (field("decision"), field("tool"));
    let tool = if decision == "invalid" { "" } else { tool };
    let at = line.wall_us / i64::try_from(SPAN_US).unwrap_or(i64::MAX);
    db.prepare_cached(sql)?
        .execute(params![at, field("kind"), decision, field("status"), tool, field("principal")])
        .map(drop)
}

/// Makes all counts again from the lines.
pub(super) fn recount(db: &Connection) -> Result<(), rusqlite::Error> {
    db.execute_batch(&format!("DELETE FROM counted; INSERT INTO counted {FROM_LINES};"))
}

/// Whether the counts are those of the lines.
pub(super) fn is_right(db: &Connection) -> Result<bool, rusqlite::Error> {
    let differ = |left: &str, right: &str| {
        let sql = format!("SELECT NOT EXISTS (SELECT * FROM ({left}) EXCEPT SELECT * FROM ({right}))");
        db.query_row(&sql, [], |row| row.get::<_, bool>(0))
    };
    let stored = "SELECT * FROM counted";
    Ok(differ(FROM_LINES, stored)? && differ(stored, FROM_LINES)?)
}

/// The counts from span `from` on.
pub(super) fn since(db: &Connection, from: u64) -> Result<Vec<CountedEntries>, rusqlite::Error> {
    let sql = "SELECT at, kind, decision, status, tool, principal, n FROM counted WHERE at >= ?1";
    let mut statement = db.prepare_cached(sql)?;
    let number = |n: i64| u64::try_from(n).unwrap_or_default();
    let rows = statement.query_map([i64::try_from(from).unwrap_or(i64::MAX)], |row| {
        Ok(CountedEntries {
            at: number(row.get(0)?),
            kind: row.get(1)?,
            decision: row.get(2)?,
            status: row.get(3)?,
            tool: row.get(4)?,
            principal: row.get(5)?,
            n: number(row.get(6)?),
        })
    })?;
    rows.collect()
}
