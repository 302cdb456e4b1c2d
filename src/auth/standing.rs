//! Whether a key that was verified earlier is still valid. For sessions, which present it once.

use super::authority::Authority;
use super::keys::KeyError;
use super::principal::Principal;
use super::refused::Refusal;
use super::subject::Source;
use std::collections::BTreeSet;

impl Authority {
    /// The callers of the same user as `by`, by their names on the ledger: keys, also ended ones,
    /// and users of this host. Empty if `by` names no user.
    pub async fn same_user(&self, by: &Principal) -> Result<BTreeSet<String>, KeyError> {
        let Some(user) = by.user().map(str::to_owned) else { return Ok(BTreeSet::new()) };
        let authority = self.clone();
        let listed = tokio::task::spawn_blocking(move || authority.list()).await;
        let keys = listed.map_err(|e| KeyError::Failed(Box::new(e)))??;
        let keys = keys.into_iter().filter(|key| key.user.as_deref() == Some(user.as_str()));
        let keys = keys.map(|key| format!("key:{}", key.id));
        let hosts = self.0.os_users.named_as(&user).map(|name| format!("os:{name}"));
        Ok(keys.chain(hosts).collect())
    }

    /// The principal in the current state of its key: refused if the key is revoked, expired or
    /// edited by hand, or if the configuration no longer knows the user of this host.
    ///
    /// Takes a principal and not an id, so that only a verified key can get here.
    pub async fn standing(&self, proven: &Principal) -> Result<Principal, Refusal> {
        match proven.source() {
            Source::Key { .. } => self.recall(&proven.id()).await,
            // It keeps the role in which it was admitted.
            Source::Os { .. } => self.recall_as(&proven.id(), proven.role()).await,
        }
    }
}
