//! The operations on approvals: the ones open to users who do not manage.

use super::failure::{Failure, failed, known, text};
use super::room::Room;
use super::words::{FailureCode, Operation};
use crate::auth::{Admitted, Principal};
use crate::gate::{Answer, AnswerError, Approval, Gate, State};
use crate::ledger::AppendError;
use crate::ledger::payload::LedgerDamagePayload;
use crate::policy::{Door, Power};
use crate::types::{ApprovalId, clock, limits};
use serde_json::{Map, Value, json};

/// Performs an operation on approvals for `peer`.
pub(super) async fn act(
    room: &Room,
    peer: &Admitted,
    operation: Operation,
    asked: &Map<String, Value>,
) -> Result<Value, Failure> {
    let reader = ApprovalReader::new(room.agent.gate(), peer);
    match operation {
        Operation::ApprovalList => list(room, &reader, asked).await,
        Operation::ApprovalShow => {
            known(asked, &["op", "id"])?;
            let approval = find(room, &reader, &approval_id(asked)?).await?;
            let (gate, by, id) = (reader.gate.clone(), reader.principal.clone(), approval.id.clone());
            let may = move || gate.check_answer(&by, Door::SOCKET, &id);
            let may = tokio::task::spawn_blocking(may).await.map_err(failed)?;
            // On a damaged ledger no answer counts.
            let may_not = room.agent.ledger().damage().map(of_damage).or(may.err());
            let may_not = may_not
                .map(|why| json!({ "code": FailureCode::from(&why).as_str(), "detail": why.to_string() }));
            Ok(json!({ "approval": approval, "may_not": may_not }))
        }
        Operation::ApprovalAnswer => {
            known(asked, &["op", "id", "grant", "card", "call_hash", "reason"])?;
            let missing = |name: &str| Failure::new(FailureCode::Invalid, format!("`{name}` is missing"));
            let answer = Answer {
                grant: asked.get("grant").and_then(Value::as_bool).ok_or_else(|| missing("grant"))?,
                card: text(asked, "card")?.map(str::to_owned),
                call_hash: text(asked, "call_hash")?.map(str::to_owned),
                reason: text(asked, "reason")?.map(ToOwned::to_owned),
            };
            let id = approval_id(asked)?;
            // What a user may not see does not exist for them.
            find(room, &reader, &id).await?;
            let answered = room.agent.gate().answer(&reader.principal, Door::SOCKET, &id, answer).await?;
            Ok(json!({ "approval": answered }))
        }
        Operation::LoginCreate => {
            known(asked, &["op"])?;
            login(room, peer)
        }
        _ => Err(Failure::new(FailureCode::Refused, "this operation is not about approvals")),
    }
}

/// A code for a login that answers, for a person who may answer whatever group is asked for.
fn login(room: &Room, peer: &Admitted) -> Result<Value, Failure> {
    let refused = || {
        let why = "only root, the owner of the data and users with the role approver may open a login that \
                   answers";
        Failure::new(FailureCode::Refused, why)
    };
    let principal = peer.answering().ok_or_else(refused)?;
    if let Some(damage) = room.agent.ledger().damage() {
        let why = format!("no approval can be answered: {}", AppendError::Damaged(Box::new(damage)));
        return Err(Failure::new(FailureCode::LedgerDamaged, why));
    }
    room.agent.gate().holds(&principal, Power::Approve, Door::SOCKET)?;
    let code = room.links.mint(principal, clock::mono_us()).map_err(failed)?;
    Ok(json!({ "code": code.as_str(), "seconds": limits::LOGIN_LINK_MS_MAX / 1_000 }))
}

fn of_damage(damage: LedgerDamagePayload) -> AnswerError {
    AnswerError::Ledger(AppendError::Damaged(Box::new(damage)))
}

/// Who reads approvals, and which.
#[derive(Clone)]
struct ApprovalReader {
    gate: Gate,
    principal: Principal,
    is_member_only: bool,
}

impl ApprovalReader {
    fn new(gate: &Gate, peer: &Admitted) -> Self {
        let (Admitted::Manager(principal) | Admitted::Approver(principal) | Admitted::Member(principal)) =
            peer;
        let is_member_only = matches!(peer, Admitted::Member(_));
        Self { gate: gate.clone(), principal: principal.clone(), is_member_only }
    }

    /// A user who is not an approver sees the approvals that their groups are asked for.
    fn is_asked(&self, approval: &Approval) -> bool {
        let rules = self.gate.rules();
        let user = self.principal.user().unwrap_or_default();
        let holds = |group: &String| rules.bundle.groups().holds(group, user);
        !self.is_member_only || (!approval.groups.is_empty() && approval.groups.iter().all(holds))
    }
}

async fn list(room: &Room, reader: &ApprovalReader, asked: &Map<String, Value>) -> Result<Value, Failure> {
    known(asked, &["op", "state", "after"])?;
    let state = text(asked, "state")?.map(state).transpose()?;
    let after = asked.get("after").and_then(Value::as_u64).unwrap_or(0);
    let sight = reader.gate.sight(&reader.principal, Power::ApprovalRead, Door::SOCKET)?;
    let (ledger, reader) = (room.agent.ledger().clone(), reader.clone());
    let damage = ledger.damage().map(|damage| AppendError::Damaged(Box::new(damage)).to_string());
    let page = move || {
        let page = Approval::list(&ledger, state, after, limits::PAGE_ITEMS, |owner| sight.sees(owner));
        page.map(|(items, next)| {
            let asked = items.into_iter().filter(|item| reader.is_asked(item));
            (asked.collect::<Vec<_>>(), next)
        })
    };
    let (items, next) = tokio::task::spawn_blocking(page).await.map_err(failed)??;
    Ok(json!({ "items": items, "next": next, "damage": damage }))
}

async fn find(room: &Room, reader: &ApprovalReader, id: &ApprovalId) -> Result<Approval, Failure> {
    let sight = reader.gate.sight(&reader.principal, Power::ApprovalRead, Door::SOCKET)?;
    let (ledger, id) = (room.agent.ledger().clone(), id.clone());
    let found = tokio::task::spawn_blocking(move || Approval::find(&ledger, &id)).await;
    let found = found.map_err(failed)??;
    let found = found.filter(|found| sight.sees(&found.requester.principal) && reader.is_asked(found));
    Ok(found.ok_or(AnswerError::Unknown)?)
}

fn approval_id(asked: &Map<String, Value>) -> Result<ApprovalId, Failure> {
    let id = text(asked, "id")?.ok_or_else(|| Failure::new(FailureCode::Invalid, "`id` is missing"))?;
    Ok(ApprovalId::parse(id).ok_or(AnswerError::Unknown)?)
}

fn state(word: &str) -> Result<State, Failure> {
    State::parse(word)
        .ok_or_else(|| Failure::new(FailureCode::Invalid, "`state` is not a state of an approval"))
}
