//! The requester of a call.

use crate::auth::Principal;
use crate::policy::Session;
use crate::provenance::{ArgumentOrigins, SourceTexts};
use crate::tools::ValidCall;
use crate::types::{Ceiling, Channel, NamedRun, RunId, SessionId};
use std::net::IpAddr;

/// The requester of calls, and the run that they belong to.
#[derive(Clone, Copy, Debug)]
pub struct CallContext<'a> {
    /// The principal.
    pub principal: &'a Principal,
    /// The run.
    pub run: &'a RunId,
    /// The session's identifier.
    pub session_id: &'a SessionId,
    /// The session's state, as policies see it.
    pub session: &'a Session,
    /// Where the request came from, if over the network.
    pub source_ip: Option<IpAddr>,
    /// Where the run came in.
    pub channel: Channel,
    /// The message that began the run, without secrets.
    pub message: &'a str,
    /// What the run was given; `None` if that is not known.
    pub sources: Option<&'a SourceTexts>,
    /// What the run's request and its key make of the tools.
    pub ceiling: &'a Ceiling,
    /// What the model wrote next to the call.
    pub said: Option<&'a str>,
}

impl CallContext<'_> {
    /// The run by its names.
    pub(super) fn named_run(&self) -> NamedRun {
        let (session, run) = (self.session_id.clone(), self.run.clone());
        NamedRun { caller: self.principal.id(), session, run }
    }

    /// Where the sensitive arguments of `valid` were found.
    pub(super) fn origins(&self, valid: &ValidCall) -> Option<ArgumentOrigins> {
        let sensitive = &valid.manifest().sensitive;
        let each = sensitive.iter().map(|one| (one.name.as_str(), one.pointer.as_str()));
        self.sources.map(|sources| ArgumentOrigins::find(sources, each, valid.arguments()))
    }

    /// Whether a person limited the run to some tools and named `tool`.
    pub(super) fn is_chosen(&self, tool: &str) -> bool {
        let is_named = self.ceiling.names().is_some_and(|names| names.contains(tool));
        is_named && self.channel.is_typed()
    }
}
