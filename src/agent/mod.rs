//! The loop: who acts next. One walk for every channel and every provider.
//!
//! ```text
//! run.request → model → group of calls: validate, prepare, decide, commit, run, settle → model → … → run.reply
//! ```
//!
//! Architecture invariant: what the model is told of a call comes out of the gate as a `ToolResult`.

mod api;
mod attend;
mod beneath;
mod bundles;
mod connect;
mod list;
mod project;
mod prompt;
mod recall;
mod recover;
mod replay;
mod rules;
mod run;
mod secrets;
mod view;
mod walk;

pub use api::{
    LedgerRange, Limits, RunError, RunReply, RunRequest, RunStatus, Step, StepLedger, ToolView, Usage,
};
pub use attend::{Askers, GoOnError};
pub use bundles::keep_bundle;
pub use list::{Figures, RunQuery, RunRow};
pub use project::PROJECTION;
pub use replay::{Difference, Example, Flips, Replay, Replayed};
pub use rules::{
    ReloadError, Reloader, RulesError, check_launcher, folders, load_drafts, load_or_close, load_rules,
    load_rules_of, load_unproven, places, policy_sources,
};
pub use run::Agent;
pub use secrets::load_secrets;
