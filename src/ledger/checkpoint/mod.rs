//! Signed checkpoints: notes, the keys that sign them, and their cosignatures from outside.
//!
//! This wing reads, replaces and erases keys, and signs a [`Head`](super::tree::Head). No key signs
//! without the files that hold it, and a checkpoint counts only if the keys of its own log signed
//! it.
//!
//! Two keys sign. The log's id is made from the log key and the key of the first epoch, and the
//! last checkpoint of each epoch names the key of the next. So a reader that knows the id can
//! follow every key, and an intruder finds no key that could sign for an epoch that is over. A
//! change of epochs has four steps on disk: write the next key, append the entry, erase the old
//! key, rename the next one. `Signer::resume` finishes a change that a crash interrupted, in the
//! direction that the ledger records.
//!
//! # Layout
//!
//! `error` · `note` is a signed text and its verifier key · `epoch` follows the keys of a log ·
//! `witness` reads cosignatures · `anchored` checks `anchor` entries · [`key`] holds the secret
//! files · `signer` signs.

mod error;
mod note;
mod epoch;
mod witness;
mod anchored;
pub mod key;
mod signer;

pub(super) use anchored::read as read_anchor;
pub use epoch::Epochs;
pub(super) use epoch::origin;
#[cfg(any(test, fuzzing))]
pub(super) use epoch::{epoch_name, log_id};
pub use error::CheckpointError;
pub use note::{Checkpoint, Note, VerifierKey};
pub(super) use signer::Signer;
pub use witness::WitnessKey;
pub(super) use witness::{WitnessAnswer, request};
