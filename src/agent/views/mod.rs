//! Runs as recorded on the ledger, for readers.
//!
//! Entries become a run, a list of runs, and the table of state.db that both start from. Nothing is
//! written.
//!
//! # Layout
//!
//! * `project`: the table of runs in state.db
//! * `step`: steps and ranges of an active run
//! * `find`: one run
//! * `list`: many runs

mod project;
mod step;
mod find;
mod list;

pub use find::find;
pub(super) use find::unanswered;
pub use list::{RunListError, RunQuery, RunRow, RunsPage, list};
pub use project::PROJECTION;

pub(super) use list::owners;
pub(super) use step::{range, step};
