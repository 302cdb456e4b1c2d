//! After a crash, gives every allowed call without a result one, through the same function as
//! usual.

use super::mint::running::Running;
use super::mint::told::ToolResult;
use super::point::Gate;
use super::requested;
use crate::call::{End, Execution};
use crate::ledger::{AppendError, Header, Kind, Projection, ReadError, Row};
use crate::types::{Decision, RunStatus};
use rusqlite::types::Value as Cell;

/// state.db's tables of allowed calls without a result, of approval requests and of stops.
pub const PROJECTION: Projection = Projection {
    tables: &[("open_call", "decision_seq"), ("approval", "request_seq, id"), ("stop", "seq")],
    kinds: &[
        Kind::CallDecision,
        Kind::CallResult,
        Kind::ApprovalRequest,
        Kind::ApprovalGrant,
        Kind::ApprovalRefuse,
        Kind::RunReply,
        Kind::RunCancel,
        Kind::HaltSet,
        Kind::HaltLift,
    ],
    rows,
};

fn rows(header: &Header, body: &[u8]) -> Vec<Row> {
    let mut rows = open_calls(header);
    rows.extend(stops(header));
    rows.extend(requested::rows(header, body));
    rows
}

fn open_calls(header: &Header) -> Vec<Row> {
    let text = |name: &str| Cell::Text(header.str(name).unwrap_or_default().to_owned());
    let number = |seq: u64| Cell::Integer(i64::try_from(seq).unwrap_or(i64::MAX));
    match (header.known_kind(), header.decision(), header.u64("ref")) {
        (Some(Kind::CallDecision), Some(Decision::Allow), _) => vec![Row {
            sql: "INSERT INTO open_call(decision_seq, call, run) VALUES (?1, ?2, ?3)",
            values: vec![number(header.seq), text("call"), text("run")],
        }],
        (Some(Kind::CallResult), _, Some(decision)) => {
            vec![Row { sql: "DELETE FROM open_call WHERE decision_seq = ?1", values: vec![number(decision)] }]
        }
        _ => Vec::new(),
    }
}

fn stops(header: &Header) -> Option<Row> {
    let number = |seq: u64| Cell::Integer(i64::try_from(seq).unwrap_or(i64::MAX));
    let run = || Cell::Text(header.str("run").unwrap_or_default().to_owned());
    match (header.known_kind()?, header.u64("ref")) {
        (Kind::HaltSet, _) => {
            Some(Row { sql: "INSERT INTO stop(seq) VALUES (?1)", values: vec![number(header.seq)] })
        }
        (Kind::HaltLift, Some(set)) => {
            Some(Row { sql: "DELETE FROM stop WHERE seq = ?1", values: vec![number(set)] })
        }
        (Kind::RunCancel, _) => {
            let values = vec![number(header.seq), run()];
            // A cancel that came after the end of its run stops nothing.
            let sql = "INSERT INTO stop(seq, run) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM run \
                       WHERE id = ?2 AND reply_seq IS NOT NULL AND status <> 'waiting')";
            Some(Row { sql, values })
        }
        (Kind::RunReply, _) if header.str("status") != Some(RunStatus::Waiting.as_str()) => {
            Some(Row { sql: "DELETE FROM stop WHERE run = ?1", values: vec![run()] })
        }
        _ => None,
    }
}

/// Why recovery failed.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The ledger cannot be written.
    #[error(transparent)]
    Append(AppendError),
}

impl Gate {
    /// Settles every open call as `interrupted, outcome unknown`. Runs nothing again.
    pub async fn recover(&self) -> Result<Vec<ToolResult>, RecoverError> {
        let open: Vec<i64> = self
            .ledger()
            .state(|state| {
                let mut statement =
                    state.prepare("SELECT decision_seq FROM open_call ORDER BY decision_seq")?;
                statement.query_map([], |row| row.get(0))?.collect()
            })
            .map_err(|e| RecoverError::Read(e.into()))?;
        let mut lost = Vec::with_capacity(open.len());
        for seq in open {
            let seq = u64::try_from(seq).unwrap_or(0);
            let running = self.left_open(seq).map_err(RecoverError::Read)?;
            lost.push((running, Execution::without_output(End::Interrupted)));
        }
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let (results, _) = self.settle(lost, None).await.map_err(RecoverError::Append)?;
        Ok(results)
    }

    fn left_open(&self, seq: u64) -> Result<Running, ReadError> {
        let damaged = |what: &str| ReadError::Damaged(seq, what.to_owned());
        let stored =
            self.ledger().reader().entry(seq)?.ok_or_else(|| damaged("an open decision is missing"))?;
        Running::left_open(&stored, self.ledger(), self.secrets()).map_err(|what| damaged(&what.to_string()))
    }
}
