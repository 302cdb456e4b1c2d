//! Reads and checks the payload of an `anchor` entry. Pure: no disk, no clock.

use super::epoch::Epochs;
use super::error::CheckpointError;
use super::note::{Checkpoint, Note};
use super::witness::WitnessKey;
use crate::ledger::payload::AnchorPayload;
use crate::ledger::tree::Head;

/// The tree head that the `anchor` entry `seq` records. Checks that its note is signed by the keys
/// known so far, and that its cosignature is by the witness that it names. The caller still
/// compares the root.
pub(in crate::ledger) fn read(
    seq: u64,
    payload: &[u8],
    epochs: Option<&Epochs>,
) -> Result<Head, CheckpointError> {
    let AnchorPayload { size, root, note, cosignature, witness, .. } =
        serde_json::from_slice(payload).map_err(CheckpointError::NothingAnchored)?;
    let head = Head { size, root };
    if head.size == 0 || head.size > seq {
        return Err(CheckpointError::AnchoredSize(head.size));
    }
    let note = Note::parse(&note)?;
    let signed: Checkpoint = epochs.ok_or(CheckpointError::NoKeys)?.check(&note)?;
    if signed.head != head {
        return Err(CheckpointError::OtherTree);
    }
    if let Some(line) = cosignature {
        let key = witness.as_deref().and_then(WitnessKey::parse).ok_or(CheckpointError::NoWitness)?;
        if key.cosigned(&note, &line)?.is_none() {
            return Err(CheckpointError::OtherWitness);
        }
    }
    Ok(head)
}
