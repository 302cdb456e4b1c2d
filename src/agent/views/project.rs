//! The tables of runs and sessions in state.db.

use crate::ledger::{Header, Kind, Projection, Row};
use rusqlite::types::Value as Cell;

/// Runs by id: owner, session, first entry, reply and status. Sessions that were ended.
pub const PROJECTION: Projection = Projection {
    tables: &[("run", "id"), ("session_end", "session")],
    kinds: &[Kind::RunRequest, Kind::RunReply, Kind::SessionEnd],
    rows,
};

fn rows(header: &Header, _body: &[u8]) -> Vec<Row> {
    let text = |name: &str| Cell::Text(header.str(name).unwrap_or_default().to_owned());
    let seq = Cell::Integer(i64::try_from(header.seq).unwrap_or(i64::MAX));
    match header.known_kind() {
        Some(Kind::RunRequest) => vec![Row {
            sql: "INSERT INTO run(id, owner, first_seq, status, session) VALUES (?1, ?2, ?3, 'running', ?4)",
            values: vec![text("run"), text("principal"), seq, text("session")],
        }],
        Some(Kind::RunReply) => vec![Row {
            sql: "UPDATE run SET reply_seq = ?2, status = ?3 WHERE id = ?1",
            values: vec![text("run"), seq, text("status")],
        }],
        // A second end changes nothing.
        Some(Kind::SessionEnd) => vec![Row {
            sql: "INSERT OR IGNORE INTO session_end(session, seq) VALUES (?1, ?2)",
            values: vec![text("session"), seq],
        }],
        _ => Vec::new(),
    }
}
