//! The endpoints of the API: one file for each group.
//!
//! Here a request is read, its power asked for, and the answer written as JSON, text or a stream. No endpoint reads
//! a file or the ledger's tables by itself, and none answers a caller before the gate has granted the power.
//!
//! # Layout
//!
//! `tools` · `runs`: runs started and read · `approval`: one question, and its answer · `follow`: the ledger as a stream ·
//! `approvals`: many questions, as a page or a stream · `audit`: entries · `export`: entries as one file · `evidence`: key, checkpoints and proofs ·
//! `health` · `metrics`.

pub(super) mod tools;
pub(super) mod runs;
pub(super) mod approval;
pub(super) mod follow;
pub(super) mod approvals;
pub(super) mod audit;
pub(super) mod export;
pub(super) mod evidence;
pub(super) mod health;
pub(super) mod metrics;
