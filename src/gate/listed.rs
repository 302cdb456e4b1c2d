//! Lists of approval requests, from the table in state.db: what a list costs is what it returns.
//!
//! A row is compared with the request that it points to and with the answer that it names. One
//! without an answer is compared with the entries of its run, as where something is decided
//! (`gate/approval/view.rs`).

use super::requested::{ApprovalRow, ApprovalStanding, ROW, Requested, State, approval_row, refusal};
use crate::ledger::{Header, Kind, ReadError, Reader};
use rusqlite::Connection;

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
    let mut tests = vec![if asked.is_newest_first { "request_seq < ?1" } else { "request_seq > ?1" }];
    // `?2` is in each text, so that the number of values is the same.
    tests.push(match asked.state {
        Some(State::Pending) => "state = 'pending' AND expires_us > ?2",
        Some(State::Expired) => "(state = 'expired' OR (state = 'pending' AND expires_us <= ?2))",
        Some(_) => "state = ?3 AND ?2 > 0",
        None => "?2 > 0",
    });
    tests.push(if asked.requester.is_some() { "requester = ?4" } else { "?4 = ''" });
    let order = if asked.is_newest_first { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT {ROW} FROM approval WHERE {} AND ?3 IS NOT NULL ORDER BY request_seq {order} LIMIT ?5",
        tests.join(" AND ")
    );
    let first = if asked.is_newest_first { i64::MAX } else { -1 };
    let after = asked.after.map_or(first, |after| i64::try_from(after).unwrap_or(i64::MAX));
    let word = asked.state.map_or("", State::as_str);
    let requester = asked.requester.as_deref().unwrap_or_default();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let now = i64::try_from(now_us.max(1)).unwrap_or(i64::MAX);
    let mut found = state.prepare_cached(&sql)?;
    let values = rusqlite::params![after, now, word, requester, limit];
    found.query_map(values, approval_row)?.collect()
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
