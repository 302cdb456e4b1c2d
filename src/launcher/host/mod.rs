//! This machine as one launcher finds it: what it opens once and keeps for every call, and what it lacks.
//!
//! Here the launcher enters its namespaces and its view, tests itself and confines itself. No call is known here yet.
//!
//! # Layout
//!
//! `ground` (before anything is entered), `named` (what manifests name), `score` (who goes first for want of memory), `entered`
//! (namespaces and view are there), `machine` (and what was seen to hold). Each is made of the one before, by value.

pub(crate) mod ground;
pub(crate) mod named;
mod score;
pub(crate) mod entered;
pub(crate) mod machine;
