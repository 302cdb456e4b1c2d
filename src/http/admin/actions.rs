//! The operations of the admin socket.

use super::words::{FailureCode, Operation};
use crate::agent::Agent;
use crate::auth::{Authority, KeyError, NewKey, Principal, Role};
use crate::gate::{Answer, AnswerError, Approval, Granted, Refused, State};
use crate::ledger::{Erasure, Filter, Format, RedactError, Targets};
use crate::policy::{Door, Over, Power};
use crate::rules::{ReloadError, Reloader};
use crate::types::clock::Wall;
use crate::types::{ApprovalId, limits};
use serde_json::{Map, Value, json};

/// What the operations work on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Room {
    /// The API keys.
    pub authority: Authority,
    /// The agent whose calls wait for approval.
    pub agent: Agent,
    /// Reloads its rules.
    pub reloader: Reloader,
}

/// Performs the operation for `principal`, if the policy grants its power.
pub(super) async fn act(
    room: &Room,
    principal: &Principal,
    asked: &Map<String, Value>,
) -> Result<Value, Failure> {
    let Room { authority, agent, reloader } = room;
    let gate = agent.gate();
    let holding = |power| gate.may(principal, power, Over::Server, Door::SOCKET);
    match asked.get("op").and_then(Value::as_str).and_then(Operation::parse) {
        Some(Operation::KeyCreate) => {
            known(asked, &["op", "name", "role", "user", "expires_us"])?;
            let power: Granted = holding(Power::KeyManage)?;
            let (minted, view) = authority.create(principal, new_key(asked)?, Some(power.record())).await?;
            Ok(json!({ "key": minted.expose(), "view": view }))
        }
        Some(Operation::KeyList) => {
            known(asked, &["op"])?;
            let _granted: Granted = holding(Power::KeyManage)?;
            let authority = authority.clone();
            let keys = tokio::task::spawn_blocking(move || authority.list()).await;
            let keys = keys.map_err(|e| Failure::new(FailureCode::Failed, e.to_string()))??;
            Ok(json!({ "items": keys }))
        }
        Some(Operation::KeyRevoke) => {
            known(asked, &["op", "key"])?;
            let key =
                text(asked, "key")?.ok_or_else(|| Failure::new(FailureCode::Invalid, "`key` is missing"))?;
            let power: Granted = holding(Power::KeyManage)?;
            Ok(json!({ "view": authority.revoke(principal, key, Some(power.record())).await? }))
        }
        Some(Operation::ApprovalList) => {
            known(asked, &["op", "state", "after"])?;
            let state = text(asked, "state")?.map(state).transpose()?;
            let after = asked.get("after").and_then(Value::as_u64).unwrap_or(0);
            let sight = gate.sight(principal, Power::ApprovalRead, Door::SOCKET)?;
            let ledger = agent.ledger().clone();
            let sees = move |owner: &str| sight.sees(owner);
            let page = move || Approval::list(&ledger, state, after, limits::PAGE_ITEMS, sees);
            let (items, next) = tokio::task::spawn_blocking(page).await.map_err(failed)??;
            Ok(json!({ "items": items, "next": next }))
        }
        Some(Operation::ApprovalShow) => {
            known(asked, &["op", "id"])?;
            let sight = gate.sight(principal, Power::ApprovalRead, Door::SOCKET)?;
            let (ledger, id) = (agent.ledger().clone(), approval_id(asked)?);
            let found = tokio::task::spawn_blocking(move || Approval::find(&ledger, &id)).await;
            let found = found.map_err(failed)??.filter(|found| sight.sees(&found.requester.principal));
            Ok(json!({ "approval": found.ok_or(AnswerError::Unknown)? }))
        }
        Some(Operation::ApprovalAnswer) => {
            known(asked, &["op", "id", "grant", "card", "call_hash", "reason"])?;
            let missing = |name: &str| Failure::new(FailureCode::Invalid, format!("`{name}` is missing"));
            let answer = Answer {
                grant: asked.get("grant").and_then(Value::as_bool).ok_or_else(|| missing("grant"))?,
                card: text(asked, "card")?.map(str::to_owned),
                call_hash: text(asked, "call_hash")?.map(str::to_owned),
                reason: text(asked, "reason")?.map(ToOwned::to_owned),
            };
            let answered = gate.answer(principal, Door::SOCKET, &approval_id(asked)?, answer).await?;
            Ok(json!({ "approval": answered }))
        }
        Some(Operation::AuditRedact) => {
            known(asked, &["op", "entries", "run", "reason"])?;
            redact(agent, asked, principal, &holding(Power::Redact)?).await
        }
        Some(Operation::AuditExport) => export(agent, asked, principal, &holding(Power::Export)?).await,
        Some(Operation::Reload) => {
            known(asked, &["op"])?;
            let power = holding(Power::Reload)?;
            Ok(json!({ "reload": reloader.reload(Some((principal, power))).await? }))
        }
        None => Err(Failure::new(FailureCode::Invalid, format!("`op` must be one of {}", operations()))),
    }
}

/// Lists every operation, for an error message.
fn operations() -> String {
    let mut quoted = Operation::ALL.map(|operation| format!("`{}`", operation.as_str())).to_vec();
    let last = quoted.pop().unwrap_or_default();
    format!("{} and {last}", quoted.join(", "))
}

async fn redact(
    agent: &Agent,
    asked: &Map<String, Value>,
    principal: &Principal,
    power: &Granted,
) -> Result<Value, Failure> {
    let mut erasure = erasure(asked, principal, power)?;
    erasure.reason = agent.secrets().clean(erasure.reason).into_inner();
    let ledger = agent.ledger().clone();
    let redacted = tokio::task::spawn_blocking(move || ledger.redact(&erasure)).await;
    Ok(json!({ "redacted": redacted.map_err(failed)?? }))
}

/// Records an export. The client then reads the entries from the files.
async fn export(
    agent: &Agent,
    asked: &Map<String, Value>,
    principal: &Principal,
    power: &Granted,
) -> Result<Value, Failure> {
    known(asked, &["op", "query", "format"])?;
    let unfit = |what: &str| Failure::new(FailureCode::Invalid, what);
    let format = text(asked, "format")?.and_then(Format::parse);
    let format = format.ok_or_else(|| unfit("`format` must be `jsonl` or `csv`"))?;
    let query = agent.secrets().clean(text(asked, "query")?.unwrap_or_default().to_owned()).into_inner();
    let filter = Filter::parse(&query).map_err(|what| unfit(&what.to_string()))?;
    let (ledger, principal, power) = (agent.ledger().clone(), principal.id(), power.record());
    let record = move || ledger.record_export(&filter, format, principal, Some(power));
    let record = tokio::task::spawn_blocking(record).await.map_err(failed)?;
    Ok(json!({ "record": record.map_err(|e| Failure::new(FailureCode::Ledger, e.to_string()))? }))
}

fn erasure(asked: &Map<String, Value>, principal: &Principal, power: &Granted) -> Result<Erasure, Failure> {
    let must =
        || Failure::new(FailureCode::Invalid, "either `entries`, a list of numbers, or `run` is required");
    let targets = match (asked.get("entries"), text(asked, "run")?) {
        (Some(Value::Array(seqs)), None) => {
            Targets::Entries(seqs.iter().map(Value::as_u64).collect::<Option<_>>().ok_or_else(must)?)
        }
        (None | Some(Value::Null), Some(run)) => Targets::Run(run.to_owned()),
        _ => return Err(must()),
    };
    let reason =
        text(asked, "reason")?.ok_or_else(|| Failure::new(FailureCode::Invalid, "`reason` is missing"))?;
    Ok(Erasure { targets, reason: reason.to_owned(), principal: principal.id(), power: Some(power.record()) })
}

impl From<RedactError> for Failure {
    fn from(error: RedactError) -> Self {
        Self::new((&error).into(), error.to_string())
    }
}

fn approval_id(asked: &Map<String, Value>) -> Result<ApprovalId, Failure> {
    let id = text(asked, "id")?.ok_or_else(|| Failure::new(FailureCode::Invalid, "`id` is missing"))?;
    Ok(ApprovalId::parse(id).ok_or(AnswerError::Unknown)?)
}

fn state(word: &str) -> Result<State, Failure> {
    State::parse(word)
        .ok_or_else(|| Failure::new(FailureCode::Invalid, "`state` is not a state of an approval"))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCode::Failed, error.to_string())
}

impl From<ReloadError> for Failure {
    fn from(error: ReloadError) -> Self {
        tracing::error!(%error, "the rules on disk were not loaded: the previous ones remain in force");
        Self::new((&error).into(), error.to_string())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::new(FailureCode::Forbidden, refused.to_string())
    }
}

impl From<AnswerError> for Failure {
    fn from(error: AnswerError) -> Self {
        Self::new((&error).into(), error.to_string())
    }
}

fn new_key(asked: &Map<String, Value>) -> Result<NewKey, Failure> {
    let missing = |name: &str| Failure::new(FailureCode::Invalid, format!("`{name}` is missing"));
    let role = text(asked, "role")?.ok_or_else(|| missing("role"))?;
    let unknown =
        || Failure::new(FailureCode::Invalid, "`role` must be `viewer`, `operator`, `approver` or `admin`");
    let expires = match asked.get("expires_us") {
        None | Some(Value::Null) => None,
        Some(at) => {
            let must = || Failure::new(FailureCode::Invalid, "`expires_us` must be microseconds since 1970");
            Some(Wall(at.as_u64().ok_or_else(must)?))
        }
    };
    Ok(NewKey {
        name: text(asked, "name")?.ok_or_else(|| missing("name"))?.to_owned(),
        role: Role::parse(role).ok_or_else(unknown)?,
        user: text(asked, "user")?.map(ToOwned::to_owned),
        expires,
    })
}

fn text<'a>(asked: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Failure> {
    match asked.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Failure::new(FailureCode::Invalid, format!("`{name}` must be a string"))),
    }
}

fn known(asked: &Map<String, Value>, names: &[&str]) -> Result<(), Failure> {
    match asked.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let name = crate::types::text::visible_line(name);
            Err(Failure::new(FailureCode::Invalid, format!("unknown member `{name}` in this request")))
        }
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new((&error).into(), error.to_string())
    }
}

/// Why an operation was not performed.
pub(super) struct Failure {
    pub(super) code: FailureCode,
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(code: FailureCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}
