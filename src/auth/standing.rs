//! Whether a key that was verified earlier is still valid. For sessions, which present it once.

use super::authority::Authority;
use super::principal::Principal;
use super::refused::Refusal;
use super::subject::Source;

impl Authority {
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
