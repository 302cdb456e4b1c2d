//! Runs rebuilt from the ledger: those that a crash ended, and those that waited for an approval.
//!
//! A run without a reply gets one. A run whose approvals are answered resumes in the same loop. No
//! tool runs again.
//!
//! # Layout
//!
//! * `recover`: after a crash
//! * `recall`: a run rebuilt from its entries
//! * `waiting`: the task that resumes runs

mod recover;
mod recall;
mod waiting;

pub use waiting::{Requesters, ResumeError};

pub(super) use recover::recover;
