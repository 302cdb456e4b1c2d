//! How many processes a call starts, and when it is paused for it.
//!
//! A loop of forks takes more of the machine than its share of the processor: concurrent calls
//! would slow down to a fraction of their throughput. The kernel has no limit on a rate, so the
//! init keeps one. It counts by the newest pid of its PID namespace, which `/proc/loadavg` shows to
//! each reader for the reader's own namespace: every process and thread takes one. A call over its
//! rate is stopped until it is within the rate again, and then continues; its deadline does not
//! wait.

use crate::launcher::sys::{self, SingleThread};
use crate::types::clock::mono_us;
use crate::types::limits::{FORKS_BURST_MAX, FORKS_CHECK_MS, FORKS_PER_SECOND_MAX, PROGRAM_NICE};
use nix::sched::CloneFlags;
use rustix::process::{WaitId, WaitIdOptions, getpriority_process, setpriority_process, waitid};
use std::os::fd::{AsFd as _, OwnedFd};

const CHECK_INTERVAL_US: u64 = FORKS_CHECK_MS * 1_000;
/// The lowest priority (nice(2)).
const NICE_MAX: i32 = 19;
/// Size of `/proc/loadavg`, in bytes: five figures.
const FIGURES_BYTES_MAX: usize = 128;

/// The nice value of programs: relative to the launcher's own, which may be raised already.
pub(crate) fn program_nice() -> i32 {
    // An unreadable value counts as 0.
    getpriority_process(None).unwrap_or(0).saturating_add(PROGRAM_NICE).min(NICE_MAX)
}

/// Lowers this process's priority below launcher, inits and builtins: for good, since no program
/// may change policy or nice value.
pub(crate) fn lower_priority(program_nice: i32) -> Result<(), String> {
    sys::run_as_batch().map_err(|e| format!("SCHED_BATCH: {e}"))?;
    setpriority_process(None, program_nice).map_err(|e| format!("nice: {e}"))
}

/// Whether the init of a call can count: the first process of a namespace must find its own pid to
/// be the newest. If other software emulates `/proc`, it does not.
pub(crate) fn probe(one: &SingleThread, per_call: CloneFlags, loadavg: &OwnedFd) -> Result<(), String> {
    let refuse =
        |e: &dyn std::fmt::Display| format!("`/proc/loadavg`: {e}: the fork rate of a call is not limited");
    let Some(pidfd) = sys::clone_call(one, per_call).map_err(|e| refuse(&e))? else {
        sys::exit_now(u8::from(newest(loadavg) != Some(1)));
    };
    let end = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).map_err(|e| refuse(&e))?;
    match end.and_then(|end| end.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(refuse(&"does not show the newest pid of the reader's namespace")),
    }
}

/// The pid that was given out last in the PID namespace of this process.
fn newest(loadavg: &OwnedFd) -> Option<u64> {
    let mut bytes = [0; FIGURES_BYTES_MAX];
    let length = rustix::io::pread(loadavg, &mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..length)?).ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// What to do with a call's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkAction {
    /// Leave them as they are.
    Keep,
    Stop,
    Resume,
}

/// The processes that one call has started.
#[derive(Debug)]
pub(crate) struct Forks<'a> {
    loadavg: &'a OwnedFd,
    pace: Pace,
    next_us: u64,
}

impl<'a> Forks<'a> {
    /// Begins counting: in the init, whose program has just started, with the host's
    /// `/proc/loadavg`.
    pub(crate) fn begin(loadavg: &'a OwnedFd) -> Self {
        let now = mono_us();
        let pace = Pace { newest: 1, ahead: 0, at_us: now, waits: false };
        Self { loadavg, pace, next_us: now + CHECK_INTERVAL_US }
    }

    /// When the next check is due, by [`mono_us`].
    pub(crate) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// Checks, if a check is due.
    pub(crate) fn action(&mut self) -> ForkAction {
        let now = mono_us();
        if now < self.next_us {
            return ForkAction::Keep;
        }
        // An unreadable value counts as unchanged.
        let newest = newest(self.loadavg).unwrap_or(self.pace.newest);
        let (action, after_us) = self.pace.check(newest, now);
        self.next_us = now.saturating_add(after_us);
        action
    }
}

/// How far a call is ahead of its rate.
#[derive(Debug)]
struct Pace {
    /// The newest pid at the last check.
    newest: u64,
    /// Processes started beyond the rate, in millionths.
    ahead: u64,
    at_us: u64,
    /// Whether the call is stopped.
    waits: bool,
}

impl Pace {
    /// What to do with the call, and when to check again, in microseconds from now.
    fn check(&mut self, newest: u64, now_us: u64) -> (ForkAction, u64) {
        // After the highest pid the numbers start again near the first: at least that many were
        // started.
        let started = newest.checked_sub(self.newest).unwrap_or(newest);
        let earned = now_us.saturating_sub(self.at_us).saturating_mul(FORKS_PER_SECOND_MAX);
        self.ahead = self.ahead.saturating_sub(earned).saturating_add(started.saturating_mul(1_000_000));
        (self.newest, self.at_us) = (newest, now_us);
        let most = FORKS_BURST_MAX * 1_000_000;
        // A stopped call continues only once it is down to half of the burst: otherwise it would
        // stop at every check.
        let bound = if self.waits { most / 2 } else { most };
        if self.ahead > bound {
            let after_us = (self.ahead - most / 2) / FORKS_PER_SECOND_MAX;
            let action = if self.waits { ForkAction::Keep } else { ForkAction::Stop };
            self.waits = true;
            return (action, after_us.max(1));
        }
        let action = if self.waits { ForkAction::Resume } else { ForkAction::Keep };
        self.waits = false;
        (action, CHECK_INTERVAL_US)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECK_INTERVAL_US, FORKS_BURST_MAX, FORKS_PER_SECOND_MAX, ForkAction, Pace};

    /// Starts `each` processes per check while it may, for as many checks as take `seconds` without
    /// a pause. Returns the processes started, the stops, and the seconds that it took.
    fn play(each: u64, seconds: u64) -> (u64, u64, u64) {
        let mut pace = Pace { newest: 1, ahead: 0, at_us: 0, waits: false };
        let (mut newest, mut now, mut stops, mut is_stopped) = (1, 0, 0, false);
        let mut after = CHECK_INTERVAL_US;
        while now < seconds * 1_000_000 {
            now += after;
            newest += if is_stopped { 0 } else { each };
            let (action, next) = pace.check(newest, now);
            match action {
                ForkAction::Keep => {}
                ForkAction::Stop => (stops, is_stopped) = (stops + 1, true),
                ForkAction::Resume => is_stopped = false,
            }
            after = next;
        }
        (newest - 1, stops, now / 1_000_000)
    }

    #[test]
    fn a_call_within_the_rate_is_never_stopped() {
        let each = FORKS_PER_SECOND_MAX * CHECK_INTERVAL_US / 1_000_000;
        assert_eq!(play(each, 600), (each * 600 * 1_000_000 / CHECK_INTERVAL_US, 0, 600));
        // A burst within the allowance does not wait either.
        let mut pace = Pace { newest: 1, ahead: 0, at_us: 0, waits: false };
        assert_eq!(pace.check(1 + FORKS_BURST_MAX, CHECK_INTERVAL_US), (ForkAction::Keep, CHECK_INTERVAL_US));
    }

    #[test]
    fn a_call_over_the_rate_is_held_to_it() {
        for each in [FORKS_PER_SECOND_MAX / 4, 1_000, 5_000, 100_000] {
            let (started, stops, seconds) = play(each, 600);
            let most = FORKS_BURST_MAX + each + FORKS_PER_SECOND_MAX * seconds;
            assert!(stops > 0 && started <= most, "{each}: {started} of {most}, {stops} stops");
            // It gets most of the rate.
            assert!(started > most / 2, "{each}: {started} of {most}, {stops} stops");
        }
    }

    #[test]
    fn numbers_begin_again() {
        let mut pace = Pace { newest: 32_000, ahead: 0, at_us: 0, waits: false };
        assert_eq!(pace.check(32_700, 1_000_000), (ForkAction::Keep, CHECK_INTERVAL_US));
        assert_eq!(pace.check(400, 2_000_000), (ForkAction::Keep, CHECK_INTERVAL_US));
        assert_eq!(pace.check(9_000, 3_000_000).0, ForkAction::Stop);
    }
}
