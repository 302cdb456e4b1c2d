//! A model behind a server: all that does not depend on what the server speaks.
//!
//! A [`Wire`](wire::Wire) knows the bytes of one protocol, both ways, and nothing else: no socket, no clock, no key.
//! Here are the settings, the tries, the deadline, the identifiers of calls, and what is told of a
//! failure, the same for every wire.

pub(super) mod answer;
mod retry;
pub(super) mod wire;
pub(super) mod client;
