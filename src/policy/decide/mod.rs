//! Decisions under a bundle that is loaded.

pub(super) mod explain;
pub(super) mod shadow;
pub(super) mod visibility;
pub(super) mod decision;
pub(super) mod replay;
