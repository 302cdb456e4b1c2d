//! A call that waits for a person, and what the person answered.

use super::call::{Excluded, ObjectFound};
use super::form::nullable;
use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::{ApprovalId, Digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The payload of `approval.request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequestPayload {
    /// The approval.
    pub id: ApprovalId,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// What the call is about.
    pub resource: ApprovalSubject,
    /// Hash of the exact call.
    pub call_hash: Digest,
    /// The policies that ask.
    pub why: Vec<AskingPolicy>,
    /// The groups of which a user has to answer.
    pub groups: Vec<String>,
    /// Whether a confirmation is asked for.
    pub confirm: bool,
    /// In whose name the call was proposed.
    pub requester: RequestedBy,
    /// Until when it stands, in microseconds since 1970.
    pub expires_us: u64,
    /// What the model said beside the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Untrusted results that the run had seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tainted_by: Option<Vec<TaintingResult>>,
    /// The approval that this one is asked again for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ApprovalId>,
}

/// What a call is about that a person is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalSubject {
    /// The resource's type, as policies name it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The resource's id.
    pub id: String,
    /// What the sandbox found.
    pub object: ObjectFound,
    /// What an approval would leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusions: Option<Vec<Excluded>>,
}

/// A policy that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskingPolicy {
    /// Its id.
    pub policy: String,
    /// `file:line`.
    pub origin: Option<String>,
    /// What it advises.
    pub advice: Option<String>,
}

/// In whose name a call was proposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedBy {
    /// The key or user.
    pub principal: String,
    /// The user behind the key.
    pub user: Option<String>,
}

/// An untrusted result that a run had seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaintingResult {
    /// The tool.
    pub tool: String,
    /// What the call was about.
    pub resource: String,
    /// The entry of the result.
    pub result: u64,
}

/// The payload of `approval.grant`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGrantPayload {
    /// The approval.
    pub id: ApprovalId,
    /// Hash of the exact call.
    pub call_hash: Digest,
    /// The user who answered.
    pub user: Option<String>,
    /// What the person said to it.
    pub reason: Option<String>,
    /// What let in who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// Secrets that were replaced: name → how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// The payload of `approval.refuse`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRefusePayload {
    /// The approval.
    pub id: ApprovalId,
    /// Hash of the exact call.
    pub call_hash: Digest,
    /// The user who answered. Absent where nobody did in time.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub user: Option<Option<String>>,
    /// What the person said to it, or that nobody answered.
    pub reason: Option<String>,
    /// What let in who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// Secrets that were replaced: name → how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

impl Payload for ApprovalRequestPayload {
    const KIND: Kind = Kind::ApprovalRequest;
}
impl Payload for ApprovalGrantPayload {
    const KIND: Kind = Kind::ApprovalGrant;
}
impl Payload for ApprovalRefusePayload {
    const KIND: Kind = Kind::ApprovalRefuse;
}
