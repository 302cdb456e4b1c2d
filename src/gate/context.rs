//! The requester of a call.

use crate::auth::Principal;
use crate::policy::Session;
use crate::types::{Channel, RunId, SessionId};
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
    /// What the model wrote next to the call.
    pub said: Option<&'a str>,
}
