//! The operations of the admin socket.

use super::answering;
use super::failure::{Failure, failed, known, text};
use super::room::Room;
use super::words::{FailureCode, Operation};
use super::{runs, stops};
use crate::agent::Agent;
use crate::auth::{self, Admitted, NewKey, Principal, Role};
use crate::gate::Granted;
use crate::ledger::{Erasure, Filter, Format, Targets};
use crate::policy::{Door, Over, Power};
use crate::tools::Catalog;
use crate::types::Ceiling;
use crate::types::clock::Wall;
use serde_json::{Map, Value, json};

/// Performs the operation for `peer`, if the policy grants its power. Whoever is not a manager may
/// only read and answer approvals.
pub(super) async fn act(room: &Room, peer: &Admitted, asked: &Map<String, Value>) -> Result<Value, Failure> {
    let operation = asked.get("op").and_then(Value::as_str).and_then(Operation::parse);
    let principal = match peer {
        Admitted::Manager(principal) => principal,
        Admitted::Approver(_) | Admitted::Member(_) => {
            let operation = operation.filter(|operation| operation.answers());
            let refused =
                || Failure::new(FailureCode::Refused, "this user may only read and answer approvals here");
            return answering::act(room, peer, operation.ok_or_else(refused)?, asked).await;
        }
    };
    let Room { authority, agent, reloader, .. } = room;
    let gate = agent.gate();
    let holding = |power| gate.may(principal, power, Over::Server, Door::SOCKET);
    match operation {
        Some(operation) if operation.stops() => stops::act(room, principal, operation, asked).await,
        Some(Operation::KeyCreate) => {
            known(asked, &["op", "name", "role", "user", "expires_us", "tools"])?;
            let power: Granted = holding(Power::KeyManage)?;
            let new = new_key(asked, &gate.rules().catalog)?;
            let (minted, view) = authority.create(principal, new, Some(power.record())).await?;
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
        Some(operation @ (Operation::RunList | Operation::RunShow)) => {
            runs::act(room, principal, operation, asked).await
        }
        Some(
            operation @ (Operation::ApprovalList
            | Operation::ApprovalShow
            | Operation::ApprovalAnswer
            | Operation::LoginCreate),
        ) => answering::act(room, peer, operation, asked).await,
        Some(Operation::AuditRedact) => {
            known(asked, &["op", "entries", "run", "reason"])?;
            redact(agent, asked, principal, &holding(Power::Redact)?).await
        }
        Some(Operation::AuditExport) => export(agent, asked, principal, &holding(Power::Export)?).await,
        // Only a manager's word makes the server read the entry again. What it finds is its own.
        Some(Operation::LedgerCheck) => {
            known(asked, &["op", "entry"])?;
            let must = || Failure::new(FailureCode::Invalid, "`entry` must be the number of an entry");
            let seq = asked.get("entry").and_then(Value::as_u64).ok_or_else(must)?;
            agent.ledger().suspect(seq);
            Ok(json!({ "entry": seq }))
        }
        Some(Operation::Reload) => {
            known(asked, &["op"])?;
            let power = holding(Power::Reload)?;
            Ok(json!({ "reload": reloader.reload(Some((principal, power))).await? }))
        }
        Some(_) | None => {
            Err(Failure::new(FailureCode::Invalid, format!("`op` must be one of {}", operations())))
        }
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
    let names =
        ledger.state(auth::key_names).map_err(|e| Failure::new(FailureCode::Ledger, e.to_string()))?;
    let filter = filter.by_ids(&names);
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

fn new_key(asked: &Map<String, Value>, catalog: &Catalog) -> Result<NewKey, Failure> {
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
    let tools = match asked.get("tools") {
        None => Ceiling::OPEN,
        Some(names) => serde_json::from_value(names.clone())
            .map_err(|_| Failure::new(FailureCode::Invalid, "`tools` must be an array of names of tools"))?,
    };
    if let Some(unknown) = catalog.unknown(&tools) {
        return Err(Failure::new(FailureCode::Invalid, unknown.to_string()));
    }
    Ok(NewKey {
        name: text(asked, "name")?.ok_or_else(|| missing("name"))?.to_owned(),
        role: Role::parse(role).ok_or_else(unknown)?,
        user: text(asked, "user")?.map(ToOwned::to_owned),
        expires,
        tools,
    })
}
