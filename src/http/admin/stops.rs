//! The operations on halts, and the cancelling of runs.

use super::failure::{Failure, known, text};
use super::room::Room;
use super::words::{FailureCode, Operation};
use crate::agent::CancelError;
use crate::auth::{self, Principal};
use crate::gate::{HaltError, HaltOrder, StopInForce};
use crate::policy::{Door, Over, Power};
use crate::types::{RunId, StopScope};
use serde_json::{Map, Value, json};

/// Performs an operation for a manager.
pub(super) async fn act(
    room: &Room,
    by: &Principal,
    operation: Operation,
    asked: &Map<String, Value>,
) -> Result<Value, Failure> {
    let (agent, gate) = (&room.agent, room.agent.gate());
    let unfit = |what: String| Failure::new(FailureCode::Invalid, what);
    let reason = text(asked, "reason")?.map(str::to_owned);
    match operation {
        Operation::HaltSet => {
            known(asked, &["op", "scope", "reason", "now"])?;
            let scope = text(asked, "scope")?.ok_or_else(|| unfit("`scope` is missing".to_owned()))?;
            let scope = StopScope::parse(scope).map_err(|e| unfit(e.to_string()))?;
            let is_now = asked.get("now").and_then(Value::as_bool).unwrap_or_default();
            let reason = reason.ok_or_else(|| unfit("`reason` is missing".to_owned()))?;
            let granted = gate.may_halt(by, Door::SOCKET)?;
            let order = HaltOrder { scope, reason, is_now };
            shown(room, &[gate.halt(by, Some(&granted), order).await?])
        }
        Operation::HaltLift => {
            known(asked, &["op", "halt", "reason"])?;
            let must = || unfit("`halt` must be the number of a halt".to_owned());
            let seq = asked.get("halt").and_then(Value::as_u64).ok_or_else(must)?;
            let granted = gate.may_halt(by, Door::SOCKET)?;
            shown(room, &[gate.lift(by, Some(&granted), seq, reason).await?])
        }
        Operation::RunCancel => {
            known(asked, &["op", "id", "reason"])?;
            let none = || Failure::new(FailureCode::NotFound, "no run has this id");
            let run = text(asked, "id")?.and_then(RunId::parse).ok_or_else(none)?;
            shown(room, &[agent.cancel(by, Door::SOCKET, &run, reason).await?])
        }
        _ => {
            known(asked, &["op"])?;
            let _granted = gate.may(by, Power::HealthRead, Over::Server, Door::SOCKET)?;
            let halts: Vec<StopInForce> =
                gate.stops().iter().filter(|stop| stop.is_halt()).cloned().collect();
            shown(room, &halts)
        }
    }
}

fn shown(room: &Room, stops: &[StopInForce]) -> Result<Value, Failure> {
    let names = room.agent.ledger().state(auth::key_names);
    let names = names.map_err(|e| Failure::new(FailureCode::Ledger, e.to_string()))?;
    let items: Vec<Value> = stops.iter().map(|stop| stop.json(&names)).collect();
    Ok(json!({ "items": items }))
}

impl From<HaltError> for Failure {
    fn from(error: HaltError) -> Self {
        let code = match &error {
            HaltError::MayRun | HaltError::MayNot(_) => FailureCode::Forbidden,
            HaltError::Invalid(..) => FailureCode::Invalid,
            HaltError::Unknown(_) => FailureCode::NotFound,
            HaltError::Ledger(error) => error.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<CancelError> for Failure {
    fn from(error: CancelError) -> Self {
        let code = match &error {
            CancelError::Unknown => FailureCode::NotFound,
            CancelError::Ended(_) => FailureCode::Answered,
            CancelError::MayNot(_) => FailureCode::Forbidden,
            CancelError::Read(error) => error.into(),
            CancelError::Stop(_) => FailureCode::Invalid,
        };
        match error {
            CancelError::Stop(error) => error.into(),
            error => Self::new(code, error.to_string()),
        }
    }
}
