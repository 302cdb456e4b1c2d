//! Formatting policies and comparing bundles.
//!
//! # Layout
//!
//! * `fmt`: one layout for policy files.
//! * `diff`: the decisions that differ between two bundles.

pub(super) mod fmt;
pub(super) mod diff;
