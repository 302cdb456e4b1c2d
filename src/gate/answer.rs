//! What a person is asked, and what a person says.
//!
//! Answers, time-outs and the decisions that spend an answer take turns: each looks at the ledger and
//! appends before the next looks, so that of two at once exactly one counts.

use super::asked::{Requested, Standing, State, state_row};
use super::decide::Gate;
use super::power::{Granted, Refused};
use crate::auth::{Principal, Source};
use crate::ledger::{AppendError, Draft, DraftError, Kind, Ledger, ReadError, Ref, Stored};
use crate::policy::{self, Approved, Door, Over, Power};
use crate::types::clock::Wall;
use crate::types::{ApprovalId, CallId, Digest, RunId, SessionId, limits, text};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// A question to a person, as told to those who may read it. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Approval {
    /// Its identifier.
    pub id: ApprovalId,
    /// How it stands.
    pub state: State,
    /// The run that waits.
    pub run: RunId,
    /// Its conversation.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The exact arguments.
    pub arguments: Value,
    /// The object that they name, in canonical form.
    pub resource: Value,
    /// What an answer has to repeat: SHA-256 over the exact call and the digests of what decides it.
    pub call_hash: String,
    /// The policies that ask: id, `file:line`, advice.
    pub why: Value,
    /// What the model said beside the call: untrusted.
    pub said: Option<String>,
    /// Results that the run had seen and nobody vouches for: `tool`, `resource`, `result` (its entry).
    pub tainted_by: Vec<Value>,
    /// Groups of which the answerer must be.
    pub groups: Vec<String>,
    /// Whether a confirmation is asked for, which the user who asked may give.
    pub confirm: bool,
    /// Who asked.
    pub requester: Requester,
    /// When.
    pub created: String,
    /// When it is refused by itself.
    pub expires: String,
    /// What was answered.
    pub answer: Option<Answered>,
    /// The entry that asked.
    pub ledger: u64,
}

/// Who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requester {
    /// The credential, as on the ledger.
    pub principal: String,
    /// The user behind it, where one is named.
    pub user: Option<String>,
}

/// What was answered, by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// The credential; none where the time was over.
    pub principal: Option<String>,
    /// When.
    pub at: String,
    /// In the answerer's words.
    pub reason: Option<String>,
    /// The entry.
    pub ledger: u64,
}

/// What a person says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Yes or no.
    pub grant: bool,
    /// The call that the person was shown.
    pub call_hash: String,
    /// Why, in the person's words.
    pub reason: Option<String>,
}

/// Why an answer does not count.
#[derive(Debug)]
pub enum AnswerError {
    /// There is no such question.
    Unknown,
    /// A key that may run answers nothing, whatever the policies say.
    MayRun,
    /// The policies do not let this credential answer.
    MayNot(Box<Refused>),
    /// The answerer is who asked.
    OwnRequest,
    /// The answerer is not in this group.
    NotInGroup(String),
    /// Its time is over.
    Expired,
    /// It was answered already, or needs no answer any more.
    Answered(State),
    /// The answer is to another call than the one that was asked about.
    WrongCall,
    /// Policy or tools are not those that asked: the call is decided anew.
    Changed,
    /// A value does not fit: its name and the reason.
    Unfit(&'static str, String),
    /// Its row in state.db is not the one that the ledger makes.
    Mismatch(ApprovalId),
    /// The ledger cannot be written: the answer does not count.
    Ledger(AppendError),
    /// The ledger cannot be read.
    Read(ReadError),
}

impl AnswerError {
    /// A stable word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "not_found",
            Self::MayRun | Self::MayNot(_) => "forbidden",
            Self::OwnRequest => "own_request",
            Self::NotInGroup(_) => "not_in_group",
            Self::Expired => "expired",
            Self::Answered(_) => "answered",
            Self::WrongCall => "wrong_call",
            Self::Changed => "changed",
            Self::Unfit(..) => "unfit",
            Self::Mismatch(_) => "damaged",
            Self::Ledger(_) | Self::Read(_) => "ledger",
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such approval"),
            Self::MayRun => f.write_str(
                "answers are taken from keys that may approve and may not run, and by the admin socket",
            ),
            Self::MayNot(refused) => refused.fmt(f),
            Self::OwnRequest => f.write_str("who asked cannot approve: another user of the group has to"),
            Self::NotInGroup(group) => write!(f, "this needs a user of the group `{group}`"),
            Self::Expired => f.write_str("its time is over, and so it is refused: ask again"),
            Self::Answered(state) => write!(f, "it is {} already", state.as_str()),
            Self::WrongCall => f.write_str("`call_hash` is of another call: look at the approval again"),
            Self::Changed => {
                f.write_str("policy or tools have changed since: the call is decided anew and asked again")
            }
            Self::Unfit(field, reason) => write!(f, "`{field}`: {reason}"),
            Self::Mismatch(id) => write!(
                f,
                "state.db: approval `{id}` does not match its ledger entries: stop the server and delete \
                 state.db, which is then made anew from the ledger"
            ),
            Self::Ledger(e) => e.fmt(f),
            Self::Read(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for AnswerError {}

impl<E: Into<ReadError>> From<E> for AnswerError {
    fn from(error: E) -> Self {
        Self::Read(error.into())
    }
}

/// A call that a person was asked about, and that is to be prepared and decided again: because of a yes,
/// or because what asked has changed. Made only by [`Gate::recall`].
#[derive(Debug)]
#[must_use = "a call that was asked about needs `reopen`"]
pub struct Asked {
    pub(super) requested: Box<Requested>,
    pub(super) grant: Option<Grant>,
}

/// A yes that is not spent yet.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) seq: u64,
    pub(super) user: Option<String>,
}

impl Asked {
    pub(super) fn call(&self) -> &CallId {
        &self.requested.call
    }

    /// The entry that a new decision answers: the yes, else the question.
    pub(super) fn answered(&self) -> u64 {
        self.grant.as_ref().map_or(self.requested.seq, |grant| grant.seq)
    }

    /// The yes as policies see it, where it is one to exactly this call, for all of `gates`, in time.
    pub(super) fn consent(&self, call_hash: Digest, gates: &[policy::Obligation]) -> Option<Approved<'_>> {
        let grant = self.grant.as_ref()?;
        let holds = call_hash == self.requested.call_hash
            && Wall::now().0 < self.requested.expires_us
            && gates.iter().all(|gate| self.requested.asks(gate));
        let by = grant.user.as_deref();
        holds.then_some(if self.requested.groups.is_empty() {
            Approved::Confirmed { by }
        } else {
            Approved::Approved { by }
        })
    }
}

impl Gate {
    /// Records what `by`, who came in by `door`, says to the question `id`, and returns after it is durable.
    ///
    /// Of two answers at once one counts. A yes lets nothing run by itself: the call is prepared and
    /// decided again, and that decision spends it.
    pub async fn answer(
        &self,
        by: &Principal,
        door: Door,
        id: &ApprovalId,
        answer: Answer,
    ) -> Result<Approval, AnswerError> {
        self.check_apart(by, door)?;
        if answer.reason.as_ref().is_some_and(|reason| reason.len() > limits::APPROVAL_REASON_BYTES_MAX) {
            let reason = format!("is longer than {} bytes", limits::APPROVAL_REASON_BYTES_MAX);
            return Err(AnswerError::Unfit("reason", reason));
        }
        let _turn = self.answers.lock().await;
        // Until the answer is durable no other rules come into force.
        let _standing = self.in_force.turn.read().await;
        let (requested, standing) = find(self.ledger(), id)?;
        let granted = self.check(by, door, &requested, standing, &answer.call_hash)?;
        let kind = if answer.grant { Kind::ApprovalGrant } else { Kind::ApprovalRefuse };
        let reason = self.secrets().clean(answer.reason);
        let mut payload = json!({
            "id": requested.id.as_str(),
            "call_hash": requested.call_hash.hex(),
            "user": by.user(),
            "reason": reason.as_deref().map(text::visible_line),
            "power": granted.json(),
        });
        if let Some(members) = payload.as_object_mut() {
            reason.found().put(members);
        }
        let draft = Draft { principal: Some(by.id()), ..answer_draft(&requested, kind, payload) };
        let _receipt = self.ledger().append_one(draft).await.map_err(AnswerError::Ledger)?;
        // From here on the answer counts, whatever happens to this process: the run is found again.
        self.stir();
        let (requested, standing) = find(self.ledger(), id)?;
        Ok(told(self.ledger(), requested, standing)?)
    }

    /// Whether an answer of `by` to the question `id` would count, as things stand. Blocking.
    pub fn check_answer(&self, by: &Principal, door: Door, id: &ApprovalId) -> Result<(), AnswerError> {
        self.check_apart(by, door)?;
        let (requested, standing) = find(self.ledger(), id)?;
        let call_hash = requested.call_hash.hex();
        self.check(by, door, &requested, standing, &call_hash).map(|_| ())
    }

    /// Refuses who answers nothing at all, before anything is told of what there is. A key that might run, now or
    /// under other circumstances, is one: no policy lifts that. A user of this host comes in by the admin socket or
    /// owns the ledger; nothing runs from there.
    fn check_apart(&self, by: &Principal, door: Door) -> Result<(), AnswerError> {
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
        standing: Standing,
        call_hash: &str,
    ) -> Result<Granted, AnswerError> {
        let rules = self.rules();
        let over = Over::Of { id: requested.id.as_str(), owner: &requested.requester };
        if self.may(by, Power::ApprovalRead, over, door).is_err() {
            return Err(AnswerError::Unknown);
        }
        let granted = self.may(by, Power::Approve, over, door);
        let granted = granted.map_err(|refused| AnswerError::MayNot(Box::new(refused)))?;
        // A key without a user stands for itself alone.
        let is_same_user = by.user().is_some() && by.user() == requested.requester_user.as_deref();
        if !requested.groups.is_empty() && (is_same_user || by.id() == requested.requester) {
            return Err(AnswerError::OwnRequest);
        }
        let holds = |group: &str| by.user().is_some_and(|user| rules.bundle.groups().holds(group, user));
        if let Some(group) = requested.groups.iter().find(|group| !holds(group)) {
            return Err(AnswerError::NotInGroup(group.clone()));
        }
        match standing.state {
            State::Pending if Wall::now().0 >= requested.expires_us => return Err(AnswerError::Expired),
            State::Pending => {}
            State::Expired => return Err(AnswerError::Expired),
            other => return Err(AnswerError::Answered(other)),
        }
        if call_hash != requested.call_hash.hex() {
            return Err(AnswerError::WrongCall);
        }
        let manifest = rules.catalog.find(&requested.tool).map(|manifest| manifest.digest);
        if requested.policy != rules.bundle.digest() || manifest != Some(requested.manifest) {
            return Err(AnswerError::Changed);
        }
        Ok(granted)
    }

    /// Refuses what nobody answered in time. Returns when the next question's time is over, on the wall
    /// clock in microseconds.
    pub async fn expire(&self) -> Result<Option<u64>, AnswerError> {
        let _turn = self.answers.lock().await;
        let now = Wall::now().0;
        let mut drafts = Vec::new();
        for id in over(self.ledger(), now)? {
            match find(self.ledger(), &id) {
                Ok((requested, standing))
                    if standing.state == State::Pending && requested.expires_us <= now =>
                {
                    let payload = json!({
                        "id": requested.id.as_str(),
                        "call_hash": requested.call_hash.hex(),
                        "reason": "nobody answered in time",
                    });
                    let draft = answer_draft(&requested, Kind::ApprovalRefuse, payload);
                    drafts.push(Draft { status: Some("expired"), ..draft });
                }
                Ok(_) => {}
                Err(e) => tracing::error!(approval = %id, error = %e, "a question was not closed"),
            }
        }
        if !drafts.is_empty() {
            let _receipts = self.ledger().append(drafts).await.map_err(AnswerError::Ledger)?;
        }
        Ok(next_over(self.ledger(), now)?)
    }

    /// Refuses to decide a second time on one answer: another decision has spent or voided it.
    pub(super) fn check_unspent(&self, asked: &Asked) -> Result<(), AppendError> {
        let refuse = |what: String| AppendError::Draft(DraftError(what));
        let standing = asked.requested.standing(self.ledger().reader()).map_err(|e| refuse(e.to_string()))?;
        let expected = match &asked.grant {
            Some(grant) => Standing { state: State::Granted, answer: Some(grant.seq) },
            None => Standing { state: State::Pending, answer: None },
        };
        let is = standing.state.as_str();
        (standing == expected).then_some(()).ok_or_else(|| {
            refuse(format!("approval `{}` is {is}: it decides nothing more", asked.requested.id))
        })
    }
}

fn answer_draft(requested: &Requested, kind: Kind, payload: Value) -> Draft {
    Draft {
        run: Some(requested.run.clone()),
        session: Some(requested.session.clone()),
        call: Some(requested.call.clone()),
        answers: Some(Ref::Seq(requested.seq)),
        policy: Some(requested.policy),
        manifest: Some(requested.manifest),
        tool: Some(requested.tool.clone()),
        ..Draft::new(kind, payload)
    }
}

/// Looks at a question that moves meanwhile: it has few states, and each look would have to meet a change.
const LOOKS_MAX: u32 = 16;
/// The longest pause between two looks, in milliseconds; the first is of one.
const PAUSE_MS_MAX: u64 = 64;

/// The question `id` and how it stands, by the ledger; its row must be the one that the entries make.
fn find(ledger: &Ledger, id: &ApprovalId) -> Result<(Requested, Standing), AnswerError> {
    // What was written between the two reads is seen at the second look, or at the third.
    for look in 0..LOOKS_MAX {
        let size = ledger.head().size;
        let row = ledger.state(|state| state_row(state, id))?.ok_or(AnswerError::Unknown)?;
        let stored = ledger.reader().entry(row.seq)?;
        let requested = stored.as_ref().and_then(Requested::of).filter(|requested| requested.id == *id);
        let standing = requested.as_ref().map(|requested| requested.standing(ledger.reader())).transpose()?;
        match requested.zip(standing) {
            Some((requested, standing)) if row.fits(&requested, standing.state) => {
                return Ok((requested, standing));
            }
            // The row and the entries were read one after the other, and the ledger went on between them.
            _ if ledger.head().size != size => {}
            // Or it is just going on: a commit can be read before it is told.
            _ => std::thread::sleep(Duration::from_millis((1 << look.min(63)).min(PAUSE_MS_MAX))),
        }
    }
    tracing::error!(approval = %id, "state.db: an approval does not match its ledger entries");
    Err(AnswerError::Mismatch(id.clone()))
}

/// Questions that no answer came to by `now`.
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

impl Approval {
    /// The question `id`; `None` where there is none. Blocking.
    pub fn find(ledger: &Ledger, id: &ApprovalId) -> Result<Option<Self>, AnswerError> {
        match find(ledger, id) {
            Ok((requested, standing)) => Ok(Some(told(ledger, requested, standing)?)),
            Err(AnswerError::Unknown) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Questions asked behind the entry `after`, by their numbers, at most `limit` and of bounded size;
    /// only those in `state`, where one is given, and whose requester `sees` takes. The second value leads on, as `after`; `None` at the
    /// end. Blocking.
    pub fn list(
        ledger: &Ledger,
        state: Option<State>,
        after: u64,
        limit: usize,
        sees: impl Fn(&str) -> bool,
    ) -> Result<(Vec<Self>, Option<u64>), AnswerError> {
        let mut items: Vec<Self> = Vec::new();
        let mut bytes = 0;
        for id in ids(ledger, after)? {
            let Some(approval) = Self::find(ledger, &id)? else { continue };
            if state.is_some_and(|wanted| approval.state != wanted) || !sees(&approval.requester.principal) {
                continue;
            }
            let size = approval.arguments.to_string().len();
            let is_full = items.len() == limit || bytes + size > limits::APPROVAL_PAGE_BYTES_MAX;
            if let Some(last) = items.last().filter(|_| is_full) {
                let next = last.ledger;
                return Ok((items, Some(next)));
            }
            bytes += size;
            items.push(approval);
        }
        Ok((items, None))
    }
}

fn ids(ledger: &Ledger, after: u64) -> Result<Vec<ApprovalId>, rusqlite::Error> {
    ledger.state(|state| {
        let sql = "SELECT id FROM approval WHERE request_seq > ?1 ORDER BY request_seq";
        let mut ids = state.prepare_cached(sql)?;
        let ids = ids.query_map([i64::try_from(after).unwrap_or(i64::MAX)], |row| row.get::<_, String>(0))?;
        ids.filter_map(|id| id.map(|id| ApprovalId::parse(&id)).transpose()).collect()
    })
}

fn told(ledger: &Ledger, requested: Requested, standing: Standing) -> Result<Approval, ReadError> {
    let answer = match standing.answer {
        Some(seq) => ledger.reader().entry(seq)?.as_ref().map(answered),
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
        tainted_by: requested.tainted_by,
        groups: requested.groups,
        confirm: requested.confirm,
        requester: Requester { principal: requested.requester, user: requested.requester_user },
        created: Wall(requested.wall_us).rfc3339(),
        expires: Wall(requested.expires_us).rfc3339(),
        answer,
        ledger: requested.seq,
    })
}

fn answered(stored: &Stored) -> Answered {
    let payload: Value =
        stored.body.as_deref().and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
    Answered {
        principal: stored.header.str("principal").map(str::to_owned),
        at: stored.header.u64("wall_us").map_or_else(|| "unknown".to_owned(), |at| Wall(at).rfc3339()),
        reason: payload.get("reason").and_then(Value::as_str).map(str::to_owned),
        ledger: stored.header.seq,
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Grant};
    use crate::gate::asked::Requested;
    use crate::policy::{Approved, Obligation};
    use crate::types::{ApprovalId, CallId, Digest, RunId, SessionId};
    use serde_json::json;

    fn asked(groups: &[&str], expires_us: u64, grant: Option<Grant>) -> Asked {
        let requested = Requested {
            id: ApprovalId::generate(),
            seq: 4,
            wall_us: 0,
            run: RunId::generate(),
            session: SessionId::generate(),
            call: CallId::generate(),
            tool: "deploy".to_owned(),
            arguments: json!({}),
            resource: json!({}),
            call_hash: Digest::of(b"this call"),
            policy: Digest::of(b"policy"),
            manifest: Digest::of(b"manifest"),
            why: json!([]),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            confirm: groups.is_empty(),
            requester: "key:Ab3dEf9h".to_owned(),
            requester_user: None,
            expires_us,
            said: None,
            tainted_by: Vec::new(),
        };
        Asked { requested: Box::new(requested), grant }
    }

    /// In time, to exactly this call, and for everything that is asked now: else there is no yes.
    #[test]
    fn a_yes_counts_for_its_call_in_its_time_for_its_gates() {
        let yes = || Some(Grant { seq: 6, user: Some("ben".to_owned()) });
        let of = |group: &str| vec![Obligation::Approval { group: group.to_owned() }];
        let (call, other) = (Digest::of(b"this call"), Digest::of(b"another call"));
        let by = Some("ben");
        let released = asked(&["release"], u64::MAX, yes());
        assert_eq!(released.answered(), 6);
        assert_eq!(released.consent(call, &of("release")), Some(Approved::Approved { by }));
        assert_eq!(released.consent(other, &of("release")), None);
        assert_eq!(released.consent(call, &of("night")), None);
        assert_eq!(released.consent(call, &[of("release"), of("night")].concat()), None);
        assert_eq!(asked(&["release"], 1, yes()).consent(call, &of("release")), None, "its time is over");
        let confirmed = asked(&[], u64::MAX, yes());
        assert_eq!(confirmed.consent(call, &[Obligation::Confirm]), Some(Approved::Confirmed { by }));
        assert_eq!(confirmed.consent(call, &of("release")), None);
        let unanswered = asked(&["release"], u64::MAX, None);
        assert_eq!((unanswered.answered(), unanswered.consent(call, &of("release"))), (4, None));
    }
}
