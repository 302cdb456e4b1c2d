//! This machine as one launcher finds it: what it opens once and keeps for every call, and what it lacks.
//!
//! Here the launcher enters its namespaces and its view, tests itself and confines itself. No call is known here yet.
//!
//! # Layout
//!
//! `ground` (before anything is entered), `named` (what manifests name), `score` (who goes first for want of memory), `machine`
//! (what the second stage has).

pub(crate) mod ground;
pub(crate) mod named;
mod score;
pub(crate) mod machine;
