//! Policies for people: laid out, and compared.
//!
//! # Layout
//!
//! `fmt`: one layout for policy files · `diff`: the decisions that two bundles make otherwise.

pub(super) mod fmt;
pub(super) mod diff;
