//! Decisions under a bundle that is loaded.
//!
//! A deny is a value, and an error is a deny. Nothing here changes a bundle, reads a clock or asks anybody: the same
//! request under the same bundle always gets the same ruling.
//!
//! # Layout
//!
//! `ruling`: what the policies say · `shadow`: what policies in shadow mode would have said · `decision`: a call ·
//! `parts`, `explain`: why · `visibility`: which tools are shown · `power_decision`: a use of a power · `replay`: a
//! decision made again from its record.

pub(super) mod ruling;
pub(super) mod shadow;
pub(super) mod decision;
pub(super) mod parts;
pub(super) mod explain;
pub(super) mod visibility;
pub(super) mod power_decision;
pub(super) mod replay;
