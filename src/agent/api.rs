//! Requests to the agent and its replies, in the shapes of the HTTP API.

use super::answer::SchemaFault;
use crate::gate::StopInForce;
use crate::ledger::payload::RunReplyPayload;
use crate::ledger::{AppendError, ReadError};
use crate::tools::Manifest;
use crate::types::{Ceiling, RunId, SessionId, limits, text};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use crate::ledger::payload::{
    AnswerBy, HeldResponse, HeldStatus, Step, StepLedger, StepRefusal, StopReason, UnfitAnswer, Usage,
};
pub use crate::types::RunStatus;

/// A message to the agent. Unknown fields are refused. Fields of later versions are known by name,
/// so that they are refused as not supported and never ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The message of the person or script.
    pub message: String,
    /// The session to go on with; null and absent: a new one.
    #[serde(default)]
    pub session: Option<String>,
    /// An agent other than the default. Not supported yet.
    #[serde(default)]
    pub agent: Option<String>,
    /// Decides every call and runs none. Not supported yet.
    #[serde(default)]
    pub dry_run: bool,
    /// Replies at once and continues in the background. Not supported yet.
    #[serde(default)]
    pub background: bool,
    /// Starts the run tainted. Not supported yet.
    #[serde(default)]
    pub untrusted: bool,
    /// Limits below the configured ones.
    #[serde(default)]
    pub limits: RunLimits,
    /// The only tools that the run may use; null and absent: every tool that the caller may use.
    #[serde(default)]
    pub tools: Ceiling,
    /// The JSON Schema that the answer is held to; null and absent: none.
    #[serde(default)]
    pub response_schema: Option<Value>,
}

/// Limits that a request may lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename = "Limits", deny_unknown_fields)]
pub struct RunLimits {
    /// Largest number of tool calls in the run; 1 to
    /// [`CALLS_PER_RUN_MAX`](crate::types::limits::CALLS_PER_RUN_MAX).
    #[serde(default)]
    pub calls_max: Option<u32>,
}

/// A run, for a caller who may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReply {
    /// The id of the run.
    pub run: RunId,
    /// The conversation that the run belongs to.
    pub session: SessionId,
    /// The status of the run.
    pub status: RunStatus,
    /// The final text of the model, or the reason why it is missing.
    pub answer: Option<String>,
    /// Who wrote the answer; absent in replies of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub said_by: Option<AnswerBy>,
    /// The name of the limit that ended the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// Every proposed call, in order.
    pub steps: Vec<Step>,
    /// Tokens and replies of the model.
    pub usage: Usage,
    /// The names of the models that answered, one for each round. Empty if the configuration does
    /// not name its model, and in records of earlier versions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub models: Vec<String>,
    /// The only tools that the run could use, if the request or the key named some.
    #[serde(skip_serializing_if = "Ceiling::is_open", default)]
    pub ceiling: Ceiling,
    /// The name of the runbook that the run was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runbook: Option<String>,
    /// The answer as JSON, if it matches the schema of the request.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub answer_json: Option<Value>,
    /// What became of the schema of the request, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response: Option<HeldResponse>,
    /// Why the model stopped before the end of its answer, which may be incomplete.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<StopReason>,
    /// Its entries on the ledger. Absent from the recorded payload.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ledger: Option<LedgerRange>,
}

/// Reads a member whose value may be null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl RunReply {
    /// The payload of `run.reply`: everything except the place on the ledger.
    #[must_use]
    pub fn payload(&self) -> RunReplyPayload {
        let Self {
            run,
            session,
            status,
            answer,
            said_by,
            limit,
            steps,
            usage,
            models,
            ceiling,
            runbook,
            answer_json,
            response,
            stopped,
            ledger: _,
        } = self.clone();
        RunReplyPayload {
            run,
            session,
            status,
            answer,
            said_by,
            limit,
            steps,
            usage,
            models,
            ceiling,
            runbook,
            answer_json: answer_json.map(|answer| answer.to_string()),
            response,
            stopped,
        }
    }
}

impl RunReply {
    /// Why the answer is incomplete, in one sentence for people; `None` if the model wrote it to
    /// its end.
    #[must_use]
    pub fn incomplete(&self) -> Option<&'static str> {
        Some(match self.stopped? {
            StopReason::Length => {
                "the answer is incomplete: the model reached the limit of one reply; ask for less, or raise \
                 `reply_tokens_max` of the model"
            }
            StopReason::ContentFilter => {
                "the answer is incomplete: the model's server withheld the rest; ask in other words, or ask \
                 another model"
            }
            _ => {
                "the answer may be incomplete: the model's server ended it for a reason of its own, which the \
                 run's last `model.reply` on the ledger names"
            }
        })
    }

    /// A line for each refusal by a person: how many calls, by whom, and the reason.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let mut counts: Vec<(&StepRefusal, u64)> = Vec::new();
        for refused in self.steps.iter().filter_map(|step| step.refused.as_ref()) {
            match counts.iter_mut().find(|(known, _)| *known == refused) {
                Some((_, count)) => *count += 1,
                None => counts.push((refused, 1)),
            }
        }
        let line = |(refused, count): (&StepRefusal, u64)| {
            let calls = if count == 1 { "1 call was".to_owned() } else { format!("{count} calls were") };
            let said = |text: &String| text::visible_line(text::prefix(text, limits::SHOWN_BYTES_MAX));
            // As in every table, a user of this host is named without the `os:` of the record.
            let by = refused.by.as_ref().map(|by| by.strip_prefix("os:").unwrap_or(by).to_owned());
            match (&by, refused.reason.as_ref().map(said)) {
                (None, _) => format!("{calls} not approved in time"),
                (Some(by), Some(reason)) => format!("{calls} refused by {}: {reason}", said(by)),
                (Some(by), None) => format!("{calls} refused by {}", said(by)),
            }
        };
        counts.into_iter().map(line).collect()
    }
}

/// What a call could not or may not read, in words: counts from its result, without names.
#[must_use]
pub fn unread(result: &Value) -> Option<String> {
    let count = |list: &str| result.get(list)?.get("unreadable")?.as_u64().filter(|count| *count > 0);
    let one = |count: u64, noun: &str| match count {
        1 => format!("1 {noun}"),
        many => format!("{many} {noun}s"),
    };
    let files = count("files_skipped_by").map(|files| one(files, "file"));
    let folders = count("folders_skipped_by").map(|folders| one(folders, "folder"));
    // A walk that opens folders only: what it may not enter, or not even look at.
    let paths = count("skipped_by").map(|paths| one(paths, "path"));
    let what: Vec<String> = files.into_iter().chain(folders).chain(paths).collect();
    let unread = (!what.is_empty()).then(|| format!("{} may not be read", what.join(" and ")));
    let excluded = result.get("excluded").and_then(Value::as_u64).filter(|count| *count > 0);
    let excluded = excluded.map(|count| format!("{count} excluded by policy"));
    let told: Vec<String> = unread.into_iter().chain(excluded).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

impl From<RunReplyPayload> for RunReply {
    fn from(recorded: RunReplyPayload) -> Self {
        let RunReplyPayload {
            run,
            session,
            status,
            answer,
            said_by,
            limit,
            steps,
            usage,
            models,
            ceiling,
            runbook,
            answer_json,
            response,
            stopped,
        } = recorded;
        Self {
            run,
            session,
            status,
            answer,
            said_by,
            limit,
            steps,
            usage,
            models,
            ceiling,
            runbook,
            answer_json: answer_json.and_then(|answer| serde_json::from_str(&answer).ok()),
            response,
            stopped,
            ledger: None,
        }
    }
}

/// The entries of a run, and the head of the ledger after the commit that held its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRange {
    /// The number of its first entry.
    pub first: u64,
    /// The number of its last entry.
    pub last: u64,
    /// Number of entries on the ledger.
    pub size: u64,
    /// Merkle root over them, in hexadecimal.
    pub root: String,
    /// The newest signed checkpoint, a C2SP signed note. For a run that has just ended it covers
    /// every entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Entries in this range that do not verify: what they say of the run is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<u64>,
}

/// A tool, for a principal that may use it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolView {
    /// The name of the tool.
    pub name: String,
    /// A summary in one sentence.
    pub summary: String,
    /// The class, as in the manifest.
    pub class: &'static str,
    /// The risk, as in the manifest.
    pub risk: &'static str,
    /// SHA-256 of its manifest, in hexadecimal.
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

/// Why a run was not accepted or not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A field is not supported yet, or a value is out of range: its name and the reason.
    #[error("`{0}`: {1}")]
    Invalid(&'static str, String),
    /// The schema for the answer is not one that an answer can be held to.
    #[error("`response_schema`: {0}")]
    Schema(SchemaFault),
    /// Too many runs are active: of this key if `of_key`, otherwise of all.
    #[error("{}", if *of_key {
        "this key already has the largest number of runs at once"
    } else {
        "the largest number of runs is already active"
    })]
    Busy {
        /// Whether the limit of the key was reached.
        of_key: bool,
    },
    /// The key has used up its quota for this hour.
    #[error("this key has used up its {of} for this hour: try again in {retry_after_s} s")]
    Spent {
        /// The exhausted quota: `runs` or `bytes`.
        of: &'static str,
        /// Time until the key may run again, in seconds.
        retry_after_s: u64,
    },
    /// The session does not go on.
    #[error(transparent)]
    Session(SessionRefusal),
    /// A person halted PAR, or what the caller asks for.
    #[error("{0}; `par halt list` shows it, and `par halt lift` ends it")]
    Halted(Box<StopInForce>),
    /// The ledger is damaged. Nothing runs until it is renewed.
    #[error("{0}")]
    Damaged(String),
    /// The ledger cannot be written. Nothing runs, and no result is returned.
    #[error("{0}")]
    Ledger(String),
}

/// Why a session does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// No session of the caller has this id.
    #[error("no session of this caller has this id: `par sessions list` shows those that it has")]
    Unknown,
    /// Another request is beginning a run in it or is ending it.
    #[error("another request of this session is under way: send this one again when that has ended")]
    Entered,
    /// A run of it has not ended.
    #[error(
        "the run {run} of this session is {}: a session has one run at a time; {}", status.as_str(),
        if *status == RunStatus::Waiting {
            "it waits for a person, see `par approval list`, or cancel it"
        } else {
            "wait for its end, or cancel it"
        }
    )]
    Busy {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
    },
    /// It was ended.
    #[error("the session was ended by entry {entry}: send the message without a session, which begins one")]
    Ended {
        /// Its `session.end`.
        entry: u64,
    },
    /// Its newest run ended too long ago.
    #[error(
        "the session ended by itself, {} days after its newest run: send the message without a session,          which begins one", limits::SESSION_IDLE_MS / 86_400_000
    )]
    Idle,
    /// It has the largest number of runs.
    #[error("the session has {} runs, the largest number: begin a new one", limits::SESSION_RUNS_MAX)]
    Full,
    /// What it has read may not be read under the rules of now.
    #[error(
        "the session has read entry {entry}, which the rules of now do not let this caller read, so it          does not go on: send the message without a session, which begins one"
    )]
    Withheld {
        /// The `call.result`.
        entry: u64,
    },
}

impl From<ReadError> for RunError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Damaged(..) => Self::Damaged(error.to_string()),
            other => Self::Ledger(other.to_string()),
        }
    }
}

impl From<AppendError> for RunError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Damaged(_) => Self::Damaged(error.to_string()),
            other => Self::Ledger(other.to_string()),
        }
    }
}
