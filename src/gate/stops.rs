//! The stops in force: halts, and runs that are being cancelled.
//!
//! A stop is in force from the moment that its entry is durable. Decisions made before it and
//! committed after it are denies; permits that have not begun lapse.

use crate::ledger::payload::{HaltSetPayload, RunCancelPayload};
use crate::ledger::query::KeyNames;
use crate::ledger::{Ledger, ReadError};
use crate::types::clock::Wall;
use crate::types::{RunId, StopScope, Stoppable};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// A stop in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopInForce {
    /// Its `halt.set` or `run.cancel`.
    pub seq: u64,
    /// What it covers.
    pub scope: StopScope,
    /// Who gave it, by its name on the ledger.
    pub by: String,
    /// The reason that was given; empty without one.
    pub reason: String,
    /// When, in microseconds since 1970.
    pub at_us: u64,
    /// What it ends that has begun.
    pub ends: StopEnds,
}

/// What a stop ends that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopEnds {
    /// Nothing.
    Nothing,
    /// Requests to models and calls that only read.
    Reads,
    /// Requests to models and every call.
    Everything,
}

impl StopInForce {
    /// As the API shows it: `halt` (its number), `scope`, `by`, `who` (the same as people know it),
    /// `reason`, `since` (RFC 3339), `since_us` (microseconds since 1970).
    #[must_use]
    pub fn json(&self, names: &KeyNames) -> Value {
        json!({
            "halt": self.seq,
            "scope": self.scope,
            "by": self.by,
            "who": names.shown(&self.by),
            "reason": self.reason,
            "since": Wall(self.at_us).rfc3339(),
            "since_us": self.at_us,
        })
    }

    /// Whether it is a halt, and not the cancelling of a run.
    #[must_use]
    pub fn is_halt(&self) -> bool {
        !matches!(self.scope, StopScope::Run(_))
    }
}

impl fmt::Display for StopInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            StopScope::All => write!(f, "PAR is halted")?,
            StopScope::Run(_) => write!(f, "the run was cancelled")?,
            scope => write!(f, "`{scope}` is halted")?,
        }
        write!(f, " by {}", self.by)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// The stops in force. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Stops {
    now: Arc<watch::Sender<Arc<Vec<StopInForce>>>>,
}

impl Stops {
    /// No stops, for tests.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { now: Arc::new(watch::Sender::new(Arc::default())) }
    }

    /// The stops that are in force on `ledger`. Blocking.
    pub(super) fn read(ledger: &Ledger) -> Result<Self, ReadError> {
        let set: Vec<i64> = ledger.state(|state| {
            let mut statement = state.prepare("SELECT seq FROM stop ORDER BY seq")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })?;
        let stops = set.into_iter().map(|seq| read_stop(ledger, u64::try_from(seq).unwrap_or(0)));
        let stops = Self { now: Arc::new(watch::Sender::new(Arc::new(stops.collect::<Result<_, _>>()?))) };
        Ok(stops)
    }

    pub(super) fn list(&self) -> Arc<Vec<StopInForce>> {
        self.now.borrow().clone()
    }

    /// The first stop that covers `what`.
    pub(super) fn find(&self, what: &Stoppable<'_>) -> Option<StopInForce> {
        self.now.borrow().iter().find(|stop| stop.scope.covers(what)).cloned()
    }

    /// Completes once a stop ends `what`, which has begun. `is_read` says whether it is a request
    /// to a model or a call that only reads.
    pub(super) async fn ended(&self, what: &Stoppable<'_>, is_read: bool) -> StopInForce {
        let mut changes = self.now.subscribe();
        let ends = |stop: &&StopInForce| {
            let ends = match stop.ends {
                StopEnds::Nothing => false,
                StopEnds::Reads => is_read,
                StopEnds::Everything => true,
            };
            ends && stop.scope.covers(what)
        };
        loop {
            if let Some(stop) = changes.borrow_and_update().iter().find(ends) {
                return stop.clone();
            }
            if changes.changed().await.is_err() {
                // The gate is gone, and with it whoever could stop anything.
                return std::future::pending().await;
            }
        }
    }

    /// Puts a stop in force, once it is durable.
    pub(super) fn put(&self, stop: StopInForce) {
        self.now.send_modify(|now| Arc::make_mut(now).push(stop));
    }

    /// Takes the stop of the entry `seq` out of force.
    pub(super) fn take(&self, seq: u64) {
        self.now.send_modify(|now| Arc::make_mut(now).retain(|stop| stop.seq != seq));
    }
}

fn read_stop(ledger: &Ledger, seq: u64) -> Result<StopInForce, ReadError> {
    let damaged = || ReadError::Damaged(seq, "state.db: it is not a stop".to_owned());
    let stored = ledger.reader().entry(seq)?.ok_or_else(damaged)?;
    let header = &stored.header;
    let of_run = || header.str("run").and_then(RunId::parse).map(StopScope::Run);
    let (scope, reason) = match (stored.payload::<HaltSetPayload>(), stored.payload::<RunCancelPayload>()) {
        (Some(halt), _) => (halt.scope, halt.reason),
        (None, Some(cancel)) => (of_run().ok_or_else(damaged)?, cancel.reason.unwrap_or_default()),
        (None, None) => return Err(damaged()),
    };
    let by = header.str("principal").unwrap_or_default().to_owned();
    let at_us = header.u64("wall_us").unwrap_or(0);
    // What had begun before the start has ended with the process before.
    Ok(StopInForce { seq, scope, by, reason, at_us, ends: StopEnds::Nothing })
}
