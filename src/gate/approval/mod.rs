//! Approval requests and their answers.
//!
//! A decision `needs_approval` is committed with its `approval.request`: the exact call, its hash
//! over call, object, manifest, policy and run, the reasons, the groups that are asked, and the
//! expiry. An answer counts only from a principal that may approve and could never be allowed to
//! run, from another user in the group, in time, for that hash, and under the policy that asked.
//! The approved call is prepared and decided again; its `allow` has the grant's number as `ref`,
//! and `Gate::commit` refuses a second one. Any other outcome voids the approval.
//!
//! # Layout
//!
//! * `error`: why an answer does not count.
//! * `view`: a request as people see it.
//! * `answer`: approvals, refusals and time-outs, each durable before it counts.

pub(super) mod error;
pub(super) mod view;
pub(super) mod answer;
