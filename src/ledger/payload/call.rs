//! A proposed call: what was decided, what it was connected to, and how it ended.

use super::server::LoadedScript;
use crate::call::{End, FileKind, Given};
use crate::ledger::entry::{Kind, Payload};
use crate::types::{Decision, Level};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The payload of `call.decision`. A call has `arguments`; what is no valid call has `arguments_raw`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDecisionPayload {
    /// The arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// The bytes that are no valid arguments, or those of a tool that is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_raw: Option<String>,
    /// The model's own name of the call.
    pub proposed_id: String,
    /// The whole Cedar request; an empty object where the call did not get as far as the policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
    /// What the sandbox found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectFound>,
    /// The named paths below the object, with the decision on each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beneath: Option<Vec<BeneathDecision>>,
    /// What the call leaves out below its object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusions: Option<Vec<Excluded>>,
    /// The script that would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<LoadedScript>,
    /// The hosts that the call may be connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Vec<String>>,
    /// What policies in shadow mode would have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowDecision>,
    /// Why the call is denied, or no valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
    /// What the policies advise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<String>>,
}

/// The object of a call, as the sandbox found it. Device and inode are decimal text: they may be beyond what readers of
/// JSON keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ObjectFound {
    /// The manifest names a fixed resource, or one by its id.
    Fixed,
    /// Outside the tool's roots, or it cannot be looked at.
    Outside,
    /// Nothing is there.
    Absent {
        /// The deepest folder that exists.
        folder: String,
        /// The names below it, joined by `/`.
        rest: String,
    },
    /// A file or folder.
    Path {
        /// Absolute path without links.
        canonical: String,
        /// Device.
        dev: String,
        /// Inode.
        ino: String,
        /// Its type.
        kind: FileKind,
        /// Those of the names in policies that are the object or a folder above it.
        within: Vec<String>,
    },
    /// The content of a folder. The last four are absent where there is no such folder.
    Content {
        /// The folder's names, joined by `/`.
        folder: String,
        /// SHA-256 of its listing, in hexadecimal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        /// Files below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<u64>,
        /// Folders below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folders: Option<u64>,
        /// Bytes of all files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
}

/// The decision on a named path below the object of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeneathDecision {
    /// The name, as policies have it.
    pub name: String,
    /// Device. Absent where nothing was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<String>,
    /// Inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ino: Option<String>,
    /// What stands in the place of the request's resource.
    pub resource: Value,
    /// What stands in the place of the request's paths.
    pub entities: Value,
    /// Never `invalid`.
    pub decision: Decision,
    /// The determining policies.
    pub policies: Vec<String>,
    /// What could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
}

/// What a call leaves out below its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Absolute path without links.
    pub canonical: String,
    /// Device. Absent where nothing was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<String>,
    /// Inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ino: Option<String>,
}

/// What policies in shadow mode would have led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowDecision {
    /// Never `invalid`.
    pub decision: Decision,
    /// The policies that would have determined it.
    pub policies: Vec<String>,
    /// What could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
}

/// The payload of `call.connect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallConnectPayload {
    /// `name:port` in its one spelling.
    pub host: String,
    /// `ip:port`.
    pub address: String,
}

/// The payload of `call.result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResultPayload {
    /// How the call ended.
    pub end: End,
    /// What the model is told.
    pub result: Value,
    /// Whether the output was cut.
    pub truncated: bool,
    /// What was enforced on the child.
    pub layers: Vec<String>,
    /// Protection → layers that gave it; empty of a call that was not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protections: Option<BTreeMap<String, Vec<String>>>,
    /// What these come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// What it asked to be connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionsMade>,
    /// What its program had besides its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
    /// Standard error of a tool whose result is a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The same in base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// From go to reaped, in microseconds.
    pub wall_us: u64,
    /// Secrets that were replaced: name → how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// What a call asked to be connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionsMade {
    /// The first ones, in the order of asking.
    pub told: Vec<ConnectionTried>,
    /// How many others there were.
    pub more: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// One connection that a call asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionTried {
    /// What was asked for.
    pub host: String,
    /// Where it led.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why there was none, or why it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Bytes that the tool sent.
    pub sent: u64,
    /// Bytes that came back.
    pub received: u64,
}

impl Payload for CallDecisionPayload {
    const KIND: Kind = Kind::CallDecision;
}
impl Payload for CallConnectPayload {
    const KIND: Kind = Kind::CallConnect;
}
impl Payload for CallResultPayload {
    const KIND: Kind = Kind::CallResult;
}
