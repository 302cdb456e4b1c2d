//! The thread in which a server verifies its own ledger: every entry once a day and after a start,
//! and what is new within seconds if it fits into one slice, otherwise each hour. A damaged entry
//! that a read meets is verified at once.
//!
//! It takes a fixed share of the time at most. When a slice finds something that does not hold, the
//! whole ledger is verified again, as `par audit verify` does it, and only what that confirms is
//! damage. A file that cannot be read at the moment is not damage: it is tried again.

use super::files::{Files, HighWater};
use super::handle::Ledger;
use super::payload::{LedgerDamagePayload, VerifyPass};
use super::read::{OpenSegments, ReadError, Reader, Wake, root_at};
use super::tree::Head;
use super::verify::{
    AfterSlice, AuditError, ChainState, SlicedAudit, SoundLedger, Verdict, Verification, audit,
};
use super::write::{AppendError, OpenError, WAY_OUT};
use crate::types::clock::{Wall, mono_us, thread_us};
use crate::types::{Digest, limits, text};
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
    stop: StopOnDrop,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct StopOnDrop(Ledger);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.reader().alarm().stop();
    }
}

impl Watcher {
    /// Starts the thread. The first verification begins at once. A read of this ledger that finds a
    /// damaged entry wakes it.
    pub fn start(ledger: Ledger, every: VerifyEvery) -> std::io::Result<Self> {
        let stop = StopOnDrop(ledger.clone());
        let rounds = Rounds::new(ledger, every);
        let thread = std::thread::Builder::new().name("ledger-verify".to_owned());
        Ok(Self { stop, thread: thread.spawn(move || rounds.run())? })
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

impl Ledger {
    /// Verifies every entry since the last verification that reached the end, and at least the
    /// newest [`limits::VERIFY_TO_ACT_AGAIN`], for a command that is about to act without a server.
    /// The cost depends on what is new, not on the length of the ledger. Damage is recorded, and
    /// nothing else is appended from then on.
    pub fn verify_to_act(&self) -> Result<(), OpenError> {
        if let Some(damage) = self.damage() {
            return Err(OpenError::Append(AppendError::Damaged(Box::new(damage))));
        }
        let unreadable = |why: String| OpenError::Incomplete(format!("it cannot be verified: {why}"));
        let newest = self.unverified().and_then(|count| {
            SlicedAudit::newest(self.files(), count).map_err(|error| Slice::of_error(&error))
        });
        let found = newest.map(|mut audit| Slice::last(&mut audit, self.files()));
        let suspicion = match found.unwrap_or_else(|found| found) {
            Slice::More => return Ok(()),
            Slice::Sound(report) => {
                self.mark_verified(&report);
                return Ok(());
            }
            Slice::Hindered(why) => return Err(unreadable(why)),
            Slice::Suspect(suspicion) => suspicion,
        };
        match self.confirm(suspicion, VerifyPass::Whole) {
            Confirmed::Holds => {
                // Whatever the mark says, it is not about this ledger.
                let _removed = std::fs::remove_file(self.files().verified());
                Ok(())
            }
            Confirmed::Hindered(why) => Err(unreadable(why)),
            Confirmed::Damaged(damage) => {
                // The command that asked says it itself.
                self.record(&damage);
                Err(OpenError::Append(AppendError::Damaged(Box::new(damage))))
            }
        }
    }

    /// Has the thread that verifies this ledger read entry `seq` again: a reader of the files found
    /// that it does not verify.
    pub fn suspect(&self, seq: u64) {
        self.reader().alarm().ring(seq);
    }

    /// The number of newest entries to verify. If the entries that were verified before are not
    /// those of this ledger, that is a suspicion.
    fn unverified(&self) -> Result<u64, Slice> {
        let Some(mark) = HighWater::read(&self.files().verified()) else {
            return Ok(limits::VERIFY_TO_ACT_FIRST);
        };
        let size = self.head().size;
        let suspect = |what: String| Slice::Suspect(Suspicion { seq: None, what, is_unreadable: false });
        let Some(new) = size.checked_sub(mark.size) else {
            return Err(suspect(format!("it has {size} entries, but {} were verified before", mark.size)));
        };
        let root = OpenSegments::open(&self.files().ledger())
            .map_err(AuditError::from)
            .and_then(|mut segments| Ok(root_at(&mut segments, mark.size)?));
        match root {
            Ok(root) if root == mark.root => Ok(new.max(limits::VERIFY_TO_ACT_AGAIN)),
            Ok(_) => {
                let what = "the root over them is not the one that was verified";
                Err(suspect(format!("its first {} entries have changed: {what}", mark.size)))
            }
            Err(error) => Err(Slice::of_error(&error)),
        }
    }

    /// Notes that everything up to the end of `report` was verified. If that fails, the next
    /// command verifies more.
    fn mark_verified(&self, report: &Verification) {
        let size = report.from.saturating_add(report.entries);
        let Some(root) = Digest::from_hex(&report.root) else { return };
        match HighWater::open(&self.files().verified()) {
            Ok(mark) => mark.write(Head { size, root }),
            Err(error) => tracing::debug!(%error, "cannot note how far the ledger was verified"),
        }
    }

    /// Verifies the whole ledger in one snapshot, which decides about what a slice found.
    fn confirm(&self, suspicion: Suspicion, pass: VerifyPass) -> Confirmed {
        let Suspicion { seq, what, is_unreadable } = suspicion;
        let report = audit(self.files(), &[], &[]);
        if report.verdict.holds() {
            return Confirmed::Holds;
        }
        let first = report.findings.into_iter().next();
        // An error of the disk alone is not damage.
        if report.verdict == Verdict::Unreadable && !is_unreadable {
            return Confirmed::Hindered(first.map_or(what, |first| first.what));
        }
        let (seq, found) = first.map_or((seq, what), |first| (first.seq, first.what));
        Confirmed::Damaged(self.damage_of(seq, &found, pass))
    }

    fn damage_of(&self, entry: Option<u64>, found: &str, pass: VerifyPass) -> LedgerDamagePayload {
        let found = text::prefix(&text::visible_line(found), limits::REASON_BYTES_MAX).to_owned();
        LedgerDamagePayload { entry, found, pass, size: self.head().size }
    }

    /// Logs and records the damage.
    fn report(&self, damage: &LedgerDamagePayload) {
        tracing::error!(
            entry = damage.entry,
            found = damage.found,
            "ledger: {}: THE LEDGER IS DAMAGED: nothing runs; {WAY_OUT}",
            ChainState::Broken(damage.clone())
        );
        self.record(damage);
    }

    fn record(&self, damage: &LedgerDamagePayload) {
        if let Err(error) = self.declare(damage.clone()) {
            tracing::error!(%error, "the damage is not recorded; the next start verifies again");
        }
    }
}

/// What a slice found that does not hold.
struct Suspicion {
    seq: Option<u64>,
    what: String,
    /// Whether the files themselves cannot be read because of it.
    is_unreadable: bool,
}

/// The outcome of a slice.
enum Slice {
    More,
    Sound(Box<Verification>),
    Suspect(Suspicion),
    Hindered(String),
}

/// The outcome of a verification of the whole ledger.
enum Confirmed {
    Holds,
    Hindered(String),
    Damaged(LedgerDamagePayload),
}

impl Slice {
    /// Verifies the next slice.
    fn next(audit: &mut SlicedAudit, files: &Files) -> Self {
        match audit.next(files) {
            Ok(AfterSlice::More) => Self::More,
            Ok(AfterSlice::End(report)) => match report.findings.first() {
                None => Self::Sound(report),
                Some(first) => {
                    let (seq, what) = (first.seq, first.what.clone());
                    Self::Suspect(Suspicion { seq, what, is_unreadable: false })
                }
            },
            Err(error) => Self::of_error(&error),
        }
    }

    /// Verifies every slice up to the last.
    fn last(audit: &mut SlicedAudit, files: &Files) -> Self {
        loop {
            match Self::next(audit, files) {
                Self::More => {}
                end => return end,
            }
        }
    }

    fn of_error(error: &AuditError) -> Self {
        let what = error.to_string();
        if error.is_damage() {
            Self::Suspect(Suspicion { seq: None, what, is_unreadable: true })
        } else {
            Self::Hindered(what)
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

    fn run(mut self) {
        tracing::info!("ledger: {}", self.ledger.chain());
        // Damage that was recorded stays: there is nothing left to find.
        while self.ledger.damage().is_none() {
            let watch = Stopwatch::start();
            let pause = self.slice();
            let worked_us = watch.us();
            self.worked_us = self.worked_us.saturating_add(worked_us);
            let rest = Duration::from_micros(worked_us.saturating_mul(limits::VERIFY_SHARE - 1));
            if !self.rest(rest, pause.unwrap_or_default()) {
                return;
            }
        }
    }

    /// Waits until the next slice: at least `rest`, and then until `pause` is over or a few entries
    /// are new. Returns false if the thread is to end.
    fn rest(&mut self, rest: Duration, pause: Duration) -> bool {
        let began_us = mono_us();
        loop {
            let waited = Duration::from_micros(mono_us().saturating_sub(began_us));
            let left = if waited < rest {
                rest.saturating_sub(waited)
            } else if self.has_few_new() {
                return true;
            } else {
                pause.saturating_sub(waited).min(Duration::from_millis(limits::VERIFY_LOOK_MS))
            };
            match self.ledger.reader().alarm().wait(left) {
                Wake::Stop => return false,
                Wake::Met(seq) => self.met(seq),
                Wake::Time if left.is_zero() => return true,
                Wake::Time => {}
            }
            if self.ledger.damage().is_some() {
                return true;
            }
        }
    }

    /// Whether entries that the last round did not read fit into one slice.
    fn has_few_new(&self) -> bool {
        let new = self.ledger.head().size.saturating_sub(self.audit.size());
        let has_ended = matches!(self.ledger.chain(), ChainState::Sound(_));
        has_ended && self.pass == VerifyPass::New && (1..=limits::VERIFY_SLICE_ENTRIES_MAX).contains(&new)
    }

    /// A read found entry `seq` damaged: it is read again, with a connection of its own.
    fn met(&mut self, seq: u64) {
        let again = Reader::open(&self.ledger.files().ledger()).map_err(ReadError::Store);
        match again.and_then(|reader| reader.entry(seq)) {
            Err(ReadError::Damaged(seq, found)) => {
                self.ledger.report(&self.ledger.damage_of(Some(seq), &found, self.pass));
            }
            Ok(None) => {
                let what = "the entry is missing".to_owned();
                let _pause = self.suspect(Suspicion { seq: Some(seq), what, is_unreadable: false });
            }
            Ok(Some(_)) => tracing::warn!(seq, "an entry that a read found damaged verifies now"),
            Err(error) => tracing::error!(seq, %error, "a damaged entry cannot be read again"),
        }
    }

    /// Verifies one slice. Returns how long to wait before the next, if not only for the share of
    /// the time.
    fn slice(&mut self) -> Option<Duration> {
        match Slice::next(&mut self.audit, self.ledger.files()) {
            Slice::More => {
                self.progress(None);
                None
            }
            Slice::Sound(report) => Some(self.sound(&report)),
            Slice::Suspect(suspicion) => Some(self.suspect(suspicion)),
            Slice::Hindered(why) => Some(self.hindered(why)),
        }
    }

    /// The last entry was reached and everything holds.
    fn sound(&mut self, report: &Verification) -> Duration {
        if self.pass == VerifyPass::Whole {
            self.took_us = self.worked_us;
        }
        self.ledger.mark_verified(report);
        let (size, root) = (self.audit.size(), report.root.clone());
        let sound = SoundLedger { size, root, at_us: Wall::now().0, took_us: self.took_us };
        let state = ChainState::Sound(sound);
        match self.pass {
            VerifyPass::Whole => tracing::info!("ledger: {state}: every entry was verified"),
            VerifyPass::New => tracing::debug!("ledger: {state}"),
        }
        self.ledger.shared().set_chain(state);
        let age_s = mono_us().saturating_sub(self.began_us) / 1_000_000;
        let left_s = self.every.whole_s.saturating_sub(age_s);
        if left_s == 0 {
            return self.restart(Duration::ZERO);
        }
        self.pass = VerifyPass::New;
        Duration::from_secs(self.every.new_s.min(left_s))
    }

    /// Makes the next slice the first of a verification of every entry, after `pause`.
    fn restart(&mut self, pause: Duration) -> Duration {
        self.pass = VerifyPass::Whole;
        self.audit = SlicedAudit::default();
        self.worked_us = 0;
        self.began_us = mono_us().saturating_add(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX));
        pause
    }

    /// Something does not hold: the whole ledger is verified again, which decides.
    fn suspect(&mut self, suspicion: Suspicion) -> Duration {
        let (seq, what) = (suspicion.seq, suspicion.what.clone());
        tracing::warn!(seq, what, "the ledger may be damaged: it is verified again");
        match self.ledger.confirm(suspicion, self.pass) {
            Confirmed::Holds => {
                tracing::warn!(
                    seq,
                    what,
                    "what did not hold a moment ago holds now: verification begins again"
                );
                self.restart(Duration::from_millis(limits::VERIFY_PAUSE_MS))
            }
            Confirmed::Hindered(why) => {
                self.restart(Duration::ZERO);
                self.hindered(why)
            }
            Confirmed::Damaged(damage) => {
                self.ledger.report(&damage);
                Duration::ZERO
            }
        }
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
