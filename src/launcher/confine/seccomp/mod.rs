//! System call filters of the launcher and of what it starts.
//!
//! Each is a flat table that is compiled once. The front's own filters are in `sandbox::filter`,
//! made by the same compiler.
//!
//! # Layout
//!
//! * `compile`: from a table to a filter.
//! * `tables`: calls by purpose.
//! * `filters`: one function for each filter.

pub(crate) mod compile;
pub(crate) mod tables;
pub(crate) mod filters;
#[cfg(test)]
pub(crate) mod tests;
