//! Refusals: why, how many, and from where.
//!
//! Ten a minute from one source, then no look-up until the minute is over. All are counted and written
//! as one entry, at most once a minute, for which nobody waits.

use crate::ledger::{Draft, Kind};
use crate::types::limits;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sources whose refusals are counted apart; those beyond share one count.
const SOURCES_MAX: usize = 4_096;
/// Sources named in one entry.
const SOURCES_TOLD_MAX: usize = 16;
const MINUTE_US: u64 = 60_000_000;

/// Why a credential was not taken. From outside all but the last two look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There was none.
    Missing,
    /// Its form or its checksum is wrong.
    Malformed,
    /// No key has that id.
    Unknown,
    /// The secret is not that of the key.
    Wrong,
    /// The key's time is over.
    Expired,
    /// The key was withdrawn.
    Revoked,
    /// state.db does not match the ledger.
    Mismatch,
    /// Its source had too many refusals; nothing was looked up.
    TooMany {
        /// Until the next try, in seconds.
        retry_after_s: u64,
    },
    /// The keys cannot be read now.
    Unreadable,
}

impl Refusal {
    /// The word on the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Wrong => "wrong",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Mismatch => "mismatch",
            Self::TooMany { .. } => "too_many",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether it was a try that failed: no key at all is none, nor is a fault of our own.
    fn is_failed_try(self) -> bool {
        !matches!(self, Self::Missing | Self::TooMany { .. } | Self::Unreadable)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key was refused: {}", self.as_str())
    }
}

impl std::error::Error for Refusal {}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    tally: Mutex<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    windows: HashMap<IpAddr, Window>,
    untold: Untold,
    /// All since the start.
    total: u64,
}

/// Failed tries of one source in the minute that began at `start_us`.
#[derive(Clone, Copy, Debug)]
struct Window {
    start_us: u64,
    tries: u32,
}

/// What no entry has told yet.
#[derive(Debug, Default)]
struct Untold {
    reasons: BTreeMap<&'static str, u64>,
    sources: BTreeMap<IpAddr, u64>,
    elsewhere: u64,
}

impl Refusals {
    /// Lets a try from `source` pass, or tells how long to wait.
    pub(super) fn admit(&self, source: IpAddr, now_us: u64) -> Result<(), Refusal> {
        let tally = self.tally();
        let place = tally.place(network(source));
        match tally.windows.get(&place).filter(|window| window.is_open(now_us)) {
            Some(window) if window.tries >= limits::REFUSALS_PER_MINUTE_MAX => {
                let left_us = (window.start_us + MINUTE_US).saturating_sub(now_us);
                Err(Refusal::TooMany { retry_after_s: left_us.div_ceil(1_000_000).max(1) })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn count(&self, refusal: Refusal, source: IpAddr, now_us: u64) {
        let mut tally = self.tally();
        let source = network(source);
        tally.total += 1;
        tally.untold.count(refusal, source);
        if !refusal.is_failed_try() {
            return;
        }
        if tally.windows.len() >= SOURCES_MAX {
            tally.windows.retain(|_, window| window.is_open(now_us));
        }
        let place = tally.place(source);
        let window = tally.windows.entry(place).or_insert(Window { start_us: now_us, tries: 0 });
        if !window.is_open(now_us) {
            *window = Window { start_us: now_us, tries: 0 };
        }
        window.tries = window.tries.saturating_add(1);
    }

    /// How many since the start.
    pub(super) fn total(&self) -> u64 {
        self.tally().total
    }

    /// The entry that tells the counts, which start anew; `None` where nothing was refused.
    pub(super) fn draft(&self) -> Option<Draft> {
        let untold = std::mem::take(&mut self.tally().untold);
        if untold.reasons.is_empty() {
            return None;
        }
        let sources: BTreeMap<String, u64> =
            untold.sources.iter().map(|(source, count)| (source.to_string(), *count)).collect();
        let payload = json!({ "reasons": untold.reasons, "sources": sources, "elsewhere": untold.elsewhere });
        Some(Draft::new(Kind::AuthRefused, payload))
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    /// Where `source` is counted: apart while there is room, else with all others.
    fn place(&self, source: IpAddr) -> IpAddr {
        let is_apart = self.windows.contains_key(&source) || self.windows.len() < SOURCES_MAX;
        if is_apart { source } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
    }
}

impl Window {
    fn is_open(&self, now_us: u64) -> bool {
        now_us < self.start_us + MINUTE_US
    }
}

impl Untold {
    fn count(&mut self, refusal: Refusal, source: IpAddr) {
        *self.reasons.entry(refusal.as_str()).or_default() += 1;
        if self.sources.contains_key(&source) || self.sources.len() < SOURCES_TOLD_MAX {
            *self.sources.entry(source).or_default() += 1;
        } else {
            self.elsewhere += 1;
        }
    }
}

/// What one sender commands: an IPv4 address, or the first 64 bits of an IPv6 one.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::{MINUTE_US, Refusal, Refusals, SOURCES_MAX};
    use crate::types::limits::REFUSALS_PER_MINUTE_MAX;
    use std::net::{IpAddr, Ipv4Addr};

    fn source(at: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(at).expect("small") + 1))
    }

    #[test]
    fn ten_failed_tries_a_minute_and_then_none() {
        let refusals = Refusals::default();
        for try_at in 0..u64::from(REFUSALS_PER_MINUTE_MAX) {
            assert_eq!(refusals.admit(source(0), try_at), Ok(()));
            refusals.count(Refusal::Missing, source(0), try_at);
            refusals.count(Refusal::Wrong, source(0), try_at);
        }
        assert_eq!(refusals.admit(source(0), 9), Err(Refusal::TooMany { retry_after_s: 60 }));
        assert_eq!(refusals.admit(source(1), 9), Ok(()), "another source");
        assert_eq!(refusals.admit(source(0), MINUTE_US), Ok(()), "the minute is over");
    }

    #[test]
    fn many_sources_need_no_more_memory() {
        let refusals = Refusals::default();
        for at in 0..SOURCES_MAX * 2 {
            refusals.count(Refusal::Wrong, source(at), 0);
        }
        assert!(refusals.tally().windows.len() <= SOURCES_MAX + 1);
        assert!(refusals.admit(source(SOURCES_MAX * 3), 0).is_err(), "those beyond share one count");
        let payload = refusals.draft().expect("counts").payload;
        assert_eq!(payload["reasons"]["wrong"], SOURCES_MAX as u64 * 2);
        assert_eq!(payload["sources"].as_object().expect("sources").len(), 16);
        assert!(refusals.draft().is_none(), "told once");
    }

    #[test]
    fn one_network_of_ipv6_is_one_source() {
        let refusals = Refusals::default();
        for host in 0..REFUSALS_PER_MINUTE_MAX {
            refusals.count(Refusal::Unknown, format!("2001:db8::{host}").parse().expect("address"), 0);
        }
        assert!(refusals.admit("2001:db8::ffff".parse().expect("address"), 1).is_err());
    }
}
