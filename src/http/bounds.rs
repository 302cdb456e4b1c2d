//! Limits of requests and connections, with the defaults of `types/limits.rs`.

use crate::types::limits;
use std::time::Duration;

/// Limits of requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open connections. Beyond this, a connection that waits for its client is closed.
    pub connections_max: usize,
    /// Request line and headers, in bytes.
    pub header_bytes_max: usize,
    /// Time to receive the headers; also the idle time of a connection.
    pub header_read_max: Duration,
    /// A request body, in bytes.
    pub request_bytes_max: usize,
    /// Time to receive the body.
    pub body_read_max: Duration,
    /// Time to receive the body of a request without a valid key.
    pub body_unproven_read_max: Duration,
    /// Time for open requests to finish at a stop.
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
