//! Questions that a person has or had before: one is open for an object at a time, a refusal holds
//! for an hour, and a key and a run have a bounded number of open ones.
//!
//! Both are read from the ledger's entries when a person is about to be asked, so they hold after a
//! restart too. `state.db` only says which entries to read.

use super::decided::{Decided, Next};
use super::point::Gate;
use super::requested::{Requested, State};
use crate::ledger::payload::{ApprovalRefusePayload, ApprovalRequestPayload};
use crate::ledger::{ReadError, Stored};
use crate::types::clock::Wall;
use crate::types::{RefusalClass, limits, text};
use serde_json::json;
use std::sync::atomic::Ordering;

/// The number of open requests of a requester, and of a run, without the one that is replaced.
const OPEN_OF_REQUESTER: &str = "SELECT count(*) FROM approval \
     WHERE requester = ?1 AND state = 'pending' AND expires_us > ?2 AND id != ?3";
const OPEN_OF_RUN: &str =
    "SELECT count(*) FROM approval WHERE run = ?1 AND state = 'pending' AND expires_us > ?2 AND id != ?3";

impl Gate {
    /// The same decisions, without a question that another one makes superfluous: such a call is
    /// denied, and the reason names the other question. To be called while no other question can be
    /// committed.
    pub(super) fn without_repeated(&self, decided: Vec<Decided>) -> Result<Vec<Decided>, ReadError> {
        let mut asked: Vec<ApprovalRequestPayload> = Vec::new();
        let mut kept = Vec::with_capacity(decided.len());
        for one in decided {
            let Next::Ask { payload } = &one.next else {
                kept.push(one);
                continue;
            };
            let beside = asked.iter().find(|other| is_on_same(payload, &other.tool, &json!(other.resource)));
            let open = match beside {
                Some(other) => {
                    let is_same = payload.arguments == other.arguments;
                    Some(already_asked(payload, other.id.as_str(), is_same))
                }
                None => self.open_question(payload)?,
            };
            let why = match open {
                Some(open) => Some((RefusalClass::Asked, open)),
                None => match self.refusal_in_force(payload)? {
                    Some(why) => Some((RefusalClass::Person, why)),
                    // All of this commit are of the same run.
                    None => self
                        .too_many_open(payload, one.facts.run.as_str(), asked.len())?
                        .map(|why| (RefusalClass::Capacity, why)),
                },
            };
            match why {
                Some((class, why)) => kept.push(one.not_asked(class, &why)),
                None => {
                    asked.push((**payload).clone());
                    kept.push(one);
                }
            }
        }
        Ok(kept)
    }

    /// A question about the same object and tool that is still open.
    fn open_question(&self, payload: &ApprovalRequestPayload) -> Result<Option<String>, ReadError> {
        let now = Wall::now().0;
        for (request, _) in self.questions("state IN ('pending', 'granted')")? {
            let Some(open) = self.question_at(request)? else { continue };
            let is_replaced = payload.replaces.as_ref() == Some(&open.id);
            if is_replaced || open.expires_us <= now || !is_on_same(payload, &open.tool, &open.resource) {
                continue;
            }
            if matches!(open.standing(self.ledger().reader())?.state, State::Pending | State::Granted) {
                let is_same = payload.arguments == open.arguments;
                return Ok(Some(already_asked(payload, open.id.as_str(), is_same)));
            }
        }
        Ok(None)
    }

    /// A person's refusal of the same call of the same requester, within the last hour.
    fn refusal_in_force(&self, payload: &ApprovalRequestPayload) -> Result<Option<String>, ReadError> {
        let since = Wall::now().0.saturating_sub(limits::APPROVAL_REFUSAL_MS * 1_000);
        for (request, answer) in self.questions("state = 'refused'")? {
            let answer = answer.map(|seq| self.ledger().reader().entry(seq)).transpose()?.flatten();
            let Some(answer) = answer else { continue };
            let Some(at) = answer.header.u64("wall_us") else { continue };
            // Newest first: all others are older.
            if at < since {
                break;
            }
            let refused = self.question_at(request)?.filter(|refused| is_same_call(payload, refused));
            if refused.is_some() {
                let until = minute(Wall(at.saturating_add(limits::APPROVAL_REFUSAL_MS * 1_000)));
                let (who, at) = (refuser(&answer), minute(Wall(at)));
                return Ok(Some(format!(
                    "refused by {who} at {at}; this holds until {until} for whoever asked: if the refusal was a \
                     mistake, another user can ask for the same call now; without one, it can be asked \
                     again after that"
                )));
            }
        }
        Ok(None)
    }

    /// Why no more questions may be asked for the requester or the run, if so many are open.
    /// `beside` is the number of questions in the same commit.
    fn too_many_open(
        &self,
        payload: &ApprovalRequestPayload,
        run: &str,
        beside: usize,
    ) -> Result<Option<String>, ReadError> {
        let replaced = payload.replaces.as_ref().map_or("", |id| id.as_str());
        let now = i64::try_from(Wall::now().0).unwrap_or(i64::MAX);
        let beside = u64::try_from(beside).unwrap_or(u64::MAX);
        let count = |sql: &str, of: &str| {
            let open = self.ledger().state(|state| {
                let mut found = state.prepare_cached(sql)?;
                found.query_row(rusqlite::params![of, now, replaced], |row| row.get::<_, i64>(0))
            })?;
            Ok::<u64, ReadError>(u64::try_from(open).unwrap_or(u64::MAX).saturating_add(beside))
        };
        let of_key = count(OPEN_OF_REQUESTER, &payload.requester.principal)?;
        let of_run = count(OPEN_OF_RUN, run)?;
        let told = |whose: &str, open: u64, key: &str| {
            format!(
                "{open} questions of {whose} are open already, as many as `approvals.{key}` allows: ask again once \
                 one is answered"
            )
        };
        if of_run >= self.open.run.load(Ordering::Relaxed) {
            return Ok(Some(told("this run", of_run, "open_run_max")));
        }
        let is_full = of_key >= self.open.key.load(Ordering::Relaxed);
        Ok(is_full.then(|| told("this caller", of_key, "open_key_max")))
    }

    /// Entries of the requests whose row matches `wanted`, with those of their answers; the newest
    /// answer first.
    fn questions(&self, wanted: &'static str) -> Result<Vec<(u64, Option<u64>)>, ReadError> {
        let sql = format!(
            "SELECT request_seq, answer_seq FROM approval WHERE {wanted} ORDER BY answer_seq DESC, request_seq DESC"
        );
        let seq = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
        let rows = self.ledger().state(|state| {
            let mut rows = state.prepare_cached(&sql)?;
            let rows =
                rows.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)))?;
            rows.collect::<Result<Vec<_>, rusqlite::Error>>()
        })?;
        Ok(rows.into_iter().map(|(request, answer)| (seq(request), answer.map(seq))).collect())
    }

    fn question_at(&self, seq: u64) -> Result<Option<Requested>, ReadError> {
        Ok(self.ledger().reader().entry(seq)?.as_ref().and_then(Requested::from_stored))
    }
}

/// Which approval is open, and that it is about the same object. The arguments of the other call
/// are not named: another caller may have chosen them.
fn already_asked(payload: &ApprovalRequestPayload, id: &str, is_same_call: bool) -> String {
    let (tool, object) = (&payload.tool, text::visible_line(&payload.resource.id));
    let about = if is_same_call { "the same call" } else { "a call with other arguments" };
    format!(
        "already asked: {id} is open for {about} of {tool} on {object}; one question is open for an object at a \
         time: ask again once it is answered"
    )
}

/// Whether a question about `payload` would be about the same object and tool.
fn is_on_same(payload: &ApprovalRequestPayload, tool: &str, resource: &serde_json::Value) -> bool {
    let named = |name: &str| resource.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    payload.tool == tool && payload.resource.kind == named("type") && payload.resource.id == named("id")
}

/// Whether `refused` is the call of `payload`: tool, arguments, object and requester.
fn is_same_call(payload: &ApprovalRequestPayload, refused: &Requested) -> bool {
    let (by, user) = (&payload.requester.principal, &payload.requester.user);
    let is_by_same = *by == refused.requester || (user.is_some() && *user == refused.requester_user);
    is_by_same
        && payload.tool == refused.tool
        && payload.arguments == refused.arguments
        && json!(payload.resource) == refused.resource
}

/// A time to the minute, in UTC: `2026-11-24 11:30 UTC`.
fn minute(at: Wall) -> String {
    let exact = at.rfc3339();
    let to_minute =
        exact.split_once('T').and_then(|(day, clock)| Some(format!("{day} {} UTC", clock.get(..5)?)));
    to_minute.unwrap_or(exact)
}

/// Who refused, by user if the credential names one.
fn refuser(answer: &Stored) -> String {
    let user = answer.payload::<ApprovalRefusePayload>().and_then(|payload| payload.user.flatten());
    user.or_else(|| answer.header.str("principal").map(str::to_owned))
        .unwrap_or_else(|| "a person".to_owned())
}
