//! How optional members are written, and what remains of a payload that was too long.

use crate::types::Digest;
use serde::{Deserialize, Deserializer, Serialize};

/// What replaces a payload longer than [`crate::types::limits::PAYLOAD_BYTES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPayload {
    /// Always true.
    pub cut: bool,
    /// Length of the whole canonical payload, in bytes.
    pub bytes: u64,
    /// SHA-256 of the whole canonical payload.
    pub sha256: Digest,
    /// Its first bytes, as text.
    pub head: String,
}

impl CutPayload {
    /// Parses `body` if it is that of a payload that was cut.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().filter(|read: &Self| read.cut)
    }
}

/// Reads a member that may be null and distinguishes null from absent: absent is the default,
/// `None`, and null is `Some(None)`.
pub(super) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}
