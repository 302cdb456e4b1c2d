//! What entries say of segments: the seal of a full one, and payloads that went with their age. Pure: no disk, no clock.

use std::ops::Range;

/// The entries whose payloads a `payload.drop` with this payload says are gone.
pub(in crate::ledger) fn dropped(body: &[u8]) -> Option<Range<u64>> {
    let payload: serde_json::Value = serde_json::from_slice(body).ok()?;
    let number = |name: &str| payload.get(name)?.as_u64();
    let (first, last) = (number("first")?, number("last")?);
    (first <= last).then_some(first..last + 1)
}

/// The segment that a `segment.seal` with this payload ends: its first entry, and the first one of the next.
pub(in crate::ledger) fn sealed(body: &[u8]) -> Option<(u64, u64)> {
    let payload: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some((payload.get("first")?.as_u64()?, payload.get("next")?.as_u64()?))
}
