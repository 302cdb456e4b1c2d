//! Brings state.db up to the ledger: at opening, and after a full disk kept it from following.

use super::error::OpenError;
use crate::ledger::projection::Projector;
use crate::ledger::read::Reader;

/// Applies entries to state.db up to `size`.
pub(super) fn catch_up(projector: &Projector, reader: &Reader, size: u64) -> Result<(), OpenError> {
    const STEP: u64 = 1_000;
    let mut at = projector.applied()?;
    if at > size {
        return Err(OpenError::Incomplete(format!("it has {size} entries, but state.db has applied {at}")));
    }
    while at < size {
        let end = size.min(at + STEP);
        let mut batch = Vec::new();
        for seq in at..end {
            let stored = reader.entry(seq).map_err(OpenError::Read)?;
            let stored = stored.ok_or_else(|| OpenError::Incomplete(format!("entry {seq} is missing")))?;
            batch.push((stored.header, stored.body.unwrap_or_default()));
        }
        projector.apply(batch.iter().map(|(header, body)| (header, body.as_slice())), end)?;
        at = end;
    }
    Ok(())
}
