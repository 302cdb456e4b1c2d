//! What a policy is asked, and the Cedar request that it becomes.
//!
//! A question or a use of a power is turned into plain values once. Cedar evaluates them and the ledger keeps them,
//! so the record is what was decided on. Nothing here evaluates a policy, and nothing here reads a file.

pub(super) mod error;
pub(super) mod question;
pub(super) mod cedar;
pub(super) mod groups;
pub(super) mod labels;
pub(super) mod lower;
pub(super) mod build;
pub(super) mod power_use;
pub(super) mod completeness;
