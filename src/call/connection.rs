//! What a call asked to be connected to.

use std::net::SocketAddr;

/// One connection that was asked for: told in the call's result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The host and port in their one spelling, or what was asked for instead, visible and bounded.
    pub to: String,
    /// Where it led; absent where no connection was made.
    pub address: Option<SocketAddr>,
    /// Why there was none, or why it was cut.
    pub refused: Option<String>,
    /// Bytes that the tool sent, and that were passed on.
    pub sent: u64,
    /// Bytes that came back to it.
    pub received: u64,
}

/// What a call asked for, until its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// In the order of asking, at most [`PROXY_TOLD_MAX`](crate::types::limits::PROXY_TOLD_MAX).
    pub told: Vec<Connection>,
    /// How many more there were.
    pub more: u64,
    /// Bytes of all of them, both directions together.
    pub bytes: u64,
}
