//! Signed checkpoints: notes, the keys that sign them, and what places outside say of them.
//!
//! What may happen here: keys are read, replaced and erased, and a [`Head`](super::tree::Head) is signed.
//! What cannot: no key signs without the files that hold it, and no checkpoint counts that the keys of its
//! own log did not sign.
//!
//! # Layout
//!
//! `error` · `note` is a signed text and its verifier key · `epoch` follows the keys of a log · `witness`
//! reads cosignatures · `anchored` reads what an `anchor` entry says · [`key`] holds the secret files ·
//! `signer` signs.

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
