//! Approvals, refusals and time-outs.
//!
//! Answers, time-outs and the decisions that spend an answer run one at a time: each reads the
//! ledger and appends before the next reads it, so exactly one of two concurrent ones counts.

use super::error::{AnswerError, NotMember, OtherMember, OtherNeeded};
use super::view::{Approval, approval_view, find};
use crate::auth::{Principal, Source, key_names};
use crate::gate::mint::granted::Granted;
use crate::gate::point::Gate;
use crate::gate::requested::{ApprovalStanding, Requested, State};
use crate::ledger::payload::{ApprovalGrantPayload, ApprovalRefusePayload};
use crate::ledger::{Draft, Ledger, Ref};
use crate::policy::{Door, Over, Power};
use crate::types::clock::Wall;
use crate::types::{ApprovalId, RefusalClass, limits, text};

/// A person's answer to an approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the call is approved.
    pub grant: bool,
    /// The digest of the card that the person was shown. This or `call_hash` must be given, and
    /// each that is given must be right.
    pub card: Option<String>,
    /// The hash of the call that the person was shown.
    pub call_hash: Option<String>,
    /// The reason that the person gave.
    pub reason: Option<String>,
}

impl Answer {
    /// Refuses an answer to anything but what `requested` shows.
    fn check_shown(&self, requested: &Requested) -> Result<(), AnswerError> {
        let card = requested.card.map(|card| card.hex());
        let is_card = self.card.as_ref().is_none_or(|shown| card.as_ref() == Some(shown));
        let is_call = self.call_hash.as_ref().is_none_or(|shown| *shown == requested.call_hash.hex());
        if is_card && is_call { Ok(()) } else { Err(AnswerError::WrongCall) }
    }
}

impl Gate {
    /// Records the answer of `by`, connected through `door`, to the request `id`, and returns after
    /// it is durable.
    ///
    /// Only one of two concurrent answers counts. An approval runs nothing by itself: the call is
    /// prepared and decided again, and that decision spends it.
    pub async fn answer(
        &self,
        by: &Principal,
        door: Door,
        id: &ApprovalId,
        answer: Answer,
    ) -> Result<Approval, AnswerError> {
        self.check_may_answer(by, door)?;
        if answer.reason.as_ref().is_some_and(|reason| reason.len() > limits::APPROVAL_REASON_BYTES_MAX) {
            let reason = format!("must have at most {} bytes", limits::APPROVAL_REASON_BYTES_MAX);
            return Err(AnswerError::Invalid("reason", reason));
        }
        if answer.card.is_none() && answer.call_hash.is_none() {
            return Err(AnswerError::Invalid("card", "give it, or `call_hash`".to_owned()));
        }
        let _turn = self.answers.lock().await;
        // Until the answer is durable no other rules come into force.
        let _standing = self.in_force.turn.read().await;
        let (requested, standing) = find(self.ledger(), id)?;
        let granted = self.check(by, door, &requested, standing)?;
        answer.check_shown(&requested)?;
        let reason = self.secrets().clean(answer.reason);
        let (asked, call_hash, user) =
            (requested.id.clone(), requested.call_hash, by.user().map(str::to_owned));
        let card = requested.card;
        let (power, secrets) = (Some(granted.record()), reason.found().counts());
        let reason = reason.as_deref().map(text::visible_line);
        let draft = if answer.grant {
            let payload = ApprovalGrantPayload { id: asked, call_hash, card, user, reason, power, secrets };
            answer_draft(&requested, Draft::new(payload))
        } else {
            let status = Some(RefusalClass::Person.as_str());
            let payload = ApprovalRefusePayload {
                id: asked,
                call_hash,
                card,
                user: Some(user),
                reason,
                power,
                secrets,
            };
            Draft { status, ..answer_draft(&requested, Draft::new(payload)) }
        };
        let draft = Draft { principal: Some(by.id()), ..draft };
        let _receipt = self.ledger().append_one(draft).await.map_err(AnswerError::Ledger)?;
        // From here on the answer counts, whatever happens to this process: the run is found again.
        self.stir();
        let (requested, standing) = find(self.ledger(), id)?;
        let names = self.ledger().state(key_names)?;
        Ok(approval_view(self.ledger(), &names, requested, standing)?)
    }

    /// Whether an answer of `by` to the request `id` would count now. Blocking.
    pub fn check_answer(&self, by: &Principal, door: Door, id: &ApprovalId) -> Result<(), AnswerError> {
        self.check_may_answer(by, door)?;
        let (requested, standing) = find(self.ledger(), id)?;
        self.check(by, door, &requested, standing).map(|_| ())
    }

    /// Refuses principals that can answer nothing at all, before anything about existing requests
    /// is revealed. A key that may run, now or under other circumstances, is one: no policy lifts
    /// that. A user of this host answers through the admin socket, through a login that it opened,
    /// or as the owner of the ledger; none of these can run anything. What the same user asked
    /// through `par.sock` is their own request.
    fn check_may_answer(&self, by: &Principal, door: Door) -> Result<(), AnswerError> {
        self.holds(by, Power::Approve, door).map_err(|refused| AnswerError::MayNot(Box::new(refused)))?;
        match by.source() {
            Source::Key { .. } if self.rules().bundle.may_ever(by.subject(), Power::Run) => {
                Err(AnswerError::MayRun)
            }
            Source::Key { .. } | Source::Os { .. } => Ok(()),
        }
    }

    fn check(
        &self,
        by: &Principal,
        door: Door,
        requested: &Requested,
        standing: ApprovalStanding,
    ) -> Result<Granted, AnswerError> {
        let rules = self.rules();
        let over = Over::Owned { id: requested.id.as_str(), owner: &requested.requester };
        if self.may(by, Power::ApprovalRead, over, door).is_err() {
            return Err(AnswerError::Unknown);
        }
        let granted = self.may(by, Power::Approve, over, door);
        let granted = granted.map_err(|refused| AnswerError::MayNot(Box::new(refused)))?;
        // A key without a user has only itself as its identity.
        let is_same_user = by.user().is_some() && by.user() == requested.requester_user.as_deref();
        if !requested.groups.is_empty() && (is_same_user || by.id() == requested.requester) {
            let (groups, user) = (rules.bundle.groups(), by.user());
            let needed = requested.groups.iter().map(|group| OtherMember {
                group: group.clone(),
                exists: groups.has_other(group, user),
                is_own: user.is_some_and(|user| groups.holds(group, user)),
            });
            let (groups, user) = (needed.collect(), user.map(str::to_owned));
            return Err(AnswerError::OwnRequest(OtherNeeded { groups, user }));
        }
        let holds = |group: &str| by.user().is_some_and(|user| rules.bundle.groups().holds(group, user));
        if let Some(group) = requested.groups.iter().find(|group| !holds(group)) {
            let (group, user) = (group.clone(), by.user().map(str::to_owned));
            let has_members = !rules.bundle.groups().is_empty(&group);
            return Err(AnswerError::NotInGroup(NotMember { group, user, has_members }));
        }
        match standing.state {
            State::Pending if Wall::now().0 >= requested.expires_us => return Err(AnswerError::Expired),
            State::Pending => {}
            State::Expired => return Err(AnswerError::Expired),
            other => return Err(AnswerError::Answered(other)),
        }
        if let Some(halt) = self.in_force.stops.find(&requested.stoppable()) {
            return Err(AnswerError::Halted(Box::new(halt)));
        }
        let manifest = rules.catalog.find(&requested.tool).map(|manifest| manifest.digest);
        if requested.policy != rules.bundle.digest() || manifest != Some(requested.manifest) {
            return Err(AnswerError::Changed);
        }
        Ok(granted)
    }

    /// Refuses requests that were not answered in time. Returns when the next request expires, in
    /// microseconds of wall time.
    pub async fn expire(&self) -> Result<Option<u64>, AnswerError> {
        let _turn = self.answers.lock().await;
        let now = Wall::now().0;
        let mut drafts = Vec::new();
        for id in over(self.ledger(), now)? {
            match find(self.ledger(), &id) {
                Ok((requested, standing))
                    if standing.state == State::Pending && requested.expires_us <= now =>
                {
                    let payload = ApprovalRefusePayload {
                        id: requested.id.clone(),
                        call_hash: requested.call_hash,
                        card: requested.card,
                        user: None,
                        reason: Some("no answer in time".to_owned()),
                        power: None,
                        secrets: None,
                    };
                    let draft = answer_draft(&requested, Draft::new(payload));
                    drafts.push(Draft { status: Some("expired"), ..draft });
                }
                Ok(_) => {}
                Err(e) => {
                    tracing::error!(approval = %id, error = %e, "a request for approval was not closed")
                }
            }
        }
        if !drafts.is_empty() {
            let _receipts = self.ledger().append(drafts).await.map_err(AnswerError::Ledger)?;
        }
        Ok(next_over(self.ledger(), now)?)
    }
}

/// The header fields of an answer.
fn answer_draft(requested: &Requested, said: Draft) -> Draft {
    Draft {
        run: Some(requested.run.clone()),
        session: Some(requested.session.clone()),
        call: Some(requested.call.clone()),
        answers: Some(Ref::Seq(requested.seq)),
        policy: Some(requested.policy),
        manifest: Some(requested.manifest),
        tool: Some(requested.tool.clone()),
        ..said
    }
}

/// Open requests that have expired by `now`.
fn over(ledger: &Ledger, now: u64) -> Result<Vec<ApprovalId>, rusqlite::Error> {
    ledger.state(|state| {
        let sql = "SELECT id FROM approval WHERE state = 'pending' AND expires_us <= ?1";
        let mut ids = state.prepare_cached(sql)?;
        let ids = ids.query_map([i64::try_from(now).unwrap_or(i64::MAX)], |row| row.get::<_, String>(0))?;
        ids.filter_map(|id| id.map(|id| ApprovalId::parse(&id)).transpose()).collect()
    })
}

fn next_over(ledger: &Ledger, now: u64) -> Result<Option<u64>, rusqlite::Error> {
    let sql = "SELECT min(expires_us) FROM approval WHERE state = 'pending' AND expires_us > ?1";
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let next = ledger.state(|state| state.query_row(sql, [now], |row| row.get::<_, Option<i64>>(0)))?;
    Ok(next.and_then(|at| u64::try_from(at).ok()))
}
