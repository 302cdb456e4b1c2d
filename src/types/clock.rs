//! The only reader of the clock.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;

/// Wall-clock time, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wall(pub u64);

impl Wall {
    /// The current time (`CLOCK_REALTIME`).
    #[must_use]
    pub fn now() -> Self {
        Self(micros(ClockId::Realtime))
    }

    /// Parses a time in the form of [`Wall::rfc3339`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(at.as_microsecond()).ok().map(Self)
    }

    /// RFC 3339 in UTC with microseconds, such as `2026-11-22T01:19:07.000000Z`.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let micros = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_microsecond(micros)
            .map_or_else(|_| "out of range".to_owned(), |at| format!("{at:.6}"))
    }
}

/// Microseconds since the host started, suspended time included (`CLOCK_BOOTTIME`).
#[must_use]
pub fn mono_us() -> u64 {
    micros(ClockId::Boottime)
}

/// Processor time that the calling thread has used, in microseconds (`CLOCK_THREAD_CPUTIME_ID`).
#[must_use]
pub fn thread_us() -> u64 {
    micros(ClockId::ThreadCPUTime)
}

/// The kernel's identifier of this boot, 36 characters, or `unknown` if `/proc` does not provide
/// it.
#[must_use]
pub fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    })
}

fn micros(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(at.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000)
}
