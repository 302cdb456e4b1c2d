//! Approval requests and their answers.
//!
//! # Layout
//!
//! * `error`: why an answer does not count.
//! * `view`: a request as people see it.
//! * `answer`: approvals, refusals and time-outs, each durable before it counts.

pub(super) mod error;
pub(super) mod view;
pub(super) mod answer;
