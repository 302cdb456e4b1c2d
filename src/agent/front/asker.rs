//! For whom a tool of the front runs.

use crate::agent::shared::Agent;
use crate::auth::Principal;
use crate::gate::CallContext;
use crate::policy::{Door, Session};
use crate::types::{Ceiling, Channel, RunId, SessionId};

/// The caller of a tool that runs in the front, with its run and what its session has read.
#[derive(Clone, Debug)]
pub(in crate::agent) struct FrontAsker {
    pub(in crate::agent) agent: Agent,
    pub(in crate::agent) principal: Principal,
    pub(in crate::agent) door: Door,
    pub(in crate::agent) run: RunId,
    pub(in crate::agent) session_id: SessionId,
    pub(in crate::agent) session: Session,
    pub(in crate::agent) channel: Channel,
}

impl FrontAsker {
    /// Its name on the ledger.
    pub(super) fn id(&self) -> String {
        self.principal.id()
    }

    /// The caller, as a question to the rules of now names it.
    pub(super) fn context(&self) -> CallContext<'_> {
        CallContext {
            principal: &self.principal,
            run: &self.run,
            session_id: &self.session_id,
            session: &self.session,
            source_ip: self.door.source_ip,
            channel: self.channel,
            message: "",
            sources: None,
            ceiling: &Ceiling::OPEN,
            said: None,
        }
    }
}
