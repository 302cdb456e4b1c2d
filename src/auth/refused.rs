//! Refusals: the reason, the number, and the source.
//!
//! A key that argon2id refuses gets ten attempts a minute, and none until the minute is over. All
//! refusals are counted and written as one entry, at most once a minute; no request waits for it.

use crate::ledger::payload::AuthRefusedPayload;
use crate::types::{KeyId, limits};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sources listed in one entry.
const SOURCES_LISTED_MAX: usize = 16;
const MINUTE_US: u64 = 60_000_000;

/// Why a credential was refused. Outside, all but the last two look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key was refused: {}", self.as_str())]
pub enum Refusal {
    /// No credential was sent.
    Missing,
    /// Its form or its checksum is wrong.
    Malformed,
    /// No key has that id.
    Unknown,
    /// The secret does not match.
    Wrong,
    /// The key has expired.
    Expired,
    /// The key was revoked.
    Revoked,
    /// state.db does not match the ledger.
    Mismatch,
    /// Too many failed attempts with this key; argon2id was not run.
    TooMany {
        /// Seconds until the next attempt is allowed.
        retry_after_s: u64,
    },
    /// The keys cannot be read at the moment.
    Unreadable,
}

impl Refusal {
    /// Logs `error` and returns the refusal for keys that cannot be read.
    pub(super) fn unreadable(error: impl fmt::Display) -> Self {
        tracing::error!(error = %error, "keys cannot be read");
        Self::Unreadable
    }

    /// The name on the ledger.
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
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    tally: Mutex<FailureCounts>,
}

#[derive(Debug, Default)]
struct FailureCounts {
    /// Only for keys whose HMAC matches, so at most one for each existing key.
    windows: HashMap<KeyId, FailureWindow>,
    unrecorded: Unrecorded,
    /// Refusals since the start.
    total: u64,
}

/// Failed attempts with one key in the minute that began at `start_us`.
#[derive(Clone, Copy, Debug)]
struct FailureWindow {
    start_us: u64,
    tries: u32,
}

/// Refusals that no entry has recorded yet.
#[derive(Debug, Default)]
struct Unrecorded {
    reasons: BTreeMap<&'static str, u64>,
    sources: BTreeMap<IpAddr, u64>,
    elsewhere: u64,
}

impl Refusals {
    /// Admits an attempt with the key `id` to argon2id, or returns how long to wait.
    pub(super) fn admit(&self, id: &KeyId, now_us: u64) -> Result<(), Refusal> {
        let tally = self.tally();
        match tally.windows.get(id).filter(|window| window.is_open(now_us)) {
            Some(window) if window.tries >= limits::REFUSALS_PER_MINUTE_MAX => {
                let left_us = (window.start_us + MINUTE_US).saturating_sub(now_us);
                Err(Refusal::TooMany { retry_after_s: left_us.div_ceil(1_000_000).max(1) })
            }
            _ => Ok(()),
        }
    }

    /// Notes that argon2id refused the key `id`.
    pub(super) fn failed(&self, id: KeyId, now_us: u64) {
        let mut tally = self.tally();
        tally.windows.retain(|_, window| window.is_open(now_us));
        let window = tally.windows.entry(id).or_insert(FailureWindow { start_us: now_us, tries: 0 });
        window.tries = window.tries.saturating_add(1);
    }

    /// Counts a refusal for the next entry.
    pub(super) fn count(&self, refusal: Refusal, source: IpAddr) {
        let mut tally = self.tally();
        tally.total += 1;
        tally.unrecorded.count(refusal, network(source));
    }

    /// The number of refusals since the start.
    pub(super) fn total(&self) -> u64 {
        self.tally().total
    }

    /// Takes the counts for the next entry and resets them; `None` if there were no refusals.
    pub(super) fn payload(&self) -> Option<AuthRefusedPayload> {
        let unrecorded = std::mem::take(&mut self.tally().unrecorded);
        if unrecorded.reasons.is_empty() {
            return None;
        }
        Some(AuthRefusedPayload {
            reasons: unrecorded
                .reasons
                .iter()
                .map(|(reason, count)| ((*reason).to_owned(), *count))
                .collect(),
            sources: unrecorded.sources.iter().map(|(source, count)| (source.to_string(), *count)).collect(),
            elsewhere: unrecorded.elsewhere,
        })
    }

    fn tally(&self) -> MutexGuard<'_, FailureCounts> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FailureWindow {
    fn is_open(&self, now_us: u64) -> bool {
        now_us < self.start_us + MINUTE_US
    }
}

impl Unrecorded {
    fn count(&mut self, refusal: Refusal, source: IpAddr) {
        *self.reasons.entry(refusal.as_str()).or_default() += 1;
        if self.sources.contains_key(&source) || self.sources.len() < SOURCES_LISTED_MAX {
            *self.sources.entry(source).or_default() += 1;
        } else {
            self.elsewhere += 1;
        }
    }
}

/// The address range that one sender controls: an IPv4 address, or the first 64 bits of an IPv6
/// address.
#[must_use]
pub fn network(source: IpAddr) -> IpAddr {
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
    use super::{MINUTE_US, Refusal, Refusals, SOURCES_LISTED_MAX, network};
    use crate::types::KeyId;
    use crate::types::limits::REFUSALS_PER_MINUTE_MAX;
    use std::net::{IpAddr, Ipv4Addr};

    fn key(id: &str) -> KeyId {
        KeyId::parse(id).expect("id")
    }

    #[test]
    fn ten_failed_tries_of_a_key_a_minute_and_then_none() {
        let refusals = Refusals::default();
        let (damaged, other) = (key("damaged0"), key("another0"));
        for try_at in 0..u64::from(REFUSALS_PER_MINUTE_MAX) {
            assert_eq!(refusals.admit(&damaged, try_at), Ok(()));
            refusals.failed(damaged.clone(), try_at);
        }
        assert_eq!(refusals.admit(&damaged, 9), Err(Refusal::TooMany { retry_after_s: 60 }));
        assert_eq!(refusals.admit(&other, 9), Ok(()), "another key");
        assert_eq!(refusals.admit(&damaged, MINUTE_US), Ok(()), "the minute is over");
        refusals.failed(other, MINUTE_US);
        assert_eq!(refusals.tally().windows.len(), 1, "what is over is forgotten");
    }

    #[test]
    fn many_sources_need_no_more_memory() {
        let refusals = Refusals::default();
        for at in 0..10_000 {
            refusals.count(Refusal::Wrong, IpAddr::V4(Ipv4Addr::from_bits(at)));
        }
        assert_eq!(refusals.tally().unrecorded.sources.len(), SOURCES_LISTED_MAX);
        let payload = refusals.payload().expect("counts");
        assert_eq!(payload.reasons["wrong"], 10_000);
        assert_eq!(payload.sources.len(), SOURCES_LISTED_MAX);
        assert!(refusals.payload().is_none(), "recorded once");
    }

    #[test]
    fn one_network_of_ipv6_is_one_source() {
        let of = |text: &str| network(text.parse().expect("address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
