//! The check behind the chain's badge: the whole ledger, verified behind the pages.

use crate::http::app::App;
use crate::ledger;
use crate::types::clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Between the end of one check and the next, in microseconds.
const EVERY_US: u64 = 60_000_000;
/// A check that takes long is made less often: it may use this part of the time.
const SHARE: u64 = 20;

/// The last check. Only looking at it leads to another.
#[derive(Debug, Default)]
pub(super) struct Chain(Mutex<ChainState>);

#[derive(Debug, Default)]
struct ChainState {
    last: Option<Done>,
    is_running: bool,
}

#[derive(Clone, Debug)]
struct Done {
    look: Look,
    root: String,
    ended_us: u64,
    took_us: u64,
}

/// What is known of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing yet.
    Checking,
    /// Every entry that was there holds.
    Verified {
        /// How many.
        entries: u64,
    },
    /// Something does not hold.
    Broken {
        /// Where, if an entry can be named.
        seq: Option<u64>,
        /// What.
        what: String,
    },
}

/// The badge. Looking begins a check where one is due, also where nobody shows what was seen.
#[derive(Clone, Debug)]
pub(super) struct Badge {
    pub(super) look: Look,
    /// Root over the entries of the check.
    pub(super) root: String,
    /// How long the check is past.
    pub(super) age_us: u64,
    /// How long it took.
    pub(super) took_us: u64,
}

impl Chain {
    /// What the last check found. Begins another one where that is long past.
    pub(super) fn look(self: &Arc<Self>, app: &App) -> Badge {
        let now = clock::mono_us();
        let mut state = self.lock();
        let is_due = state.last.as_ref().is_none_or(|done| {
            now.saturating_sub(done.ended_us) >= EVERY_US.max(done.took_us.saturating_mul(SHARE))
        });
        if is_due && !state.is_running {
            state.is_running = true;
            let (chain, files) = (self.clone(), app.agent.ledger().files().clone());
            tokio::task::spawn_blocking(move || chain.check(&files));
        }
        let badge = |done: &Done| Badge {
            look: done.look.clone(),
            root: done.root.clone(),
            age_us: now.saturating_sub(done.ended_us),
            took_us: done.took_us,
        };
        let none = Badge { look: Look::Checking, root: String::new(), age_us: 0, took_us: 0 };
        state.last.as_ref().map_or(none, badge)
    }

    fn check(&self, files: &ledger::Files) {
        let began_us = clock::mono_us();
        // state.db is compared by `par audit verify`, which knows every room's share of it.
        let report = ledger::audit(files, &[], &[]);
        let look = match (report.verdict, report.findings.first()) {
            (verdict, _) if verdict.holds() => Look::Verified { entries: report.entries },
            (_, Some(first)) => Look::Broken { seq: first.seq, what: first.what.clone() },
            (_, None) => Look::Broken { seq: None, what: "it does not verify".to_owned() },
        };
        if let Look::Broken { seq, what } = &look {
            tracing::error!(seq, what, "the ledger does not verify");
        }
        let ended_us = clock::mono_us();
        let done = Done { look, root: report.root, ended_us, took_us: ended_us.saturating_sub(began_us) };
        *self.lock() = ChainState { last: Some(done), is_running: false };
    }

    fn lock(&self) -> MutexGuard<'_, ChainState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
