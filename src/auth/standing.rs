//! Whether a key still holds that was shown earlier: for sessions, which show it once.

use super::authority::Authority;
use super::principal::Principal;
use super::refused::Refusal;
use super::subject::{Role, Source};

impl Authority {
    /// The principal as its key stands now: refused once the key is revoked, expired or edited by hand.
    ///
    /// Takes a principal and not an id, so that nothing but a key that was verified leads here.
    pub async fn standing(&self, proven: &Principal) -> Result<Principal, Refusal> {
        match proven.source() {
            // The role is that of the key; the one given here would be a local user's.
            Source::Key { .. } => self.recall(&proven.id(), Role::Viewer).await,
            Source::Os { .. } => Err(Refusal::Unknown),
        }
    }
}
