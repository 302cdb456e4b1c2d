//! Runs rebuilt from the ledger: those that a crash ended, and those that waited for an approval.
//!
//! A run without a reply gets one. A run whose approvals are answered resumes in the same loop. No
//! tool runs again.
//!
//! # Layout
//!
//! * `recover`: after a crash
//! * `sent`: the requests of a run, built again
//! * `rebuild`: a run rebuilt from its entries
//! * `recall`: which runs can resume
//! * `waiting`: the task that resumes runs

mod recover;
mod sent;
mod rebuild;
mod recall;
mod waiting;
#[cfg(test)]
mod tests;

pub use waiting::{Requesters, ResumeError};

pub(super) use recover::recover;
