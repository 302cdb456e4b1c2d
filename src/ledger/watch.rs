//! The thread in which a server verifies its own ledger: what is new each hour, every entry once a
//! day and after a start.
//!
//! It takes a fixed share of the time at most. When a slice finds something that does not hold, the
//! whole ledger is verified again, as `par audit verify` does it, and only what that confirms is
//! damage. A file that cannot be read at the moment is not damage: it is tried again.

use super::handle::Ledger;
use super::payload::{LedgerDamagePayload, VerifyPass};
use super::verify::{AfterSlice, ChainState, SlicedAudit, SoundLedger, Verdict, Verification, audit};
use crate::types::clock::{Wall, mono_us, thread_us};
use crate::types::{limits, text};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a stop waits for the current slice: two seconds.
const STOP_STEPS: u32 = 200;
const STOP_STEP: Duration = Duration::from_millis(10);

/// How often a server verifies its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyEvery {
    /// Interval for what was appended since, in seconds.
    pub new_s: u64,
    /// Interval for every entry, in seconds.
    pub whole_s: u64,
}

impl Default for VerifyEvery {
    fn default() -> Self {
        Self { new_s: limits::VERIFY_EVERY_S, whole_s: limits::VERIFY_WHOLE_EVERY_S }
    }
}

/// A running thread. It ends when this is stopped or dropped.
#[derive(Debug)]
pub struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watcher {
    /// Starts the thread. The first verification begins at once.
    pub fn start(ledger: Ledger, every: VerifyEvery) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let rounds = Rounds::new(ledger, every);
        let thread = std::thread::Builder::new().name("ledger-verify".to_owned());
        Ok(Self { stop, thread: thread.spawn(move || rounds.run(&stopped))? })
    }

    /// Ends the thread after its current slice, and waits a short time for that. A slice that takes
    /// longer, such as SQLite's own check of a large file, ends with the process: it only reads.
    pub fn stop(self) {
        drop(self.stop);
        for _ in 0..STOP_STEPS {
            if self.thread.is_finished() {
                if self.thread.join().is_err() {
                    tracing::error!("the thread that verifies the ledger panicked");
                }
                return;
            }
            std::thread::sleep(STOP_STEP);
        }
    }
}

/// The thread's state.
struct Rounds {
    ledger: Ledger,
    every: VerifyEvery,
    pass: VerifyPass,
    audit: SlicedAudit,
    /// When the verification of every entry began, in microseconds since the host started.
    began_us: u64,
    /// Working time of this one so far, and of the last, in microseconds.
    worked_us: u64,
    took_us: u64,
}

/// Working time of a step: the larger of its wall time and its processor time.
struct Stopwatch {
    wall_us: u64,
    thread_us: u64,
}

impl Stopwatch {
    fn start() -> Self {
        Self { wall_us: mono_us(), thread_us: thread_us() }
    }

    fn us(&self) -> u64 {
        mono_us().saturating_sub(self.wall_us).max(thread_us().saturating_sub(self.thread_us))
    }
}

impl Rounds {
    fn new(ledger: Ledger, every: VerifyEvery) -> Self {
        let (pass, audit) = (VerifyPass::Whole, SlicedAudit::default());
        Self { ledger, every, pass, audit, began_us: mono_us(), worked_us: 0, took_us: 0 }
    }

    fn run(mut self, stopped: &Receiver<()>) {
        tracing::info!("ledger: {}", self.ledger.chain());
        // Damage that was recorded stays: there is nothing left to find.
        while self.ledger.damage().is_none() {
            let watch = Stopwatch::start();
            let pause = self.slice();
            let worked_us = watch.us();
            self.worked_us = self.worked_us.saturating_add(worked_us);
            let rest_us = worked_us.saturating_mul(limits::VERIFY_SHARE - 1);
            let pause = pause.unwrap_or_default().max(Duration::from_micros(rest_us));
            match stopped.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
        }
    }

    /// Verifies one slice. Returns how long to wait before the next, if not only for the share of
    /// the time.
    fn slice(&mut self) -> Option<Duration> {
        match self.audit.next(self.ledger.files()) {
            Ok(AfterSlice::More) => {
                self.progress(None);
                None
            }
            Ok(AfterSlice::End(report)) if report.findings.is_empty() => Some(self.sound(&report)),
            Ok(AfterSlice::End(report)) => {
                let first = report.findings.first();
                let what = first.map(|first| first.what.clone()).unwrap_or_default();
                Some(self.suspect(first.and_then(|first| first.seq), &what, false))
            }
            Err(error) if error.is_damage() => Some(self.suspect(None, &error.to_string(), true)),
            Err(error) => Some(self.hindered(error.to_string())),
        }
    }

    /// The last entry was reached and everything holds.
    fn sound(&mut self, report: &Verification) -> Duration {
        if self.pass == VerifyPass::Whole {
            self.took_us = self.worked_us;
        }
        let (size, root) = (self.audit.size(), report.root.clone());
        let sound = SoundLedger { size, root, at_us: Wall::now().0, took_us: self.took_us };
        let state = ChainState::Sound(sound);
        match self.pass {
            VerifyPass::Whole => tracing::info!("ledger: {state}: every entry was verified"),
            VerifyPass::New => tracing::info!("ledger: {state}"),
        }
        self.ledger.shared().set_chain(state);
        let age_s = mono_us().saturating_sub(self.began_us) / 1_000_000;
        let left_s = self.every.whole_s.saturating_sub(age_s);
        self.pass = if left_s <= self.every.new_s { VerifyPass::Whole } else { VerifyPass::New };
        if self.pass == VerifyPass::Whole {
            self.restart(Duration::from_secs(left_s))
        } else {
            Duration::from_secs(self.every.new_s)
        }
    }

    /// Makes the next slice the first of a verification of every entry, after `pause`.
    fn restart(&mut self, pause: Duration) -> Duration {
        self.pass = VerifyPass::Whole;
        self.audit = SlicedAudit::default();
        self.worked_us = 0;
        self.began_us = mono_us().saturating_add(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX));
        pause
    }

    /// Something does not hold: verifies the whole ledger in one snapshot, which decides.
    fn suspect(&mut self, seq: Option<u64>, what: &str, is_unreadable: bool) -> Duration {
        tracing::warn!(seq, what, "the ledger may be damaged: it is verified again");
        let report = audit(self.ledger.files(), &[], &[]);
        if report.verdict.holds() {
            tracing::warn!(seq, what, "what did not hold a moment ago holds now: verification begins again");
            return self.restart(Duration::from_millis(limits::VERIFY_PAUSE_MS));
        }
        // An error of the disk alone is not damage.
        if report.verdict == Verdict::Unreadable && !is_unreadable {
            let first = report.findings.into_iter().next().map(|first| first.what);
            let why = first.unwrap_or_else(|| what.to_owned());
            self.restart(Duration::ZERO);
            return self.hindered(why);
        }
        let (seq, found) = report
            .findings
            .into_iter()
            .next()
            .map_or_else(|| (seq, what.to_owned()), |first| (first.seq, first.what));
        let found = text::prefix(&text::visible_line(&found), limits::REASON_BYTES_MAX).to_owned();
        let size = self.ledger.head().size;
        let damage = LedgerDamagePayload { entry: seq, found, pass: self.pass, size };
        let state = ChainState::Broken(damage.clone());
        tracing::error!(
            entry = damage.entry,
            found = damage.found,
            "ledger: {state}: THE LEDGER IS DAMAGED: nothing runs; run `par audit verify`, then `par audit renew`"
        );
        if let Err(error) = self.ledger.declare(damage) {
            tracing::error!(%error, "the damage is not recorded; the next start verifies again");
        }
        Duration::ZERO
    }

    fn hindered(&self, why: String) -> Duration {
        tracing::error!(why, "the ledger cannot be verified at the moment");
        self.progress(Some(why));
        Duration::from_millis(limits::VERIFY_PAUSE_MS)
    }

    /// An earlier result stays until the next one, unless a file cannot be read.
    fn progress(&self, hindered: Option<String>) {
        let is_first = matches!(self.ledger.chain(), ChainState::Verifying { .. });
        if is_first || hindered.is_some() {
            let entries = self.audit.size();
            self.ledger.shared().set_chain(ChainState::Verifying { entries, hindered });
        }
    }
}
