//! The keys that the ledger has revoked.
//!
//! A row of state.db whose `revoked_seq` was cleared by hand still matches its `key.create` entry,
//! so the absence of a revocation must come from the ledger itself. The ledger's headers are read
//! once per process; from then on every revocation passes through here.

use crate::ledger::{Filter, Kind, Order, ReadError, Reader};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Headers read under one lock of the reader, so that others get their turn.
const SCAN_ENTRIES_MAX: usize = 4_096;

/// Numbers of the `key.create` entries that have a `key.revoke`; `None` until the first query.
#[derive(Debug, Default)]
pub(super) struct Revoked {
    created_seqs: Mutex<Option<HashSet<u64>>>,
}

impl Revoked {
    /// Whether the key made by the entry `created_seq` is revoked. Blocking; the first call takes
    /// long.
    pub(super) fn contains(&self, reader: &Reader, created_seq: u64) -> Result<bool, ReadError> {
        let mut known = self.created_seqs.lock().unwrap_or_else(PoisonError::into_inner);
        let seqs = match known.take() {
            Some(seqs) => seqs,
            None => scan(reader)?,
        };
        Ok(known.insert(seqs).contains(&created_seq))
    }

    /// Notes a durable revocation. Before the first query there is nothing to note: the scan will
    /// read the entry.
    pub(super) fn note(&self, created_seq: u64) {
        let mut known = self.created_seqs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seqs) = known.as_mut() {
            seqs.insert(created_seq);
        }
    }
}

fn scan(reader: &Reader) -> Result<HashSet<u64>, ReadError> {
    let filter = Filter::field("kind", Kind::KeyRevoke.as_str());
    let mut seqs = HashSet::new();
    let mut from = Some(0);
    while let Some(at) = from {
        let (headers, next) =
            reader.headers(&filter, at, Order::Ascending, SCAN_ENTRIES_MAX, SCAN_ENTRIES_MAX)?;
        seqs.extend(headers.iter().filter_map(|header| header.u64("ref")));
        from = next;
    }
    Ok(seqs)
}
