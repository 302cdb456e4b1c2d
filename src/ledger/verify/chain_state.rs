//! What a server knows of its own ledger's soundness: one type for every place that shows it.

use crate::ledger::payload::LedgerDamagePayload;
use crate::types::clock::Wall;
use serde_json::{Value, json};
use std::fmt;

/// The state of the ledger's verification in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainState {
    /// No verification has reached the last entry yet.
    Verifying {
        /// Number of entries that were verified so far.
        entries: u64,
        /// Why it does not go on, if a file cannot be read at the moment.
        hindered: Option<String>,
    },
    /// Every entry up to this size verified.
    Sound(SoundLedger),
    /// Something does not hold. The ledger takes no new work until it is renewed.
    Broken(LedgerDamagePayload),
}

/// The last verification that held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoundLedger {
    /// Number of entries that were verified.
    pub size: u64,
    /// The Merkle root over them, in hexadecimal.
    pub root: String,
    /// When the last of them was verified, in microseconds since 1970.
    pub at_us: u64,
    /// Working time of the last verification of every entry, without its pauses, in microseconds.
    pub took_us: u64,
}

impl Default for ChainState {
    fn default() -> Self {
        Self::Verifying { entries: 0, hindered: None }
    }
}

impl ChainState {
    /// The state as one word: `verifying`, `ok` or `broken`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Verifying { .. } => "verifying",
            Self::Sound(_) => "ok",
            Self::Broken(_) => "broken",
        }
    }

    /// The damage, if the ledger is broken.
    #[must_use]
    pub fn damage(&self) -> Option<&LedgerDamagePayload> {
        match self {
            Self::Broken(damage) => Some(damage),
            Self::Verifying { .. } | Self::Sound(_) => None,
        }
    }

    /// The state as JSON: its word, and what belongs to it.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Verifying { entries, hindered } => {
                json!({ "state": self.as_str(), "entries": entries, "hindered": hindered })
            }
            Self::Sound(SoundLedger { size, root, at_us, took_us }) => json!({
                "state": self.as_str(), "entries": size, "root": root, "at": Wall(*at_us).rfc3339(),
                "took_ms": took_us / 1_000,
            }),
            Self::Broken(LedgerDamagePayload { entry, found, pass, size }) => {
                json!({ "state": self.as_str(), "entry": entry, "found": found, "pass": pass, "size": size })
            }
        }
    }
}

impl fmt::Display for ChainState {
    /// `verifying`, `ok at 812, 2026-11-24T07:20:01.000000Z` or `broken at 6`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verifying { .. } => f.write_str(self.as_str()),
            Self::Sound(sound) => write!(f, "ok at {}, {}", sound.size, Wall(sound.at_us).rfc3339()),
            Self::Broken(LedgerDamagePayload { entry: Some(seq), .. }) => write!(f, "broken at {seq}"),
            Self::Broken(_) => f.write_str(self.as_str()),
        }
    }
}
