//! What a call starts of processes, and when they have their turn.
//!
//! A loop of forks takes more of the machine than its share of the processor: other calls beside one would come to a
//! fraction of their number. No limit of the kernel is one on a rate, so the init keeps it. It counts by the newest number
//! of its PID namespace, which `/proc/loadavg` tells whoever reads it, wherever it was opened: every process and thread
//! takes one. A call over its rate is stopped until it is within it again, and goes on; its deadline does not wait.

use crate::launcher::sys::{self, SingleThread};
use crate::types::clock::mono_us;
use crate::types::limits::{FORKS_BURST_MAX, FORKS_LOOK_MS, FORKS_PER_SECOND_MAX, PROGRAM_NICE};
use nix::sched::CloneFlags;
use rustix::process::{WaitId, WaitIdOptions, getpriority_process, setpriority_process, waitid};
use std::os::fd::{AsFd as _, OwnedFd};

const LOOK_US: u64 = FORKS_LOOK_MS * 1_000;
/// The lowest priority that there is (nice(2)).
const NICE_MAX: i32 = 19;
/// `/proc/loadavg`, in bytes: five figures.
const FIGURES_BYTES_MAX: usize = 128;

/// The nice value of programs here: of whoever starts the launcher late, it is later still.
pub(crate) fn program_nice() -> i32 {
    // One that cannot be asked for is none.
    getpriority_process(None).unwrap_or(0).saturating_add(PROGRAM_NICE).min(NICE_MAX)
}

/// Has this process come behind the launcher, inits and builtins where they want to run: for good, since no program may
/// set either.
pub(crate) fn come_last(program_nice: i32) -> Result<(), String> {
    sys::run_as_batch().map_err(|e| format!("SCHED_BATCH: {e}"))?;
    setpriority_process(None, program_nice).map_err(|e| format!("nice: {e}"))
}

/// Whether the init of a call can count: the first process of a namespace finds its own number to be the newest. Where
/// `/proc` is made up by somebody else it is not.
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

/// The number that was given out last in the PID namespace of this process.
fn newest(loadavg: &OwnedFd) -> Option<u64> {
    let mut bytes = [0; FIGURES_BYTES_MAX];
    let length = rustix::io::pread(loadavg, &mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..length)?).ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// What is to become of a call's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkAction {
    Goes,
    /// They are to be stopped.
    Waits,
    GoesOn,
}

/// What one call has started.
#[derive(Debug)]
pub(crate) struct Forks<'a> {
    loadavg: &'a OwnedFd,
    pace: Pace,
    next_us: u64,
}

impl<'a> Forks<'a> {
    /// In the init, whose program has just been started; by the host's `/proc/loadavg`.
    pub(crate) fn begin(loadavg: &'a OwnedFd) -> Self {
        let now = mono_us();
        let pace = Pace { newest: 1, ahead: 0, at_us: now, waits: false };
        Self { loadavg, pace, next_us: now + LOOK_US }
    }

    /// When the next look is due, by [`mono_us`].
    pub(crate) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// A look, if it is time for one.
    pub(crate) fn turn(&mut self) -> ForkAction {
        let now = mono_us();
        if now < self.next_us {
            return ForkAction::Goes;
        }
        // What cannot be read has not moved.
        let newest = newest(self.loadavg).unwrap_or(self.pace.newest);
        let (turn, after_us) = self.pace.look(newest, now);
        self.next_us = now.saturating_add(after_us);
        turn
    }
}

/// How far a call is ahead of its rate.
#[derive(Debug)]
struct Pace {
    /// The number that was the newest at the last look.
    newest: u64,
    /// Started, and not yet within the rate, in millionths.
    ahead: u64,
    at_us: u64,
    /// Whether it is stopped.
    waits: bool,
}

impl Pace {
    /// What becomes of the call, and when to look again, in microseconds from now.
    fn look(&mut self, newest: u64, now_us: u64) -> (ForkAction, u64) {
        // Behind the last number it begins again near the first: that many at least were started.
        let started = newest.checked_sub(self.newest).unwrap_or(newest);
        let earned = now_us.saturating_sub(self.at_us).saturating_mul(FORKS_PER_SECOND_MAX);
        self.ahead = self.ahead.saturating_sub(earned).saturating_add(started.saturating_mul(1_000_000));
        (self.newest, self.at_us) = (newest, now_us);
        let most = FORKS_BURST_MAX * 1_000_000;
        // Once stopped it has half of what it may be ahead before it goes on: not to stop at every look.
        let bound = if self.waits { most / 2 } else { most };
        if self.ahead > bound {
            let after_us = (self.ahead - most / 2) / FORKS_PER_SECOND_MAX;
            let turn = if self.waits { ForkAction::Goes } else { ForkAction::Waits };
            self.waits = true;
            return (turn, after_us.max(1));
        }
        let turn = if self.waits { ForkAction::GoesOn } else { ForkAction::Goes };
        self.waits = false;
        (turn, LOOK_US)
    }
}

#[cfg(test)]
mod tests {
    use super::{FORKS_BURST_MAX, FORKS_PER_SECOND_MAX, ForkAction, LOOK_US, Pace};

    /// Starts `each` a look while it is let, for as many looks as make `seconds` where it always is. What it started, how
    /// often it was stopped, and the seconds that it took.
    fn play(each: u64, seconds: u64) -> (u64, u64, u64) {
        let mut pace = Pace { newest: 1, ahead: 0, at_us: 0, waits: false };
        let (mut newest, mut now, mut stops, mut is_stopped) = (1, 0, 0, false);
        let mut after = LOOK_US;
        while now < seconds * 1_000_000 {
            now += after;
            newest += if is_stopped { 0 } else { each };
            let (turn, next) = pace.look(newest, now);
            match turn {
                ForkAction::Goes => {}
                ForkAction::Waits => (stops, is_stopped) = (stops + 1, true),
                ForkAction::GoesOn => is_stopped = false,
            }
            after = next;
        }
        (newest - 1, stops, now / 1_000_000)
    }

    #[test]
    fn who_stays_within_the_rate_never_waits() {
        let each = FORKS_PER_SECOND_MAX * LOOK_US / 1_000_000;
        assert_eq!(play(each, 600), (each * 600 * 1_000_000 / LOOK_US, 0, 600));
        // And so does a burst within what is let be ahead.
        let mut pace = Pace { newest: 1, ahead: 0, at_us: 0, waits: false };
        assert_eq!(pace.look(1 + FORKS_BURST_MAX, LOOK_US), (ForkAction::Goes, LOOK_US));
    }

    #[test]
    fn who_goes_over_it_has_the_rate_and_no_more() {
        for each in [FORKS_PER_SECOND_MAX / 4, 1_000, 5_000, 100_000] {
            let (started, stops, seconds) = play(each, 600);
            let most = FORKS_BURST_MAX + each + FORKS_PER_SECOND_MAX * seconds;
            assert!(stops > 0 && started <= most, "{each}: {started} of {most}, {stops} stops");
            // Not less than most of it.
            assert!(started > most / 2, "{each}: {started} of {most}, {stops} stops");
        }
    }

    #[test]
    fn numbers_begin_again() {
        let mut pace = Pace { newest: 32_000, ahead: 0, at_us: 0, waits: false };
        assert_eq!(pace.look(32_700, 1_000_000), (ForkAction::Goes, LOOK_US));
        assert_eq!(pace.look(400, 2_000_000), (ForkAction::Goes, LOOK_US));
        assert_eq!(pace.look(9_000, 3_000_000).0, ForkAction::Waits);
    }
}
