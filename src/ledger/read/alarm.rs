//! Wakes the thread that verifies the ledger when a read finds an entry that does not verify.

use super::error::ReadError;
use crate::types::clock::mono_us;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shared by all readers of a server's ledger and the thread that verifies it.
#[derive(Debug, Default)]
pub(in crate::ledger) struct Alarm {
    state: Mutex<AlarmState>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct AlarmState {
    /// The first damaged entry that was met since the last call of [`Alarm::wait`].
    met: Option<u64>,
    is_stopped: bool,
}

/// Why [`Alarm::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) enum Wake {
    /// The time is over.
    Time,
    /// A read met this damaged entry.
    Met(u64),
    /// The thread is to end.
    Stop,
}

impl Alarm {
    fn state(&self) -> MutexGuard<'_, AlarmState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the result on. Damage wakes the thread.
    pub(in crate::ledger) fn hear<T>(&self, read: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(ReadError::Damaged(seq, _)) = &read {
            self.ring(*seq);
        }
        read
    }

    /// Wakes the thread: entry `seq` does not verify.
    pub(in crate::ledger) fn ring(&self, seq: u64) {
        self.state().met.get_or_insert(seq);
        self.rung.notify_all();
    }

    /// The first damaged entry that was met and not yet waited for.
    pub(in crate::ledger) fn met(&self) -> Option<u64> {
        self.state().met
    }

    /// Ends the current wait and every later one.
    pub(in crate::ledger) fn stop(&self) {
        self.state().is_stopped = true;
        self.rung.notify_all();
    }

    /// Waits for damage, for a stop, or until the time is over.
    pub(in crate::ledger) fn wait(&self, at_most: Duration) -> Wake {
        let at_most = u64::try_from(at_most.as_micros()).unwrap_or(u64::MAX);
        let until_us = mono_us().saturating_add(at_most);
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return Wake::Stop;
            }
            if let Some(seq) = state.met.take() {
                return Wake::Met(seq);
            }
            let left = Duration::from_micros(until_us.saturating_sub(mono_us()));
            if left.is_zero() {
                return Wake::Time;
            }
            state = self.rung.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
