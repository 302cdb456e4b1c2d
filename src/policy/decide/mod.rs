//! Decisions under a loaded bundle.
//!
//! A deny is a value, and an error is a deny. Nothing here changes a bundle, reads a clock or asks
//! a person: the same request under the same bundle always gets the same ruling.
//!
//! # Layout
//!
//! * `ruling`: the answer of the policies.
//! * `shadow`: the answer with the policies in shadow mode.
//! * `decision`: deciding a call.
//! * `parts`, `explain`, `nearest`: why a policy did not match.
//! * `visibility`: which tools are offered.
//! * `withheld`: which rule takes a tool from a tainted run.
//! * `power_decision`: deciding a use of a power.
//! * `ask_decision`: deciding a request to a language model.
//! * `replay`: repeating a decision from its record.

pub(super) mod ruling;
pub(super) mod shadow;
pub(super) mod decision;
pub(super) mod parts;
pub(super) mod explain;
pub(super) mod nearest;
pub(super) mod visibility;
pub(super) mod withheld;
pub(super) mod power_decision;
pub(super) mod ask_decision;
pub(super) mod replay;
