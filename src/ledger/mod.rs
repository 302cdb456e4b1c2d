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

pub use anchor::task::{Anchor, Standing, warning as anchor_warning};
pub use checkpoint::epoch::Epochs;
pub use checkpoint::note::{Checkpoint, Note, VerifierKey};
pub use checkpoint::signer as key;
pub use checkpoint::witness::WitnessKey;
pub use entry::header::{Draft, DraftError, Header, Kind, Ref};
pub use export::stream::{Export, ExportError, Format};
pub use handle::{AppendError, Head, Ledger, Receipt};
pub use projection::{Projection, Row};
pub use query::filter::Filter;
pub use query::index::{Coverage, Index, IndexError};
pub use query::indexer::Follower;
pub use query::search::Found;
pub use read::reader::{Order, ReadError, Reader, Stored};
pub use redact::erasure::{Erasure, RedactError, Redacted, Targets};
pub use tree::proof;
pub use verify::partial::audit_from;
pub use verify::walk::{Finding, Outside, Report, Verdict};
pub use verify::whole::{audit, audit_telling};
pub use write::counters::{CallOutcome, Tally};
pub use write::open::{Files, HighWater, Lock, LockError, OpenError, Rotation};
pub use write::spending::{Hour, Spent};
pub use write::succession::{Aside, Before, copy, digest_of, set_aside};

#[cfg(test)]
mod tests;
