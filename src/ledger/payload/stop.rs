//! What a person stopped: halts, runs that were cancelled, and sessions.

use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::StopScope;
use serde::{Deserialize, Serialize};

/// The payload of `halt.set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaltSetPayload {
    /// What is halted: `all`, `key:ID`, `os:NAME`, `tool:NAME` or `session:ID`.
    pub scope: StopScope,
    /// The reason that a person gave.
    pub reason: String,
    /// Whether calls that were running, and requests to models, were ended at once.
    pub now: bool,
    /// The power that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// The payload of `halt.lift`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaltLiftPayload {
    /// What was halted.
    pub scope: StopScope,
    /// The reason that a person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The power that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// The payload of `run.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCancelPayload {
    /// The reason that a person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The power that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// The payload of `session.end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEndPayload {
    /// The reason that its owner gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The power that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

impl Payload for SessionEndPayload {
    const KIND: Kind = Kind::SessionEnd;
}
impl Payload for HaltSetPayload {
    const KIND: Kind = Kind::HaltSet;
}
impl Payload for HaltLiftPayload {
    const KIND: Kind = Kind::HaltLift;
}
impl Payload for RunCancelPayload {
    const KIND: Kind = Kind::RunCancel;
}
