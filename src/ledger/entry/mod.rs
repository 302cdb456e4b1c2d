//! Entries: header, payload and their bytes.

pub(super) mod header;
pub(super) mod plain;

pub(super) use header::{Draft, DraftError, Header, Kind, Ref, Sealed, Stamp, Written, commitment};
pub(super) use plain::Brief;
