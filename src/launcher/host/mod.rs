//! This machine as one launcher finds it: what it opens once and keeps for every call, and what is
//! missing.
//!
//! Here the launcher enters its namespaces and its view, tests itself and confines itself. Calls
//! are not known here yet.
//!
//! # Layout
//!
//! Each step is made from the one before, by value.
//!
//! * `kept_proc`: the host's `/proc`, for builtins that report on the host.
//! * `trust`: the certificates of servers that this host trusts.
//! * `ground`: before anything is entered.
//! * `named`: what manifests name.
//! * `score`: which processes are killed first if memory runs out.
//! * `entered`: in namespaces and view.
//! * `machine`: and what was seen to hold.

pub(crate) mod kept_proc;
pub(crate) mod trust;
pub(crate) mod ground;
pub(crate) mod named;
mod score;
pub(crate) mod entered;
pub(crate) mod machine;
