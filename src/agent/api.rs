//! What the outside asks of the agent and is told by it, in the shapes of the HTTP API.

use crate::ledger::payload::RunReplyPayload;
use crate::tools::Manifest;
use crate::types::{RunId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::ledger::payload::{Step, StepLedger, Usage};
pub use crate::types::RunStatus;

/// A message to the agent. Unknown fields are refused; fields of later versions are known by name, so
/// that they are refused as not supported and never ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// What is asked.
    pub message: String,
    /// A conversation to go on with.
    #[serde(default)]
    pub session: Option<String>,
    /// Another agent than the default.
    #[serde(default)]
    pub agent: Option<String>,
    /// Decide everything, run nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Answer at once, run on.
    #[serde(default)]
    pub background: bool,
    /// Start tainted.
    #[serde(default)]
    pub untrusted: bool,
    /// Bounds below the configured ones.
    #[serde(default)]
    pub limits: RunLimits,
}

/// Bounds that one request may lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename = "Limits", deny_unknown_fields)]
pub struct RunLimits {
    /// Tool calls in the run.
    #[serde(default)]
    pub calls_max: Option<u32>,
}

/// A run as told to who may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReply {
    /// The run.
    pub run: RunId,
    /// Its conversation.
    pub session: SessionId,
    /// How it stands.
    pub status: RunStatus,
    /// The last words of the model, or what kept it from any.
    pub answer: Option<String>,
    /// Which limit ended it, by its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// Every proposed call, in order.
    pub steps: Vec<Step>,
    /// What the model cost.
    pub usage: Usage,
    /// Where it stands on the ledger. Not part of the recorded payload, and so absent there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ledger: Option<LedgerRange>,
}

impl RunReply {
    /// As the ledger keeps it: without its place there.
    #[must_use]
    pub fn payload(&self) -> RunReplyPayload {
        let Self { run, session, status, answer, limit, steps, usage, ledger: _ } = self.clone();
        RunReplyPayload { run, session, status, answer, limit, steps, usage }
    }
}

impl From<RunReplyPayload> for RunReply {
    fn from(recorded: RunReplyPayload) -> Self {
        let RunReplyPayload { run, session, status, answer, limit, steps, usage } = recorded;
        Self { run, session, status, answer, limit, steps, usage, ledger: None }
    }
}

/// A run's place on the ledger, and the ledger behind the commit that held its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRange {
    /// Its first entry.
    pub first: u64,
    /// Its last entry.
    pub last: u64,
    /// Number of entries.
    pub size: u64,
    /// Merkle root, in hexadecimal.
    pub root: String,
    /// The newest signed checkpoint, a C2SP signed note: of a run that ended now, over all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

/// A tool as told to a principal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// Its class.
    pub class: &'static str,
    /// Its risk.
    pub risk: &'static str,
    /// Digest of its manifest.
    pub digest: String,
    /// JSON Schema of its arguments.
    pub input: Value,
}

impl From<&Manifest> for ToolView {
    fn from(manifest: &Manifest) -> Self {
        Self {
            name: manifest.name.clone(),
            summary: manifest.summary.clone(),
            class: manifest.class.as_str(),
            risk: manifest.risk.as_str(),
            digest: manifest.digest.hex(),
            input: manifest.input.clone(),
        }
    }
}

/// Why a run was not taken, or not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A field is not supported yet, or a value is out of bounds: its name and the reason.
    #[error("`{0}`: {1}")]
    Unfit(&'static str, String),
    /// As many runs as may be at once are running; of this key where true.
    #[error("{}", if *of_key {
        "this key has as many runs as it may have at once"
    } else {
        "as many runs as may be at once are running"
    })]
    Busy {
        /// Whether it is the key's own bound.
        of_key: bool,
    },
    /// This key has used up what it may run within an hour.
    #[error("this key has used up its {of} of this hour: try again in {retry_after_s} s")]
    Spent {
        /// Of what: `runs` or `bytes`.
        of: &'static str,
        /// Until it may run again, in seconds.
        retry_after_s: u64,
    },
    /// The ledger cannot be written: nothing ran since, and nothing more is told.
    #[error("{0}")]
    Ledger(String),
}
