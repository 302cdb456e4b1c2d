//! The loop: who acts next. One walk for every channel and every provider.
//!
//! ```text
//! run.request → model → group of calls: validate, prepare, decide, commit, run, settle → model → … → run.reply
//! ```
//!
//! Architecture invariant: what the model is told of a call comes out of the gate as a `ToolResult`.

mod api;
mod attend;
mod connect;
mod list;
mod project;
mod prompt;
mod recall;
mod recover;
mod run;
mod view;
mod walk;

pub use api::{
    LedgerRange, Limits, RunError, RunReply, RunRequest, RunStatus, Step, StepLedger, ToolView, Usage,
};
pub use attend::{Askers, GoOnError};
pub use list::{Figures, RunQuery, RunRow};
pub use project::PROJECTION;
pub use run::Agent;
