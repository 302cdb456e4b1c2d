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
    /// `serve`, `quickstart`, `run` …
    pub command: String,
    /// PAR's version.
    pub program: String,
}

/// The payload of `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopPayload {
    /// As in [`StartPayload`].
    pub command: String,
}

/// The payload of `recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryPayload {
    /// Calls that a start found open and closed.
    pub calls: u64,
    /// Runs that it found open and closed.
    pub runs: u64,
}

/// The payload of `config.load`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigLoadPayload {
    /// Every key.
    pub keys: Vec<ConfigValue>,
}

/// A key of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigValue {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// `file`, `default` or a variable's name.
    pub from: String,
}

/// The payload of `policy.load`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLoadPayload {
    /// Digest of the bundle.
    pub digest: Digest,
    /// Every policy.
    pub policies: Vec<LoadedPolicy>,
    /// Of a reload: the bundle before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Digest>,
    /// Of a reload: what it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<RulesDifference>,
    /// What let in who asked for the reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// Why the policies of the files are not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<Vec<String>>,
}

/// A policy in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedPolicy {
    /// Its id.
    pub id: String,
    /// `file:line`.
    pub origin: String,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesDifference {
    /// By their ids.
    pub policies: NameChanges,
    /// By their names.
    pub tools: NameChanges,
    /// Whether users moved between groups.
    pub groups: bool,
    /// Whether labels of paths changed.
    #[serde(default)]
    pub labels: bool,
}

/// Names that were added, removed or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameChanges {
    /// Not there before.
    pub added: Vec<String>,
    /// Not there any more.
    pub removed: Vec<String>,
    /// There, with another content.
    pub changed: Vec<String>,
}

/// The payload of `policy.refuse`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRefusePayload {
    /// Why what was to be loaded was not.
    pub reason: String,
}

/// The payload of `tools.load`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsLoadPayload {
    /// Every tool.
    pub tools: Vec<LoadedTool>,
    /// Granted folders that are not there.
    pub skipped_roots: Vec<SkippedFolder>,
    /// Tools that every call of is refused.
    pub refused: Vec<ToolRefusal>,
    /// Programs as the launcher opened them.
    pub programs: Vec<LoadedProgram>,
    /// Layers that every call gets.
    pub layers: Vec<String>,
    /// What this machine lacks.
    pub missing: Vec<String>,
    /// Mounts of the host that concern what tools name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounted: Option<Vec<MountNamed>>,
    /// The level that this machine reaches. Null where it reaches none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub level: Option<Option<Level>>,
    /// Of a builtin's call: protection → layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protections: Option<BTreeMap<String, Vec<String>>>,
    /// The same of a program's call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_protections: Option<BTreeMap<String, Vec<String>>>,
    /// What keeps the level below `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<Vec<String>>,
    /// What let in who asked for the reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// A tool in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedTool {
    /// Its name.
    pub name: String,
    /// Digest of its manifest.
    pub digest: Digest,
    /// Its script. Null of a tool without one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub script: Option<Option<LoadedScript>>,
}

/// The script of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedScript {
    /// Name of its file.
    pub name: String,
    /// SHA-256 of its text.
    pub sha256: Digest,
}

/// A granted folder that was not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFolder {
    /// The tool whose manifest grants it.
    pub tool: String,
    /// The folder.
    pub path: String,
}

/// A tool that cannot be called on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRefusal {
    /// The tool.
    pub tool: String,
    /// What is not as demanded.
    pub reason: String,
}

/// A tool's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedProgram {
    /// The tool.
    pub tool: String,
    /// SHA-256 of the program's file, in hexadecimal.
    pub sha256: String,
}

/// A mount of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountNamed {
    /// Where.
    pub path: String,
    /// The device's number, and the folder of it.
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
