//! A proposed call: its decision, its connections and its result.

use super::server::LoadedScript;
use crate::call::{End, FileKind, Given};
use crate::ledger::entry::{Kind, Payload};
use crate::types::{Decision, Level, limits, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The payload of `call.decision`. A valid call has `arguments`; an invalid one has
/// `arguments_raw`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDecisionPayload {
    /// The arguments, if they are valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// The bytes of invalid arguments, or those for a tool that does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_raw: Option<String>,
    /// The id that the model gave the call.
    pub proposed_id: String,
    /// The whole Cedar request; an empty object if the call did not get as far as the policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
    /// The object that the sandbox found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectFound>,
    /// The named paths below the object, with the decision on each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beneath: Option<Vec<BeneathDecision>>,
    /// What the call leaves out below its object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusions: Option<Vec<Excluded>>,
    /// The script that the call would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<LoadedScript>,
    /// The hosts that the call may connect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Vec<String>>,
    /// What the policies in shadow mode would have decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowDecision>,
    /// Why the call is denied or invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Errors of the policies' evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
    /// The advice of the policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<String>>,
    /// The permit that was nearest to matching, if no policy permits the call. For people: no model
    /// reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestRule>,
}

/// A permit that did not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearestRule {
    /// Its id.
    pub policy: String,
    /// `file:line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Why it did not match; continues "the nearest rule is X, which …".
    pub why: String,
}

impl NearestRule {
    /// The rule and why it did not match, on one line, for a person.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { policy, origin, why } = self;
        let origin = origin.as_ref().map_or_else(String::new, |origin| format!(" ({origin})"));
        let line = format!("the nearest rule is {policy}{origin}, which {why}");
        text::visible_line(text::prefix(&line, 2 * limits::SHOWN_BYTES_MAX))
    }
}

/// The object of a call, as the sandbox found it. Device and inode are decimal text, since they may
/// exceed the integers that JSON readers keep exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ObjectFound {
    /// The manifest names a fixed resource, or the arguments name one by its id.
    Fixed,
    /// The path is outside the tool's roots, or it cannot be examined.
    Outside,
    /// The path does not exist.
    Absent {
        /// The deepest folder that exists.
        folder: String,
        /// The names below it, joined by `/`.
        rest: String,
    },
    /// A file or folder.
    Path {
        /// Absolute path, with all links resolved.
        canonical: String,
        /// Device number.
        dev: String,
        /// Inode number.
        ino: String,
        /// Its file type.
        kind: FileKind,
        /// The paths named in policies that are the object or a folder above it.
        within: Vec<String>,
    },
    /// A file or folder that the tools' user may not read, and that the rules would allow.
    Unreadable {
        /// Absolute path of what refuses, with all links resolved.
        canonical: String,
        /// Device number.
        dev: String,
        /// Inode number.
        ino: String,
        /// Its file type.
        kind: FileKind,
        /// The paths named in policies that are the object or a folder above it.
        within: Vec<String>,
        /// The names below it that were not reached, joined by `/`; empty if it is the object.
        rest: String,
        /// The user that tools run as.
        uid: u32,
    },
    /// The content of a folder. The last four members are absent if the folder does not exist.
    Content {
        /// The names of the folder's path, joined by `/`.
        folder: String,
        /// SHA-256 of its listing, in hexadecimal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        /// Number of files below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<u64>,
        /// Number of folders below it.
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
    /// The path as policies name it.
    pub name: String,
    /// Device number. Absent if the path does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<String>,
    /// Inode number. Absent if the path does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ino: Option<String>,
    /// The resource of this path's request.
    pub resource: Value,
    /// The path entities of this path's request.
    pub entities: Value,
    /// Never `invalid`.
    pub decision: Decision,
    /// The determining policies.
    pub policies: Vec<String>,
    /// Errors of the policies' evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
}

/// What a call leaves out below its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Absolute path, with all links resolved.
    pub canonical: String,
    /// Device number. Absent if the path does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<String>,
    /// Inode number. Absent if the path does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ino: Option<String>,
}

/// What the policies in shadow mode would have decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowDecision {
    /// Never `invalid`.
    pub decision: Decision,
    /// The policies that would have determined it.
    pub policies: Vec<String>,
    /// Errors of the policies' evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
}

/// The payload of `call.forecast`: what would be decided on a call, for a dry run or a plan. It
/// allows nothing, counts for nothing and spends nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallForecastPayload {
    /// The arguments.
    pub arguments: Value,
    /// The whole Cedar request, in which `context.call.dry_run` is true; an empty object if the
    /// call did not get as far as the policies.
    pub request: Value,
    /// The object that the sandbox found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectFound>,
    /// The script that the call would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<LoadedScript>,
    /// Why the call would be denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Errors of the policies' evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
    /// The advice of the policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<String>>,
}

/// The payload of `call.connect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallConnectPayload {
    /// `name:port`, normalized.
    pub host: String,
    /// `ip:port`.
    pub address: String,
}

/// The payload of `call.result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResultPayload {
    /// How the call ended.
    pub end: End,
    /// The result that the model receives.
    pub result: Value,
    /// Whether the output was cut.
    pub truncated: bool,
    /// What is not as the manifest's `output_schema` says: the result counts as untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<String>,
    /// The confinement layers that were enforced on the child.
    pub layers: Vec<String>,
    /// Protection → layers that provided it; empty if the call was not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protections: Option<BTreeMap<String, Vec<String>>>,
    /// The level of confinement that the protections amount to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The connections that the call asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionsMade>,
    /// What the call was given in addition to its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
    /// Standard error of a tool whose result is a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Standard error in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// From the order to run until the child was reaped, in microseconds.
    pub wall_us: u64,
    /// Secrets that were replaced: name → count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, u64>>,
}

/// The connections that a call asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionsMade {
    /// The first connections, in the order of the requests.
    pub told: Vec<ConnectionTried>,
    /// Number of further connections.
    pub more: u64,
    /// Bytes over all connections.
    pub bytes: u64,
}

/// One connection that a call asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionTried {
    /// The host that the call asked for.
    pub host: String,
    /// The address that it was connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why the connection was refused or cut.
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
impl Payload for CallForecastPayload {
    const KIND: Kind = Kind::CallForecast;
}
impl Payload for CallConnectPayload {
    const KIND: Kind = Kind::CallConnect;
}
impl Payload for CallResultPayload {
    const KIND: Kind = Kind::CallResult;
}
