//! Keys of the API: made, withdrawn, refused.

use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The payload of `key.create`. It holds the key's verifiers, and is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreatePayload {
    /// The key's public part.
    pub id: String,
    /// The name given at its making.
    pub name: String,
    /// `viewer`, `operator`, `approver` or `admin`.
    pub role: String,
    /// HMAC of the secret.
    pub hmac: Digest,
    /// argon2id over the secret, as a PHC string.
    pub argon2: String,
    /// The user behind the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When it ends, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<u64>,
    /// What let in who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
    /// Of a key that was taken over from another log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<KeyBefore>,
}

impl fmt::Debug for KeyCreatePayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyCreatePayload({})", self.id)
    }
}

/// The entry of another log that a key was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBefore {
    /// The log's id.
    pub log: String,
    /// The entry's number.
    pub seq: u64,
}

/// The payload of `key.revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRevokePayload {
    /// The key's public part.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What let in who withdrew it.
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
    /// Count of further addresses.
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
