//! A server or a command: its start and end, the configuration, policies and tools in force.

use super::form::nullable;
use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::{Digest, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The payload of `start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartPayload {
    /// The subcommand: `serve`, `quickstart`, `run` …
    pub command: String,
    /// The version of PAR.
    pub program: String,
}

/// The payload of `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopPayload {
    /// The subcommand, as in [`StartPayload`].
    pub command: String,
}

/// The payload of `recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryPayload {
    /// Calls that a start found open and closed.
    pub calls: u64,
    /// Runs that the start found open and closed.
    pub runs: u64,
}

/// The payload of `config.load`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigLoadPayload {
    /// Every key of the configuration.
    pub keys: Vec<ConfigValue>,
    /// The system prompt of every run. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// A key of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigValue {
    /// The name of the key.
    pub key: String,
    /// The value of the key.
    pub value: String,
    /// The source of the value: `file`, `default` or the name of a variable.
    pub from: String,
}

/// The payload of `policy.load`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLoadPayload {
    /// Digest of the bundle.
    pub digest: Digest,
    /// Every policy.
    pub policies: Vec<LoadedPolicy>,
    /// The previous bundle. Present only for a reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Digest>,
    /// What the reload changed. Present only for a reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<RulesDifference>,
    /// The power used by the principal that asked for the reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// Why the policies of the files are not loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<Vec<String>>,
    /// Every runbook. Absent without any, and in entries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbooks: Option<Vec<LoadedRunbook>>,
}

/// A runbook in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedRunbook {
    /// The name of the runbook.
    pub name: String,
    /// SHA-256 of its file.
    pub sha256: Digest,
}

/// A policy in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedPolicy {
    /// The id of the policy.
    pub id: String,
    /// Where the policy is defined, as `file:line`.
    pub origin: String,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesDifference {
    /// Changes of policies, by their ids.
    pub policies: NameChanges,
    /// Changes of tools, by their names.
    pub tools: NameChanges,
    /// Whether users moved between groups.
    pub groups: bool,
    /// Whether labels of paths changed.
    #[serde(default)]
    pub labels: bool,
    /// Changes of runbooks, by their names. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbooks: Option<NameChanges>,
}

/// Names that were added, removed or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameChanges {
    /// Names that the reload added.
    pub added: Vec<String>,
    /// Names that the reload removed.
    pub removed: Vec<String>,
    /// Names whose content changed.
    pub changed: Vec<String>,
}

/// The payload of `policy.refuse`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRefusePayload {
    /// Why the new rules could not be loaded.
    pub reason: String,
}

/// The payload of `tools.load`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsLoadPayload {
    /// Every tool in force.
    pub tools: Vec<LoadedTool>,
    /// Granted folders that do not exist.
    pub skipped_roots: Vec<SkippedFolder>,
    /// Tools that exist but whose calls are all refused.
    pub refused: Vec<ToolRefusal>,
    /// Programs as the launcher opened them.
    pub programs: Vec<LoadedProgram>,
    /// The confinement layers that every call gets.
    pub layers: Vec<String>,
    /// The confinement features that this machine does not have.
    pub missing: Vec<String>,
    /// The host's mounts at or below paths that tools name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounted: Option<Vec<MountNamed>>,
    /// The confinement level that this machine reaches. Null if it reaches none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub level: Option<Option<Level>>,
    /// For a builtin's call: protection → layers that provide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protections: Option<BTreeMap<String, Vec<String>>>,
    /// For a program's call: protection → layers that provide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_protections: Option<BTreeMap<String, Vec<String>>>,
    /// What is missing for the level `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<Vec<String>>,
    /// The power used by the principal that asked for the reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// A tool in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedTool {
    /// The name of the tool.
    pub name: String,
    /// Digest of the tool's manifest.
    pub digest: Digest,
    /// The tool's script. Null for a tool without one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub script: Option<Option<LoadedScript>>,
    /// What the tool does, as a model reads it. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The schema of its arguments, as a model reads it: JSON text. Absent from earlier entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

/// The script of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedScript {
    /// Name of the script's file.
    pub name: String,
    /// SHA-256 of the script's text.
    pub sha256: Digest,
}

/// A granted folder that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFolder {
    /// The tool whose manifest grants it.
    pub tool: String,
    /// The path of the folder.
    pub path: String,
}

/// A tool that cannot be called on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRefusal {
    /// The name of the tool.
    pub tool: String,
    /// Which requirement this machine does not meet.
    pub reason: String,
}

/// A tool's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedProgram {
    /// The name of the tool.
    pub tool: String,
    /// SHA-256 of the program's file, in hexadecimal.
    pub sha256: String,
}

/// A mount of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountNamed {
    /// The mount point.
    pub path: String,
    /// The device's number and the folder of it that is mounted.
    pub of: String,
}

impl Payload for StartPayload {
    const KIND: Kind = Kind::Start;
}
impl Payload for StopPayload {
    const KIND: Kind = Kind::Stop;
}
impl Payload for RecoveryPayload {
    const KIND: Kind = Kind::Recovery;
}
impl Payload for ConfigLoadPayload {
    const KIND: Kind = Kind::ConfigLoad;
}
impl Payload for PolicyLoadPayload {
    const KIND: Kind = Kind::PolicyLoad;
}
impl Payload for PolicyRefusePayload {
    const KIND: Kind = Kind::PolicyRefuse;
}
impl Payload for ToolsLoadPayload {
    const KIND: Kind = Kind::ToolsLoad;
}
