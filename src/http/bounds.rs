//! What bounds requests and connections, with the defaults of `types/limits.rs`.

use crate::types::limits;
use std::time::Duration;

/// Bounds of requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open connections; for those beyond others end that wait for their clients.
    pub connections_max: usize,
    /// Request line and headers, in bytes.
    pub header_bytes_max: usize,
    /// To receive them; also how long a connection may be idle.
    pub header_read_max: Duration,
    /// A request body, in bytes.
    pub request_bytes_max: usize,
    /// To receive it.
    pub body_read_max: Duration,
    /// To receive one without a valid key.
    pub body_unproven_read_max: Duration,
    /// For open requests to end at a stop.
    pub stop_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: limits::CONNECTIONS_MAX,
            header_bytes_max: limits::HEADER_BYTES_MAX,
            header_read_max: Duration::from_millis(limits::HEADER_READ_MS_MAX),
            request_bytes_max: limits::REQUEST_BYTES_MAX,
            body_read_max: Duration::from_millis(limits::BODY_READ_MS_MAX),
            body_unproven_read_max: Duration::from_millis(limits::BODY_UNPROVEN_READ_MS_MAX),
            stop_max: Duration::from_millis(limits::STOP_MS_MAX),
        }
    }
}
