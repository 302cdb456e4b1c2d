//! Signed checkpoints, their keys and witnesses.

pub(super) mod note;
pub(super) mod epoch;
pub(super) mod witness;
pub(super) mod anchored;
pub mod signer;

pub(super) use note::{Checkpoint, Note, VerifierKey};
pub(super) use epoch::{Epochs, origin};
pub(super) use witness::{Said, WitnessKey, request};
pub(super) use signer::{KeyFiles, Signer};
