//! Lists of approval requests, from the table in state.db: what a list costs is what it returns.
//!
//! A row is compared with the request that it points to and with the answer that it names. One
//! without an answer is compared with the entries of its run, as where something is decided
//! (`gate/approval/view.rs`).

use super::requested::{ApprovalRow, ApprovalStanding, ROW, Requested, State, approval_row, refusal};
use crate::ledger::{Header, Kind, ReadError, Reader};
use rusqlite::Connection;
use rusqlite::types::Value as Cell;

/// Which requests a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalsAsked {
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those of this requester, by its name on the ledger, such as `key:Ab3dEf9h`.
    pub requester: Option<String>,
    /// The newest first, instead of the oldest.
    pub is_newest_first: bool,
    /// Only those after this entry in that order: the `next` of the page before; `None` from the
    /// beginning.
    pub after: Option<u64>,
}

/// At most `limit` rows of what is asked for, in its order. A request that has expired and has no
/// entry about that counts as expired at `now_us`.
pub(super) fn rows_asked(
    state: &Connection,
    asked: &ApprovalsAsked,
    now_us: u64,
    limit: usize,
) -> Result<Vec<ApprovalRow>, rusqlite::Error> {
    let number = |number: u64| Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let (order, side, first) = if asked.is_newest_first { ("DESC", "<", i64::MAX) } else { ("ASC", ">", -1) };
    let mut tests = vec![format!("request_seq {side} ?")];
    let mut values = vec![asked.after.map_or(Cell::Integer(first), number)];
    match asked.state {
        Some(State::Pending) => tests.push("state = 'pending' AND expires_us > ?".to_owned()),
        Some(State::Expired) => {
            tests.push("(state = 'expired' OR (state = 'pending' AND expires_us <= ?))".to_owned());
        }
        Some(_) => tests.push("state = ?".to_owned()),
        None => {}
    }
    values.extend(asked.state.map(|state| match state {
        State::Pending | State::Expired => number(now_us),
        other => Cell::Text(other.as_str().to_owned()),
    }));
    if let Some(requester) = &asked.requester {
        tests.push("requester = ?".to_owned());
        values.push(Cell::Text(requester.clone()));
    }
    values.push(number(limit as u64));
    let tests = tests.join(" AND ");
    let sql = format!("SELECT {ROW} FROM approval WHERE {tests} ORDER BY request_seq {order} LIMIT ?");
    let mut found = state.prepare_cached(&sql)?;
    found.query_map(rusqlite::params_from_iter(values), approval_row)?.collect()
}

impl ApprovalRow {
    /// The state that the row says, if it matches the request and the answer that it names; `None`
    /// also if it names no answer.
    pub(super) fn standing_of(
        &self,
        requested: &Requested,
        reader: &Reader,
    ) -> Result<Option<ApprovalStanding>, ReadError> {
        let Some(state) = State::parse(&self.state).filter(|_| self.cells == requested.cells()) else {
            return Ok(None);
        };
        let Some(answer) = self.answer else { return Ok(None) };
        let header = reader.entry(answer)?.map(|stored| stored.header);
        let is_answer = |header: &Header| {
            let kind = header.known_kind();
            let fits = match state {
                State::Granted | State::Spent | State::Void => kind == Some(Kind::ApprovalGrant),
                State::Refused | State::Expired => {
                    kind == Some(Kind::ApprovalRefuse) && refusal(header) == state
                }
                State::Pending => false,
            };
            fits && header.u64("ref") == Some(requested.seq)
        };
        let is_sound = header.as_ref().is_some_and(is_answer);
        Ok(is_sound.then_some(ApprovalStanding { state, answer: Some(answer) }))
    }
}
