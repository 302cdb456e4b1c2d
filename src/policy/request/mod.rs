//! What a policy is asked, and the Cedar request built from it.
//!
//! A question or a use of a power is turned into plain values once. Cedar evaluates them and the
//! ledger records them, so the record is what was decided on. Nothing here evaluates a policy or
//! reads a file.
//!
//! # Layout
//!
//! * `error`: why a request cannot be evaluated.
//! * `question`: one call, as the policies see it.
//! * `cedar`: the request as plain values, for Cedar and for the ledger.
//! * `groups`, `labels`: the groups of users, and the labels of entities.
//! * `lower`: arguments as Cedar types and values.
//! * `origins`: where sensitive arguments were found.
//! * `build`, `power_use`: the request for a call, and for a use of a power.
//! * `ask`: the request for a request to a language model.
//! * `filled`: what earlier schemas did not record.
//! * `completeness`: checks that a request is missing nothing.

pub(super) mod error;
pub(super) mod question;
pub(super) mod cedar;
pub(super) mod groups;
pub(super) mod labels;
pub(super) mod lower;
pub(super) mod origins;
pub(super) mod build;
pub(super) mod power_use;
pub(super) mod ask;
pub(super) mod filled;
pub(super) mod completeness;
