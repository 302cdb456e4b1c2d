//! What an `anchor` entry says, read back and checked. Pure: no disk, no clock.

use super::cosignature::WitnessKey;
use super::epoch::Epochs;
use super::note::Note;
use super::payload::AnchorPayload;
use super::{Checkpoint, Head};

/// The tree that the payload of the `anchor` entry `seq` says was told, if its note is signed by the keys so
/// far and its cosignature is the named witness's. The root is still to be compared.
pub(super) fn read(seq: u64, payload: &[u8], epochs: Option<&Epochs>) -> Result<Head, String> {
    let AnchorPayload { size, root, note, cosignature, witness, .. } =
        serde_json::from_slice(payload).map_err(|e| format!("it does not say what was anchored: {e}"))?;
    let head = Head { size, root };
    if head.size == 0 || head.size > seq {
        return Err(format!("it says that {} entries were anchored before it", head.size));
    }
    let note = Note::parse(&note)?;
    let signed: Checkpoint = match epochs {
        Some(epochs) => epochs.check(&note)?,
        None => return Err("there are no keys to check its note with".to_owned()),
    };
    if signed.head != head {
        return Err("its note is of another tree than it says".to_owned());
    }
    if let Some(line) = cosignature {
        let key = witness.as_deref().and_then(WitnessKey::parse);
        let key = key.ok_or("its `witness` is no witness's key")?;
        if key.cosigned(&note, &line)?.is_none() {
            return Err("its cosignature is not that of the witness that it names".to_owned());
        }
    }
    Ok(head)
}
