//! Runs that are found again on the ledger: those that a crash ended, and those that waited for a person.
//!
//! Here a run without a reply gets one, and one whose questions are answered goes on in the same loop. No
//! tool runs again.
//!
//! # Layout
//!
//! `recover`: after a crash · `recall`: a run rebuilt from its entries · `waiting`: the task that goes on
//! with runs.

mod recover;
mod recall;
mod waiting;

pub use waiting::{Askers, GoOnError};

pub(super) use recover::recover;
