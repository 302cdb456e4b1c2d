//! Verification: whether a ledger is what was written, as far as anybody can know.
//!
//! What may happen here: every file is read and held against chain, tree, keys, checkpoints from outside and
//! state.db. What cannot: nothing is written or repaired, and nothing is called verified that was not looked
//! at: a ledger without an entry is a finding.
//!
//! # Layout
//!
//! `report` is what was found · `error` · `entry` is what one entry's bytes say by themselves · `erasures`
//! holds payloads that are gone against the entries that say so · `walk` follows the chain, and `signatures`
//! its checkpoints · `rows` reads the tables · `pipeline` looks at entries in several threads · `tiles` ·
//! `state` · `whole` verifies a ledger, `partial` from an entry on.

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

pub use partial::audit_from;
pub use report::{Finding, Outside, Verdict, Verification};
pub use whole::{audit, audit_telling};
#[cfg(test)]
pub(super) use {
    entry::Looked,
    pipeline::Reading,
    report::RootMark,
    rows::{checkpoints, entries_until},
    walk::ChainWalk,
};
