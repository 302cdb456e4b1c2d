//! A line on a terminal that shows the progress of a long command, or what it waits for.

use crate::config::terminal_columns;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Commands that take less time show nothing, in milliseconds.
const QUIET_MS: u128 = 1_000;
/// Interval between two updates of the line, in milliseconds.
const WORD_MS: u64 = 100;
/// Waiting that takes less time shows nothing, in milliseconds.
const WAIT_QUIET_MS: u64 = 1_000;
/// Interval between two updates of the line that says what is waited for, in milliseconds.
const WAIT_WORD_MS: u64 = 500;
/// Width of the bar, in characters.
const BAR_CELLS: u64 = 30;

/// The progress line. It is written to standard error if that is a terminal, and erased on drop.
#[derive(Debug)]
pub(super) struct Progress {
    started: Instant,
    is_wanted: bool,
    /// Milliseconds between the start and the last update; 0 before the first one.
    updated_ms: AtomicU64,
}

impl Progress {
    pub(super) fn new() -> Self {
        let is_wanted = std::io::stderr().is_terminal();
        Self { started: Instant::now(), is_wanted, updated_ms: AtomicU64::new(0) }
    }

    /// Shows `done` of `all` entries. May be called from any thread.
    pub(super) fn update(&self, done: u64, all: u64) {
        let ms = self.started.elapsed().as_millis();
        if !self.is_wanted || ms < QUIET_MS {
            return;
        }
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        let updated = self.updated_ms.load(Ordering::Relaxed);
        let is_mine = ms.saturating_sub(updated) >= WORD_MS
            && self.updated_ms.compare_exchange(updated, ms, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_mine {
            // The line may be lost: it is only for people.
            drop(write!(std::io::stderr().lock(), "\r{}", line(done, all)));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.updated_ms.load(Ordering::Relaxed) > 0 {
            drop(write!(std::io::stderr().lock(), "\r\u{1b}[K"));
        }
    }
}

/// A line that says what is waited for, and how long it has been: `par: asking the model, 6 s`. It
/// is written to standard error if that is a terminal.
#[derive(Debug)]
pub(super) struct WaitLine {
    is_wanted: bool,
    is_written: bool,
    since: Instant,
    /// Printable, on one line.
    what: String,
}

impl WaitLine {
    pub(super) fn new(what: &str) -> Self {
        let is_wanted = std::io::stderr().is_terminal();
        Self { is_wanted, is_written: false, since: Instant::now(), what: what.to_owned() }
    }

    /// What is waited for from now on.
    pub(super) fn now(&mut self, what: String) {
        (self.what, self.since) = (what, Instant::now());
    }

    /// Time until the line should be written. Short waits show nothing.
    pub(super) fn pause(&self) -> Duration {
        let quiet = Duration::from_millis(WAIT_QUIET_MS).saturating_sub(self.since.elapsed());
        quiet.max(Duration::from_millis(WAIT_WORD_MS))
    }

    pub(super) fn write(&mut self) {
        if self.is_wanted {
            self.is_written = true;
            let line = format!("par: {}, {} s", self.what, self.since.elapsed().as_secs());
            let columns = terminal_columns().unwrap_or(usize::MAX).saturating_sub(1);
            let line: String = line.chars().take(columns).collect();
            // The line may be lost: it is only for people.
            drop(write!(std::io::stderr().lock(), "\r{line}\u{1b}[K"));
        }
    }

    pub(super) fn erase(&mut self) {
        if std::mem::take(&mut self.is_written) {
            drop(write!(std::io::stderr().lock(), "\r\u{1b}[K"));
        }
    }
}

/// A [`WaitLine`] for as long as this value lives, written by a thread of its own.
#[derive(Debug)]
pub(super) struct Busy(Option<(Sender<()>, JoinHandle<()>)>);

impl Busy {
    /// Asks `what` for the words each time the line is written; they must be printable.
    pub(super) fn new(what: impl Fn() -> String + Send + 'static) -> Self {
        let mut line = WaitLine::new("");
        if !line.is_wanted {
            return Self(None);
        }
        let (end, ended) = channel();
        let write = move || {
            while ended.recv_timeout(line.pause()) == Err(RecvTimeoutError::Timeout) {
                line.what = what();
                line.write();
            }
            line.erase();
        };
        // Without a thread there is no line.
        Self(std::thread::Builder::new().spawn(write).ok().map(|thread| (end, thread)))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // A panic in the thread only loses the line.
            drop(thread.join());
        }
    }
}

fn line(done: u64, all: u64) -> String {
    let of = |whole: u64| done.min(all).saturating_mul(whole).checked_div(all).unwrap_or(whole);
    let cells = |cells: u64, what: &str| what.repeat(usize::try_from(cells).unwrap_or(0));
    let full = of(BAR_CELLS);
    format!(
        "par: [{}{}] {:>3} %  {done} of {all} entries",
        cells(full, "#"),
        cells(BAR_CELLS - full, "."),
        of(100)
    )
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_bar_is_as_long_as_the_share() {
        for (done, all, share, full) in [
            (0, 1_000, "  0 %  0 of 1000 entries", 0),
            (500, 1_000, " 50 %", 15),
            (1_000, 1_000, "100 %", 30),
            (2_000, 1_000, "100 %", 30),
            (0, 0, "100 %", 30),
        ] {
            let line = line(done, all);
            assert!(line.contains(share) && line.matches('#').count() == full, "{line}");
        }
    }
}
