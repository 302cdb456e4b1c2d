//! The ledger: a hash-chained, Merkle-rooted record in SQLite, appended by one writer.
//!
//! Architecture invariants: nothing but [`Ledger::append`] makes a [`Receipt`], and it does so only
//! after the commit; `entry`, `merkle` and `verify` are pure.
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

pub use anchor::{Anchor, Standing, warning as anchor_warning};
pub use checkpoint::{Checkpoint, CheckpointError, Epochs, Note, VerifierKey, WitnessKey, key};
pub use entry::{Draft, DraftError, Header, HeaderError, Kind, Ref};
pub use export::{Export, ExportError, Format, ProofError};
pub use files::{Files, HighWater, Lock, LockError, Rotation};
pub use handle::Ledger;
pub use projection::{Projection, Row};
pub use query::{Coverage, Filter, Follower, Found, Index, IndexError, Order};
pub use read::{ReadError, Reader, Stored};
pub use redact::{Erasure, RedactError, Redacted, Targets};
pub use tree::{Head, proof};
pub use verify::{Finding, Outside, Report, Verdict, audit, audit_from, audit_telling};
pub use write::{
    AppendError, Aside, Before, CallOutcome, Hour, OpenError, Receipt, Spent, Tally, copy, digest_of,
    set_aside,
};

#[cfg(test)]
mod tests;
