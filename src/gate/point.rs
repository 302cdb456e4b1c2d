//! The enforcement point: the state that all steps of a call share.

use super::counters::Counters;
use super::rules::{InForce, Rules};
use super::stops::Stops;
use crate::ledger::{Ledger, ReadError};
use crate::secrets::Secrets;
use crate::types::clock::Wall;
use crate::types::limits;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, Notify};

/// How many approval requests may be open; a reload changes it.
#[derive(Debug)]
pub(super) struct OpenMax {
    /// For one key or user.
    pub(super) key: AtomicU64,
    /// For one run.
    pub(super) run: AtomicU64,
}

/// The enforcement point over the rules in force and the ledger. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    ledger: Ledger,
    pub(super) in_force: InForce,
    pub(super) counters: Counters,
    /// `[paths]`: name without `@` → real folder.
    pub(super) names: Arc<BTreeMap<String, PathBuf>>,
    /// How long an approval request stays open, in microseconds.
    pub(super) approval_us: u64,
    /// How many approval requests may be open.
    pub(super) open: Arc<OpenMax>,
    /// Held from reading a request until its answer, or the decision that spends it, is durable.
    pub(super) answers: Arc<Mutex<()>>,
    approvals_changed: Arc<Notify>,
    secrets: Secrets,
}

impl Gate {
    /// A gate over `rules`. `names` are those of `[paths]`; `secrets` are replaced in everything
    /// that it records and returns. Blocking: it counts the calls of the last hour.
    pub fn new(
        ledger: Ledger,
        rules: Rules,
        names: BTreeMap<String, PathBuf>,
        secrets: Secrets,
    ) -> Result<Self, ReadError> {
        let real = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
        let names = names.into_iter().map(|(name, path)| (name, real(path))).collect();
        Ok(Self {
            counters: Counters::from_reader(ledger.reader(), Wall::now().0, |header| {
                ledger.count_earlier(header)
            })?,
            in_force: InForce::new(rules, Stops::read(&ledger)?),
            ledger,
            names: Arc::new(names),
            approval_us: limits::APPROVAL_MS * 1_000,
            open: Arc::new(OpenMax {
                key: AtomicU64::new(limits::APPROVALS_OPEN_KEY_MAX),
                run: AtomicU64::new(limits::APPROVALS_OPEN_RUN_MAX),
            }),
            answers: Arc::default(),
            approvals_changed: Arc::default(),
            secrets,
        })
    }

    /// The same gate, whose approval requests stay open for `ms`, at most
    /// [`limits::APPROVAL_MS_MAX`].
    #[must_use]
    pub fn with_approval_ms(self, ms: u64) -> Self {
        Self { approval_us: ms.min(limits::APPROVAL_MS_MAX) * 1_000, ..self }
    }

    /// Bounds the open approval requests of a key or user, and of a run, from now on.
    pub fn bound_open_approvals(&self, key: u64, run: u64) {
        self.open.key.store(key, Ordering::Relaxed);
        self.open.run.store(run, Ordering::Relaxed);
    }

    /// Completes when an approval was requested or answered since the last call. Single waiter.
    pub async fn approvals_changed(&self) {
        self.approvals_changed.notified().await;
    }

    pub(super) fn stir(&self) {
        self.approvals_changed.notify_one();
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The secrets that are replaced in everything that comes from outside.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The rules in force. They may be exchanged at any time, so take what belongs together from
    /// one value.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.in_force.now()
    }
}
