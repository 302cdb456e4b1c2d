//! System call filters of the launcher and of what it starts.
//!
//! Each is a flat table that is compiled once. The front's own are in `sandbox::filter`, made by the same compiler.
//!
//! # Layout
//!
//! `compile` (from a table to a filter), `tables` (calls by what they are for), `filters` (one function a filter).

pub(crate) mod compile;
pub(crate) mod tables;
pub(crate) mod filters;
#[cfg(test)]
pub(crate) mod tests;
