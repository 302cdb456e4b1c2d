//! What payloads record about segments: the seal of a full one, and payloads that were dropped for
//! their age.

use super::log::{PayloadDropPayload, SegmentSealPayload};
use std::ops::Range;

/// The entries whose payloads are gone according to a `payload.drop` with this payload.
pub(in crate::ledger) fn dropped(body: &[u8]) -> Option<Range<u64>> {
    let PayloadDropPayload { first, last, .. } = serde_json::from_slice(body).ok()?;
    (first <= last).then_some(first..last + 1)
}

/// The segment that a `segment.seal` with this payload ends: its first entry, and the first entry
/// of the next.
pub(in crate::ledger) fn sealed(body: &[u8]) -> Option<(u64, u64)> {
    let SegmentSealPayload { first, next } = serde_json::from_slice(body).ok()?;
    Some((first, next))
}
