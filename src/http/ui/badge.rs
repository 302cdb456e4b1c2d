//! The check that the chain badge shows: a verification of the whole ledger in the background.

use crate::http::app::App;
use crate::ledger;
use crate::types::clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Delay between the end of one check and the next, in microseconds.
const EVERY_US: u64 = 60_000_000;
/// A check takes at most one part in this many of the time; slow checks run less often.
const SHARE: u64 = 20;

/// The last check. A new one starts only when a page is requested.
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

/// The known state of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// No check has finished yet.
    Checking,
    /// Every entry up to the check verifies.
    Verified {
        /// Number of entries.
        entries: u64,
    },
    /// Verification failed.
    Broken {
        /// The first entry at fault, if one can be named.
        seq: Option<u64>,
        /// The finding.
        what: String,
    },
}

/// The badge.
#[derive(Clone, Debug)]
pub(super) struct Badge {
    pub(super) look: Look,
    /// Merkle root of the entries that were checked.
    pub(super) root: String,
    /// Age of the check, in microseconds.
    pub(super) age_us: u64,
    /// Duration of the check, in microseconds.
    pub(super) took_us: u64,
}

impl Chain {
    /// Returns the result of the last check. Starts a new one if the last is too old.
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
        // `par audit verify` compares state.db, for which it needs every room's part of it.
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
