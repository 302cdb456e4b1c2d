//! What the operations of the admin socket work on.

use crate::agent::Agent;
use crate::auth::{Authority, LoginLinks};
use crate::ledger::Index;
use crate::rules::Reloader;
use std::sync::Arc;

/// What the operations work on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Room {
    /// The API keys.
    pub authority: Authority,
    /// The agent whose calls wait for approval.
    pub agent: Agent,
    /// The login links that `par login` asks for.
    pub links: LoginLinks,
    /// The index for searches of runs.
    pub index: Option<Arc<Index>>,
    /// Reloads its rules.
    pub reloader: Reloader,
}
