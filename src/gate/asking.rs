//! In whose name a call is made.

use crate::auth::Principal;
use crate::policy::Session;
use crate::types::{RunId, SessionId};
use std::net::IpAddr;

/// In whose name, and in which run, calls are made.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Who asks.
    pub principal: &'a Principal,
    /// The run.
    pub run: &'a RunId,
    /// The session's identifier.
    pub session_id: &'a SessionId,
    /// The session's state, as policies see it.
    pub session: &'a Session,
    /// Where the request came from, if over the network.
    pub source_ip: Option<IpAddr>,
    /// What the model said beside the call.
    pub said: Option<&'a str>,
}
