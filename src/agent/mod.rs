//! The loop: who acts next. One walk for every channel and every provider.
//!
//! ```text
//! run.request → model → group of calls: validate, prepare, decide, commit, run, settle → model → … → run.reply
//! ```
//!
//! Architecture invariant: what the model is told of a call comes out of the gate as a `ToolResult`.
//!
//! # Layout
//!
//! `api`: what is asked and answered · `prompt`: what the model is told first · `project`, `list`, `view`: runs as the
//! ledger has them · `connect`: a call with its connections · `shared`: what all runs share · `walk`: one run · `recall`,
//! `recover`, `attend`: runs found again, ended by a crash, gone on with · `run`: what can be asked of the agent.

mod api;
mod prompt;
mod project;
mod list;
mod view;
mod connect;
mod shared;
mod walk;
mod recall;
mod recover;
mod attend;
mod run;

pub use api::{
    LedgerRange, RunError, RunLimits, RunReply, RunRequest, RunStatus, Step, StepLedger, ToolView, Usage,
};
pub use attend::{Askers, GoOnError};
pub use list::{Figures, RunQuery, RunRow};
pub use project::PROJECTION;
pub use shared::Agent;
