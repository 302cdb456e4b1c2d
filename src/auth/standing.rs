//! Whether a key that was verified earlier is still valid. For sessions, which present it once.

use super::authority::Authority;
use super::principal::Principal;
use super::refused::Refusal;
use super::subject::{Role, Source};

impl Authority {
    /// The principal in the current state of its key: refused if the key is revoked, expired or
    /// edited by hand.
    ///
    /// Takes a principal and not an id, so that only a verified key can get here.
    pub async fn standing(&self, proven: &Principal) -> Result<Principal, Refusal> {
        match proven.source() {
            // The role is that of the key; the one given here would be a local user's.
            Source::Key { .. } => self.recall(&proven.id(), Role::Viewer).await,
            Source::Os { .. } => Err(Refusal::Unknown),
        }
    }
}
