//! Keys verified by this process, so that the next request needs no argon2id.
//!
//! Stored as an HMAC under a key known only to this process: the memory of the front holds no
//! secret that could be presented, and no hash that could be compared with another's.

use super::record::Created;
use super::verifier::MacKey;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Verified keys held at once. Only right secrets are stored, so only that many valid keys exceed
/// it.
const REMEMBERED_KEYS_MAX: usize = 4_096;

/// The verified keys.
pub(super) struct Remembered {
    key: MacKey,
    verified: Mutex<HashMap<[u8; 32], Arc<Created>>>,
}

impl Remembered {
    pub(super) fn empty() -> Result<Self, getrandom::Error> {
        Ok(Self { key: MacKey::random()?, verified: Mutex::default() })
    }

    /// The key that was verified with this text.
    pub(super) fn find(&self, presented: &str) -> Option<Arc<Created>> {
        let mac = self.key.mac(presented);
        self.verified().get(&mac).cloned()
    }

    pub(super) fn remember(&self, presented: &str, created: Arc<Created>) {
        let mac = self.key.mac(presented);
        let mut verified = self.verified();
        if verified.len() >= REMEMBERED_KEYS_MAX {
            // They are verified again at their next use.
            verified.clear();
        }
        verified.insert(mac, created);
    }

    /// Forgets the key made by the entry `created_seq`.
    pub(super) fn forget(&self, created_seq: u64) {
        self.verified().retain(|_, created| created.seq != created_seq);
    }

    fn verified(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Created>>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remembered({})", self.verified().len())
    }
}
