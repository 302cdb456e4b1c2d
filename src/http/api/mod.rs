//! The endpoints of the API, one file for each group.
//!
//! An endpoint reads its request, asks the gate for the power, and writes the result as JSON, text
//! or a stream. No endpoint reads a file or the ledger's tables itself, and none answers before the
//! gate has granted the power.
//!
//! # Layout
//!
//! * `tools`: the tools of a caller
//! * `follow`: the ledger as a stream
//! * `responded`: a run as a response; `run_events`: a run as a stream
//! * `runs`: starts and reads runs
//! * `sessions`: lists, shows and ends sessions
//! * `approval`: one approval and its answer
//! * `approvals`: many approvals, as a page or a stream
//! * `audit`: entries
//! * `export`: entries as one file
//! * `evidence`: key, checkpoints and proofs
//! * `health`: probes and health
//! * `metrics`: counters

pub(super) mod tools;
pub(super) mod follow;
mod responded;
mod run_events;
pub(super) mod runs;
pub(super) mod sessions;
pub(super) mod approval;
pub(super) mod approvals;
pub(super) mod audit;
pub(super) mod export;
pub(super) mod evidence;
pub(super) mod health;
pub(super) mod metrics;
