//! Verification: whether a ledger is what was written, as far as that can be known.
//!
//! This wing reads every file and checks it against chain, tree, keys, checkpoints from outside and
//! state.db. It writes and repairs nothing, and it calls nothing verified that it did not check: a
//! ledger without an entry is a finding.
//!
//! A verification is a walk over all entries in order, and two parts that need no order. Several
//! threads check what an entry's bytes show on their own (header, leaf, commitment), one page of
//! entries at a time and each with its own connection. The walk takes the pages in turn through
//! bounded channels and follows chain, tree, keys and state.db. SQLite's own check runs at the same
//! time. The threads' snapshots are younger than the one that decides, so an entry whose payload
//! was erased in theirs is checked again in that one.
//!
//! # Layout
//!
//! `report` is the result and its verdict · `error` · `entry` checks one entry's bytes · `erasures`
//! matches erased payloads with the entries that record it · `walk` follows the chain, and
//! `signatures` its checkpoints · `rows` reads the tables · `pipeline` checks entries in several
//! threads · `tiles` compares the stored tree · `state` compares state.db · `whole` verifies a
//! ledger, `partial` from an entry on, `slices` little by little · `chain_state` is what a server
//! knows.

mod report;
mod error;
mod entry;
mod erasures;
mod walk;
mod signatures;
mod rows;
mod pipeline;
mod tiles;
mod state;
mod whole;
mod partial;
mod slices;
mod chain_state;

pub use chain_state::{ChainState, SoundLedger};
pub(super) use error::AuditError;
pub use partial::audit_from;
pub use report::{Finding, Outside, Verdict, Verification};
pub(super) use slices::{AfterSlice, SlicedAudit};
pub use whole::{audit, audit_with_progress};
#[cfg(test)]
pub(super) use {
    entry::CheckedEntry,
    pipeline::Reading,
    report::RootMark,
    rows::{checkpoints, entries_until},
    walk::ChainWalk,
};
