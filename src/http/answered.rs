//! Counts of the requests answered since the start, and of their response times.

use axum::http::StatusCode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets of response times, in milliseconds.
pub(super) const BUCKETS_MS: [u64; 8] = [5, 25, 100, 500, 2_500, 10_000, 60_000, 300_000];

/// Requests answered since the start. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Answered(Arc<Mutex<RequestCounts>>);

#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    pub(super) codes: BTreeMap<u16, u64>,
    /// Response times of runs, and of all other requests.
    pub(super) runs: Times,
    pub(super) others: Times,
    /// Connections closed in favour of newer ones.
    gave_way: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Number of requests in each bucket, not cumulative.
    pub(super) buckets: [u64; BUCKETS_MS.len()],
    pub(super) count: u64,
    pub(super) sum: Duration,
}

impl Answered {
    pub(super) fn count(&self, code: StatusCode, is_run: bool, took: Duration) {
        let mut counts = self.lock();
        *counts.codes.entry(code.as_u16()).or_default() += 1;
        if is_run { counts.runs.add(took) } else { counts.others.add(took) }
    }

    /// Counts a connection closed in favour of a newer one.
    pub(super) fn gave_way(&self) {
        self.lock().gave_way += 1;
    }

    pub(super) fn all_that_gave_way(&self) -> u64 {
        self.lock().gave_way
    }

    /// Locks the counts for reading.
    pub(super) fn lock(&self) -> MutexGuard<'_, RequestCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Times {
    fn add(&mut self, took: Duration) {
        let within =
            self.buckets.iter_mut().zip(BUCKETS_MS).find(|(_, ms)| took.as_millis() <= u128::from(*ms));
        if let Some((bucket, _)) = within {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += took;
    }
}
