//! The enforcement point: what every step of a call shares.

use super::counters::Counters;
use super::rules::{InForce, Rules};
use crate::ledger::{Ledger, ReadError};
use crate::secrets::Secrets;
use crate::types::clock::Wall;
use crate::types::limits;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};

/// The enforcement point over the rules in force and the ledger. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    ledger: Ledger,
    pub(super) in_force: InForce,
    pub(super) counters: Counters,
    /// `[paths]`: name without `@` → real folder.
    pub(super) names: Arc<BTreeMap<String, PathBuf>>,
    /// How long a question to a person stands, in microseconds.
    pub(super) approval_us: u64,
    /// Held from the look at a question until its answer, or the decision that spends it, is durable.
    pub(super) answers: Arc<Mutex<()>>,
    stirred: Arc<Notify>,
    secrets: Secrets,
}

impl Gate {
    /// A gate over `rules`; `names` are those of `[paths]`; `secrets` are replaced in all that it records and tells. Blocking: it counts what there was in the
    /// last hour.
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
            ledger,
            in_force: InForce::new(rules),
            names: Arc::new(names),
            approval_us: limits::APPROVAL_MS_MAX * 1_000,
            answers: Arc::default(),
            stirred: Arc::default(),
            secrets,
        })
    }

    /// The same gate, whose questions to people stand for `ms`, at most [`limits::APPROVAL_MS_MAX`].
    #[must_use]
    pub fn with_approval_ms(self, ms: u64) -> Self {
        Self { approval_us: ms.min(limits::APPROVAL_MS_MAX) * 1_000, ..self }
    }

    /// Is ready once a question was asked or answered since it was last ready. For one waiter.
    pub async fn stirred(&self) {
        self.stirred.notified().await;
    }

    pub(super) fn stir(&self) {
        self.stirred.notify_one();
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is replaced in what comes from outside.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The rules in force. They may be exchanged at any time: what belongs together is taken from one.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.in_force.now()
    }
}
