//! The agent loop. Every channel and every provider uses the same walk.
//!
//! Invariant: the model reads the outcome of a call only as a `ToolResult` from the gate.
//!
//! # Layout
//!
//! * `answer/`: the schema that an answer is held to
//! * `api`: requests and replies
//! * `news`: what a run does, as it happens
//! * `views/`: runs as recorded on the ledger
//! * `turns`: whose turn it is in a session
//! * `shared`: what all runs share
//! * `front/`: tools that run here, without a child
//! * `run/`: one run, from its request to its reply
//! * `resume/`: runs rebuilt from the ledger, after a crash or an approval
//! * `sessions`: sessions go on, and end
//! * `requests`: the operations of the agent. `cancel`: cancels runs

mod answer;
mod api;
mod news;
mod views;
mod turns;
mod shared;
mod front;
mod run;
mod resume;
mod sessions;
mod requests;
mod cancel;

pub use answer::SchemaFault;
pub use api::{
    AnswerBy, HeldResponse, HeldStatus, LedgerRange, RunError, RunLimits, RunReply, RunRequest, RunStatus,
    SessionRefusal, Step, StepLedger, StepRefusal, ToolView, UnfitAnswer, Usage, unread,
};
pub use cancel::CancelError;
pub use news::{
    AllowedCall, DecidedCall, LiveWords, ModelChange, RecordedReply, ReplyWords, RunBegun, RunNews,
    TrimmedContext, VoidReason, Watch,
};
pub use resume::{Requesters, ResumeError};
pub use run::SYSTEM;
pub use shared::Agent;
pub use views::{
    PROJECTION, RunListError, RunQuery, RunRow, RunsPage, SessionRow, SessionStanding, find as find_run,
    list as list_runs, list_sessions,
};
