//! API keys: creation, revocation and refused credentials.

use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::{Ceiling, Digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The payload of `key.create`. It holds the key's verifiers and is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreatePayload {
    /// The key's public part.
    pub id: String,
    /// The name given to the key at its creation.
    pub name: String,
    /// `viewer`, `operator`, `approver` or `admin`.
    pub role: String,
    /// HMAC of the secret, in hexadecimal.
    pub hmac: Digest,
    /// argon2id of the secret, as a PHC string.
    pub argon2: String,
    /// The user that the key belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When the key expires, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<u64>,
    /// The only tools that runs with the key may use; absent: no ceiling.
    #[serde(default, skip_serializing_if = "Ceiling::is_open")]
    pub tools: Ceiling,
    /// The power that its creator used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// The original, for a key that was taken over from another log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<KeyBefore>,
}

impl fmt::Debug for KeyCreatePayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyCreatePayload({})", self.id)
    }
}

/// The entry of another log that a key was taken over from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBefore {
    /// The id of that log.
    pub log: String,
    /// The sequence number of the entry.
    pub seq: u64,
}

/// The payload of `key.revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRevokePayload {
    /// The key's public part.
    pub id: String,
    /// The key's name.
    pub name: String,
    /// The power that the revoker used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// The payload of `auth.refused`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthRefusedPayload {
    /// Reason → count.
    pub reasons: BTreeMap<String, u64>,
    /// Address → count.
    pub sources: BTreeMap<String, u64>,
    /// Count of refusals from all other addresses.
    pub elsewhere: u64,
}

impl Payload for KeyCreatePayload {
    const KIND: Kind = Kind::KeyCreate;
}
impl Payload for KeyRevokePayload {
    const KIND: Kind = Kind::KeyRevoke;
}
impl Payload for AuthRefusedPayload {
    const KIND: Kind = Kind::AuthRefused;
}
