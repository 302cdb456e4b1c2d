//! Approval requests as people see them: one, or a page of them.

use super::error::AnswerError;
use crate::auth::key_names;
use crate::gate::card;
use crate::gate::listed::{ApprovalsAsked, rows_asked};
use crate::gate::requested::{ApprovalRow, ApprovalStanding, Requested, State, state_row};
use crate::ledger::payload::{ApprovalGrantPayload, ApprovalRefusePayload};
use crate::ledger::query::KeyNames;
use crate::ledger::{Ledger, ReadError, Stored};
use crate::types::clock::Wall;
use crate::types::{ApprovalId, CallId, RunId, SessionId, limits};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// An approval request, as its readers see it. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Approval {
    /// Its identifier.
    pub id: ApprovalId,
    /// Its state.
    pub state: State,
    /// The run that waits.
    pub run: RunId,
    /// The session of the run.
    pub session: SessionId,
    /// Identifier of the call.
    pub call: CallId,
    /// Name of the tool.
    pub tool: String,
    /// The exact arguments.
    pub arguments: Value,
    /// The object that they name, in canonical form.
    pub resource: Value,
    /// What an answer must repeat: SHA-256 over the exact call and the digests of what decides it.
    pub call_hash: String,
    /// The policies that require it: id, `file:line`, advice.
    pub why: Value,
    /// What the model wrote next to the call: untrusted.
    pub said: Option<String>,
    /// What a person is shown in addition: `question` (the message that began the run), `channel`,
    /// `summary`, `program`, `command`, `script` (`name`, `sha256`, `text`), `risk`, `sandbox`
    /// (`read`, `write`, `exec`, `connect`, `secrets`, `limits`) and `taint` (`tool`, `resource`,
    /// `first`, `newest`, `count`). Null for a request of an earlier version.
    pub shown: Value,
    /// What an answer may repeat in place of `call_hash`: the digest of everything that is shown.
    /// `None` for a request of an earlier version.
    pub card: Option<String>,
    /// Untrusted results that the run had seen: `tool`, `resource`, `result` (its entry).
    pub tainted_by: Vec<Value>,
    /// Groups that the answerer must be in.
    pub groups: Vec<String>,
    /// Whether a confirmation is asked for, which the requester may give.
    pub confirm: bool,
    /// The requester.
    pub requester: Requester,
    /// When it was requested.
    pub created: String,
    /// When it expires and is refused.
    pub expires: String,
    /// The answer, if it has one.
    pub answer: Option<RecordedAnswer>,
    /// The entry of the request.
    pub ledger: u64,
}

/// The requester of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requester {
    /// The credential, as on the ledger.
    pub principal: String,
    /// The credential as people know it, such as `ops-ci (ben)`.
    pub who: String,
    /// Its user, if the credential names one.
    pub user: Option<String>,
}

/// The recorded answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedAnswer {
    /// The credential; `None` if the request expired.
    pub principal: Option<String>,
    /// The credential as people know it.
    pub who: Option<String>,
    /// When it was answered.
    pub at: String,
    /// The reason that the answerer gave.
    pub reason: Option<String>,
    /// The entry of the answer.
    pub ledger: u64,
}

/// Rows that are read at once.
const ROWS: usize = 128;

/// Attempts to read a request that changes meanwhile. It has few states, and each attempt would
/// have to coincide with a change.
const LOOKS_MAX: u32 = 16;
/// The longest pause between two attempts, in milliseconds; the first is 1.
const PAUSE_MS_MAX: u64 = 64;

/// The request `id` and its state according to the ledger; its row must match the entries.
pub(super) fn find(ledger: &Ledger, id: &ApprovalId) -> Result<(Requested, ApprovalStanding), AnswerError> {
    // What was written between the two reads is seen at the second attempt, or at the third.
    for look in 0..LOOKS_MAX {
        let size = ledger.head().size;
        let row = ledger.state(|state| state_row(state, id))?.ok_or(AnswerError::Unknown)?;
        let stored = ledger.reader().entry(row.seq)?;
        let requested =
            stored.as_ref().and_then(Requested::from_stored).filter(|requested| requested.id == *id);
        let standing = requested.as_ref().map(|requested| requested.standing(ledger.reader())).transpose()?;
        match requested.zip(standing) {
            Some((requested, standing)) if row.fits(&requested, standing.state) => {
                return Ok((requested, standing));
            }
            // The row and the entries were read one after the other, and the ledger grew between
            // them.
            _ if ledger.head().size != size => {}
            // Or it is growing now: a commit can be read before its size is published.
            _ => std::thread::sleep(Duration::from_millis((1 << look.min(63)).min(PAUSE_MS_MAX))),
        }
    }
    tracing::error!(approval = %id, "state.db: an approval does not match its ledger entries");
    Err(AnswerError::Mismatch(id.clone()))
}

impl Approval {
    /// The request `id`; `None` if it does not exist. Blocking.
    pub fn find(ledger: &Ledger, id: &ApprovalId) -> Result<Option<Self>, AnswerError> {
        Self::named(ledger, &ledger.state(key_names)?, id)
    }

    fn named(ledger: &Ledger, names: &KeyNames, id: &ApprovalId) -> Result<Option<Self>, AnswerError> {
        match find(ledger, id) {
            Ok((requested, standing)) => Ok(Some(approval_view(ledger, names, requested, standing)?)),
            Err(AnswerError::Unknown) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Requests after the entry `after`, in the order of their entries; see [`Approval::page`].
    /// Blocking.
    pub fn list(
        ledger: &Ledger,
        state: Option<State>,
        after: u64,
        limit: usize,
        sees: impl Fn(&str) -> bool,
    ) -> Result<(Vec<Self>, Option<u64>), AnswerError> {
        let asked = ApprovalsAsked { state, after: Some(after), ..ApprovalsAsked::default() };
        Self::page(ledger, &asked, limit, sees)
    }

    /// What is asked for, in its order, at most `limit` and of bounded size; only requests whose
    /// requester `sees` accepts. The second value is the next `after`; `None` at the end. Reads the
    /// entries of what is returned, however many others there are; the rows of the table that it
    /// looks at are those of the state and the requester. Blocking.
    pub fn page(
        ledger: &Ledger,
        asked: &ApprovalsAsked,
        limit: usize,
        sees: impl Fn(&str) -> bool,
    ) -> Result<(Vec<Self>, Option<u64>), AnswerError> {
        let mut items: Vec<Self> = Vec::new();
        let (names, mut bytes) = (ledger.state(key_names)?, 0);
        let mut asked = asked.clone();
        loop {
            let now_us = Wall::now().0;
            let rows = ledger.state(|state| rows_asked(state, &asked, now_us, ROWS))?;
            for row in rows.iter().filter(|row| sees(&row.requester)) {
                let Some(approval) = Self::of_row(ledger, &names, row)? else { continue };
                // INVARIANT: the requester is that of the row, which was compared with the entry.
                // The state may have changed meanwhile.
                if asked.state.is_some_and(|wanted| approval.state != wanted) {
                    continue;
                }
                let size = approval.arguments.to_string().len() + approval.shown.to_string().len();
                let is_full = items.len() == limit || bytes + size > limits::APPROVAL_PAGE_BYTES_MAX;
                if let Some(last) = items.last().filter(|_| is_full) {
                    let next = last.ledger;
                    return Ok((items, Some(next)));
                }
                bytes += size;
                items.push(approval);
            }
            match rows.last().filter(|_| rows.len() == ROWS) {
                Some(last) => asked.after = Some(last.seq),
                None => return Ok((items, None)),
            }
        }
    }

    /// The request of a row, or what its entries say if the row does not match them.
    fn of_row(ledger: &Ledger, names: &KeyNames, row: &ApprovalRow) -> Result<Option<Self>, AnswerError> {
        let requested = ledger.reader().entry(row.seq)?.as_ref().and_then(Requested::from_stored);
        if let Some(requested) = requested
            && let Some(standing) = row.standing_of(&requested, ledger.reader())?
        {
            return Ok(Some(approval_view(ledger, names, requested, standing)?));
        }
        match ApprovalId::parse(&row.id) {
            Some(id) => Self::named(ledger, names, &id),
            None => Ok(None),
        }
    }
}

pub(super) fn approval_view(
    ledger: &Ledger,
    names: &KeyNames,
    requested: Requested,
    standing: ApprovalStanding,
) -> Result<Approval, ReadError> {
    let answer = match standing.answer {
        Some(seq) => ledger.reader().entry(seq)?.as_ref().map(|stored| answered(stored, names)),
        None => None,
    };
    let is_over = standing.state == State::Pending && Wall::now().0 >= requested.expires_us;
    Ok(Approval {
        id: requested.id,
        state: if is_over { State::Expired } else { standing.state },
        run: requested.run,
        session: requested.session,
        call: requested.call,
        tool: requested.tool,
        arguments: requested.arguments,
        resource: requested.resource,
        call_hash: requested.call_hash.hex(),
        why: requested.why,
        said: requested.said,
        shown: card::view(requested.shown.as_ref()),
        card: requested.card.map(|card| card.hex()),
        tainted_by: requested.tainted_by,
        groups: requested.groups,
        confirm: requested.confirm,
        requester: Requester {
            who: names.shown(&requested.requester),
            principal: requested.requester,
            user: requested.requester_user,
        },
        created: Wall(requested.wall_us).rfc3339(),
        expires: Wall(requested.expires_us).rfc3339(),
        answer,
        ledger: requested.seq,
    })
}

fn answered(stored: &Stored, names: &KeyNames) -> RecordedAnswer {
    let granted = || stored.payload::<ApprovalGrantPayload>().and_then(|payload| payload.reason);
    let refused = || stored.payload::<ApprovalRefusePayload>().and_then(|payload| payload.reason);
    RecordedAnswer {
        principal: stored.header.str("principal").map(str::to_owned),
        who: stored.header.str("principal").map(|principal| names.shown(principal)),
        at: stored.header.u64("wall_us").map_or_else(|| "unknown".to_owned(), |at| Wall(at).rfc3339()),
        reason: granted().or_else(refused),
        ledger: stored.header.seq,
    }
}
