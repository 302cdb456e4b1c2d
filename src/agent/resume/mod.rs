//! Runs rebuilt from the ledger: those that a crash ended, and those that waited for an approval.
//!
//! A run without a reply gets one. A run whose approvals are answered resumes in the same loop. No
//! tool runs again.
//!
//! # Layout
//!
//! * `recover`: after a crash
//! * `sent`: the requests of a run, built again
//! * `trail`: the entries of a run, and its calls
//! * `rebuild`: a run rebuilt from its entries
//! * `history`: what a session holds before one of its runs
//! * `recall`: which runs can resume
//! * `waiting`: the task that resumes runs

mod recover;
mod sent;
mod trail;
mod rebuild;
mod history;
mod recall;
mod waiting;
#[cfg(test)]
mod tests;

pub use waiting::{Requesters, ResumeError};

pub(super) use history::{SessionRun, entries_of, history, runs};
pub(super) use recover::recover;
