//! What a person is asked, and what a person answers.
//!
//! `error`: why an answer does not count. `view`: a request as people see it. `answer`: approvals, refusals and time-outs,
//! each made durable before it counts.

pub(super) mod error;
pub(super) mod view;
pub(super) mod answer;
