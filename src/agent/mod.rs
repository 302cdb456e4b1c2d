//! The loop: who acts next. One walk for every channel and every provider.
//!
//! Architecture invariant: what the model is told of a call comes out of the gate as a `ToolResult`.
//!
//! # Layout
//!
//! `api`: what is asked and answered · `views/`: runs as the ledger has them · `shared`: what all runs share
//! · `run/`: one run, from its request to its reply · `resume/`: runs found again, ended by a crash or gone
//! on with · `requests`: what can be asked of the agent.

mod api;
mod views;
mod shared;
mod run;
mod resume;
mod requests;

pub use api::{
    LedgerRange, RunError, RunLimits, RunReply, RunRequest, RunStatus, Step, StepLedger, ToolView, Usage,
};
pub use resume::{Askers, GoOnError};
pub use shared::Agent;
pub use views::{Figures, PROJECTION, RunQuery, RunRow};
