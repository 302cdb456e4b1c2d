//! What an `anchor` entry says, read back and checked. Pure: no disk, no clock.

use crate::ledger::handle::Head;
use super::note::{Checkpoint, Note};
use super::witness::WitnessKey;
use super::epoch::Epochs;
use crate::types::Digest;
use serde_json::Value;

/// The tree that the payload of the `anchor` entry `seq` says was told, if its note is signed by the keys so
/// far and its cosignature is the named witness's. The root is still to be compared.
pub(in crate::ledger) fn read(seq: u64, payload: &[u8], epochs: Option<&Epochs>) -> Result<Head, String> {
    let payload: Value =
        serde_json::from_slice(payload).map_err(|e| format!("its payload is no JSON: {e}"))?;
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let size = payload.get("size").and_then(Value::as_u64);
    let head = size.zip(text("root").and_then(Digest::from_hex)).map(|(size, root)| Head { size, root });
    let head = head.ok_or("it does not say what was anchored")?;
    if head.size == 0 || head.size > seq {
        return Err(format!("it says that {} entries were anchored before it", head.size));
    }
    let note = text("note").map(Note::parse).transpose()?;
    if let Some(note) = &note {
        let signed: Checkpoint = match epochs {
            Some(epochs) => epochs.check(note)?,
            None => return Err("there are no keys to check its note with".to_owned()),
        };
        if signed.head != head {
            return Err("its note is of another tree than it says".to_owned());
        }
    }
    if let Some(line) = text("cosignature") {
        let key = text("witness").and_then(WitnessKey::parse).ok_or("its `witness` is no witness's key")?;
        let note = note.as_ref().ok_or("it has a cosignature, and no note")?;
        if key.cosigned(note, line)?.is_none() {
            return Err("its cosignature is not that of the witness that it names".to_owned());
        }
    }
    Ok(head)
}
