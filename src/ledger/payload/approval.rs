//! Approvals: a call that waits for a person, and the person's answer.

use super::call::{Excluded, ObjectFound};
use super::form::nullable;
use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::{ApprovalId, Channel, Digest, FoundIn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The payload of `approval.request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequestPayload {
    /// The id of the approval.
    pub id: ApprovalId,
    /// The tool that the call runs.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
    /// The resource of the call.
    pub resource: ApprovalSubject,
    /// Hash of the exact call.
    pub call_hash: Digest,
    /// The policies that require the approval.
    pub why: Vec<AskingPolicy>,
    /// The groups whose users may answer.
    pub groups: Vec<String>,
    /// Whether the answer needs an explicit confirmation.
    pub confirm: bool,
    /// The principal that the call was proposed for.
    pub requester: RequestedBy,
    /// When the approval expires, in microseconds since 1970.
    pub expires_us: u64,
    /// The text of the model's reply next to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Untrusted results that the run had already received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tainted_by: Option<Vec<TaintingResult>>,
    /// The earlier approval that this request replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ApprovalId>,
    /// What a person is shown in addition to the call. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<ShownCall>,
    /// SHA-256 over the canonical JSON of the other members. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Digest>,
}

/// What a person is shown of a call in addition to the call itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownCall {
    /// The message that began the run, cut to a bound.
    pub question: String,
    /// Where the run came in.
    pub channel: Channel,
    /// The tool's summary, as in its manifest. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Absolute path of the program; absent for a builtin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The whole command line that would run, the program first. A script stands in it under its
    /// name. Absent for a builtin, and from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The script that the program interprets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ShownScript>,
    /// The tool's risk, as in its manifest.
    pub risk: String,
    /// What the manifest grants.
    pub sandbox: ShownSandbox,
    /// Where each sensitive argument of the call was found: name → place. Absent if the tool has
    /// none, and from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<BTreeMap<String, FoundIn>>,
    /// Every source of untrusted text that the run had read, in the order of its first result.
    pub taint: Vec<TaintRange>,
}

/// A script, as it would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownScript {
    /// Its path below `etc/`.
    pub name: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
    /// Its text, with secrets replaced and control characters made visible.
    pub text: String,
}

/// What a manifest grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownSandbox {
    /// Folders that the tool may read below.
    pub read: Vec<String>,
    /// Folders that the call may change.
    pub write: Vec<String>,
    /// Absolute paths of the other programs that the program may start. Absent for a builtin, and
    /// from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<Vec<String>>,
    /// Sockets and hosts that the tool may connect to, as in the manifest.
    pub connect: Vec<String>,
    /// Names of the secrets that the program is given.
    pub secrets: Vec<String>,
    /// Limits of one call: name → value.
    pub limits: BTreeMap<String, u64>,
}

/// The untrusted results that came from one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaintRange {
    /// The tool that returned them.
    pub tool: String,
    /// The resource of the calls.
    pub resource: String,
    /// The sequence number of the first result.
    pub first: u64,
    /// The sequence number of the newest result.
    pub newest: u64,
    /// Number of results.
    pub count: u64,
}

/// The resource of a call that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalSubject {
    /// The resource's type, as policies name it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The resource's id.
    pub id: String,
    /// The object that the sandbox found.
    pub object: ObjectFound,
    /// What an approved call would leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusions: Option<Vec<Excluded>>,
}

/// A policy that requires an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskingPolicy {
    /// The id of the policy.
    pub policy: String,
    /// Where the policy is defined, as `file:line`.
    pub origin: Option<String>,
    /// The text of the policy's advice.
    pub advice: Option<String>,
}

/// The principal that a call was proposed for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedBy {
    /// The key or user.
    pub principal: String,
    /// The user that the key belongs to.
    pub user: Option<String>,
}

/// An untrusted result that a run had received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaintingResult {
    /// The tool that returned it.
    pub tool: String,
    /// The resource of the call.
    pub resource: String,
    /// The sequence number of the result's entry.
    pub result: u64,
}

/// The payload of `approval.grant`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGrantPayload {
    /// The approval that is granted.
    pub id: ApprovalId,
    /// Hash of the exact call.
    pub call_hash: Digest,
    /// The card that was answered. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Digest>,
    /// The user that approved.
    pub user: Option<String>,
    /// The reason that the person gave.
    pub reason: Option<String>,
    /// The power that the person used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// Secrets that were replaced: name → count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// The payload of `approval.refuse`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRefusePayload {
    /// The approval that is refused.
    pub id: ApprovalId,
    /// Hash of the exact call.
    pub call_hash: Digest,
    /// The card that was answered. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Digest>,
    /// The user that refused. Absent if the approval expired without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub user: Option<Option<String>>,
    /// The reason that the person gave, or that no answer came in time.
    pub reason: Option<String>,
    /// The power that the person used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// Secrets that were replaced: name → count.
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
