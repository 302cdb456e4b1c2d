//! Anchors.

pub(super) mod task;

