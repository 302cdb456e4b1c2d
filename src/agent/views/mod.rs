//! Runs as the ledger has them, for those who ask.
//!
//! Here entries become a run, a list of runs, and the table of state.db that both begin with. Nothing is
//! written.
//!
//! # Layout
//!
//! `project`: state.db's table of runs · `step`: steps and ranges of a run under way · `find`: one run ·
//! `list`: many.

mod project;
mod step;
mod find;
mod list;

pub use list::{Figures, RunQuery, RunRow};
pub use project::PROJECTION;

pub(super) use find::find;
pub(super) use list::list;
pub(super) use step::{range, step};
