//! The connections that a call asked for.

use std::net::SocketAddr;

/// One requested connection, as the call's result reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The host and port in their one spelling. If the request named anything else: that text, made
    /// visible and bounded.
    pub to: String,
    /// The address that it led to; `None` if no connection was made.
    pub address: Option<SocketAddr>,
    /// Why no connection was made, or why it was cut.
    pub refused: Option<String>,
    /// Bytes that the tool sent and that were passed on.
    pub sent: u64,
    /// Bytes that the tool received.
    pub received: u64,
}

/// All connections that a call asked for, until its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// In the order of the requests, at most
    /// [`PROXY_LISTED_MAX`](crate::types::limits::PROXY_LISTED_MAX).
    pub told: Vec<Connection>,
    /// Number of requests beyond those listed.
    pub more: u64,
    /// Bytes of all connections, both directions together.
    pub bytes: u64,
}
