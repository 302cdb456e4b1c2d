//! Runs as recorded on the ledger, for readers.
//!
//! Entries become a run, lists of runs and of sessions, and the tables of state.db that they start
//! from. Nothing is written.
//!
//! # Layout
//!
//! * `project`: the table of runs in state.db
//! * `step`: steps and ranges of an active run
//! * `find`: one run
//! * `list`: many runs
//! * `sessions`: many sessions

mod project;
mod step;
mod find;
mod list;
mod sessions;

pub use find::find;
pub(super) use find::unanswered;
pub use list::{RunListError, RunQuery, RunRow, RunsPage, list};
pub use project::PROJECTION;
pub use sessions::{SessionRow, SessionStanding, list_sessions};

pub(super) use list::owners;
pub(super) use step::{range, step};
