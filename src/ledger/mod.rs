//! The ledger: a hash-chained, Merkle-rooted record in SQLite, appended by one writer.
//!
//! One thread appends entries. Everything else reads, verifies, searches, erases and proves them.
//! Only the writer's commit makes a [`Receipt`], and only after the sync. No entry changes once it
//! is written; an erasure empties its payload and leaves its header. Nothing is reported about an
//! entry that its bytes do not say.
//!
//! # Layout
//!
//! Each wing names only those before it:
//!
//! * `entry`: the bytes of an entry
//! * [`payload`]: the content of each kind of entry
//! * `tree`: the Merkle tree, its tiles and its proofs
//! * `files`: paths, the lock and the high-water mark
//! * `checkpoint`: signatures, keys and their epochs
//! * `projection`: state.db
//! * `read`: entries as they are stored, in segments
//! * `verify`: whether the stored entries are the ones that were written
//! * `write`: the writer, its receipts, rotation and retention
//! * `handle`: what other rooms hold of the ledger
//! * `watch`: a server's thread that verifies its own ledger
//! * [`query`]: search, with index.db
//! * `redact`: erasure of payloads
//! * [`export`]: files of entries and proofs that can be checked elsewhere
//! * `anchor`: checkpoints sent to places outside this host
//!
//! No other code can make a receipt:
//! ```compile_fail,E0451
//! fn forge(receipt: par::ledger::Receipt) -> par::ledger::Receipt {
//!     par::ledger::Receipt { ..receipt }
//! }
//! ```
//! or copy one:
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
mod watch;
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
pub use payload::{PreviousLog, SetAsideFile};
pub use projection::{Projection, Row};
pub use query::{Coverage, Filter, Follower, HeaderPage, Index, IndexError, Order, QueryError};
pub use read::{ReadError, Reader, Stored, Unverified};
pub use redact::{Erasure, RedactError, Redacted, Targets};
pub use tree::{Head, proof};
pub use verify::{
    ChainState, Finding, Outside, SoundLedger, Verdict, Verification, audit, audit_from, audit_with_progress,
};
pub use watch::{VerifyEvery, Watcher};
pub use write::{
    AppendError, CallOutcome, Hour, OpenError, Receipt, Spent, Tally, WAY_OUT, copy, digest_of,
    recorded_damage, set_aside,
};

#[cfg(test)]
mod tests;
