//! What an `anchor` entry says, read back and checked. Pure: no disk, no clock.

use super::epoch::Epochs;
use super::error::CheckpointError;
use super::note::{Checkpoint, Note};
use super::witness::WitnessKey;
use crate::ledger::tree::Head;
use crate::types::Digest;
use serde_json::Value;

/// The tree that the payload of the `anchor` entry `seq` says was told, if its note is signed by the keys so
/// far and its cosignature is the named witness's. The root is still to be compared.
pub(in crate::ledger) fn read(
    seq: u64,
    payload: &[u8],
    epochs: Option<&Epochs>,
) -> Result<Head, CheckpointError> {
    let payload: Value = serde_json::from_slice(payload)?;
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let size = payload.get("size").and_then(Value::as_u64);
    let head = size.zip(text("root").and_then(Digest::from_hex)).map(|(size, root)| Head { size, root });
    let head = head.ok_or(CheckpointError::NothingAnchored)?;
    if head.size == 0 || head.size > seq {
        return Err(CheckpointError::AnchoredSize(head.size));
    }
    let note = text("note").map(Note::parse).transpose()?;
    if let Some(note) = &note {
        let signed: Checkpoint = match epochs {
            Some(epochs) => epochs.check(note)?,
            None => return Err(CheckpointError::NoKeys),
        };
        if signed.head != head {
            return Err(CheckpointError::OtherTree);
        }
    }
    if let Some(line) = text("cosignature") {
        let key = text("witness").and_then(WitnessKey::parse).ok_or(CheckpointError::NoWitness)?;
        let note = note.as_ref().ok_or(CheckpointError::NoNote)?;
        if key.cosigned(note, line)?.is_none() {
            return Err(CheckpointError::OtherWitness);
        }
    }
    Ok(head)
}
