//! The ledger: a hash-chained, Merkle-rooted record in SQLite, appended by one writer.
//!
//! What may happen here: entries are appended by one thread, read, verified, found, erased and proven. What
//! cannot: nothing but the writer's commit makes a [`Receipt`], and it does so only after the sync; no entry
//! is changed once it is written; nothing is told of an entry that its bytes do not say.
//!
//! # Layout
//!
//! Each wing names only those before it: `entry` is an entry's bytes · [`payload`] what each kind says · `tree` the Merkle tree · `files` the
//! paths and the lock · `checkpoint` signatures and keys · `projection` state.db · `read` what is stored ·
//! `verify` whether it is what was written · `write` the writer and its receipts · `handle` what the rooms
//! above hold · [`query`] the search · `redact` what is erased · [`export`] what leaves · `anchor` what
//! places outside are told.
//!
//! A receipt cannot be made elsewhere:
//! ```compile_fail,E0451
//! fn forge(receipt: par::ledger::Receipt) -> par::ledger::Receipt {
//!     par::ledger::Receipt { ..receipt }
//! }
//! ```
//! nor copied:
//! ```compile_fail,E0599
//! fn twice(receipt: par::ledger::Receipt) -> (par::ledger::Receipt, par::ledger::Receipt) {
//!     (receipt.clone(), receipt)
//! }
//! ```

mod entry;
pub mod payload;
mod tree;
mod files;
mod checkpoint;
mod projection;
mod read;
mod verify;
mod write;
mod handle;
pub mod query;
mod redact;
pub mod export;
mod anchor;
#[cfg(any(test, fuzzing))]
pub(crate) mod borders;

pub use anchor::{Anchor, AnchorOpenError, Standing, warning as anchor_warning};
pub use checkpoint::{Checkpoint, CheckpointError, Epochs, Note, VerifierKey, WitnessKey, key};
pub use entry::{Body, Draft, DraftError, Header, HeaderError, Kind, Payload, Ref};
pub use export::{Export, ExportError, Format, ProofError};
pub use files::{Files, HighWater, Lock, LockError, Rotation};
pub use handle::Ledger;
pub use payload::{Aside, Before};
pub use projection::{Projection, Row};
pub use query::{Coverage, Filter, Follower, HeaderPage, Index, IndexError, Order, QueryError};
pub use read::{ReadError, Reader, Stored};
pub use redact::{Erasure, RedactError, Redacted, Targets};
pub use tree::{Head, proof};
pub use verify::{Finding, Outside, Verdict, Verification, audit, audit_from, audit_telling};
pub use write::{
    AppendError, CallOutcome, Hour, OpenError, Receipt, Spent, Tally, copy, digest_of, set_aside,
};

#[cfg(test)]
mod tests;
