//! What the operations of the admin socket work on.

use crate::agent::Agent;
use crate::auth::{Authority, LoginLinks};
use crate::rules::Reloader;

/// What the operations work on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Room {
    /// The API keys.
    pub authority: Authority,
    /// The agent whose calls wait for approval.
    pub agent: Agent,
    /// The login links that `par login` asks for.
    pub links: LoginLinks,
    /// Reloads its rules.
    pub reloader: Reloader,
}
