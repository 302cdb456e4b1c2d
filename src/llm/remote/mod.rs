//! A model on a server: everything that does not depend on the protocol.
//!
//! A [`Wire`](wire::Wire) encodes and decodes one protocol, and has no socket, no clock and no key.
//! This module has the settings, the retries, the deadline, the identifiers of calls and the
//! reports of failures, the same for every protocol.

pub(super) mod answer;
mod retry;
pub(super) mod wire;
pub(super) mod client;
